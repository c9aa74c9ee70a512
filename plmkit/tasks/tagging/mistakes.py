"""Sentences whose tags are wrong, with what the tags should have marked."""

from collections.abc import Sequence
from typing import cast

from plmkit.tasks.contract import Prediction, Row
from plmkit.tasks.report.report import Mistake
from plmkit.tasks.tagging.rows import WordRow
from plmkit.tasks.tagging.schemes import PLAIN, Marked, spans_of


def wrong_sentences(predictions: Sequence[Prediction], rows: Sequence[Row], scheme: str) -> list[Mistake]:
    """One mistake per sentence; its size is the number of spans that were missed or made up, or of wrong words."""
    found = []
    for prediction, row in zip(predictions, rows, strict=True):
        marks = word_marks if scheme == PLAIN else spans_of
        said, true = marks(prediction.label), marks(row.label)
        if wrong := set(said) ^ set(true):
            size = len(wrong) / 2 if scheme == PLAIN else len(wrong)
            words = cast(WordRow, row).words
            found.append(
                Mistake.of(
                    row, label=listed(true, wrong, words, scheme),
                    prediction=listed(said, wrong, words, scheme), size=float(size),
                )
            )  # fmt: skip
    return found


def word_marks(tags: Sequence[str]) -> list[Marked]:
    return [Marked(begin=place, end=place + 1, label=tag) for place, tag in enumerate(tags)]


def listed(spans: Sequence[Marked], wrong: set[Marked], words: Sequence[str], scheme: str) -> str:
    """`LOC: 北京 | PER: 王小明`; of words, only the wrong ones."""
    shown = [span for span in spans if scheme != PLAIN or span in wrong]
    glue = "" if all(len(word) == 1 for word in words) else " "
    return " | ".join(f"{span.label}: {glue.join(words[span.begin : span.end])}" for span in shown)
