"""Boundaries of words, phrases and entities: computed once for a corpus, stored beside its tokens.

A segmenter is chosen by name, as in `--set corruption.segmenter=Jieba`; a new one is a class in this folder, listed here.
"""
