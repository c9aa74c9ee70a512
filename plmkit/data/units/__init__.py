"""Boundaries of words, phrases and entities: computed once for a corpus, stored beside its tokens.

A segmenter is chosen by name, as in `--set corruption.segmenter=Jieba`; `choosing.py` lists them all.
"""
