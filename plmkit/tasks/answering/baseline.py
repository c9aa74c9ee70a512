"""Answers without a network: the sentence that shares the most words with the question."""

import re
from collections.abc import Iterable

from plmkit.tasks.answering.rows import Question

UNITS = re.compile("[\u4e00-\u9fa5]|[^\\W\u4e00-\u9fa5]+")  # a Chinese character, or a word
SENTENCES = re.compile(r"[^.!?。！？；\n]+(?:[.!?。！？；\n]+(?=\s|$|[\u4e00-\u9fa5])|[.!?。！？；\n]+|$)")
STOP = frozenset("the a an of in to and is was were are for on by with at from that this what who which when where how "
                 "did do does 的 是 了 在 和 有 什 么 哪 谁 多 少 个".split())  # fmt: skip


def sentence_answer(row: Question) -> str:
    """The first of the sentences with the most different words of the question."""
    asked = frozenset(units(row.text))
    sentences = [text for match in SENTENCES.finditer(row.other or "") if (text := match[0].strip())]
    return max(sentences, key=lambda text: len(asked & frozenset(units(text))), default="")


def units(text: str) -> Iterable[str]:
    return (unit for unit in UNITS.findall(text.lower()) if unit not in STOP)
