"""Scores of tags in resamples of sentences, and the sentences whose tags are wrong."""

from collections.abc import Sequence

import numpy as np

from plmkit.tasks.report.bootstrap import Interval, divided, intervals
from plmkit.tasks.report.classes import macro_f1
from plmkit.tasks.tagging.schemes import PLAIN, spans_of
from plmkit.tasks.tagging.scores import Tags, strict_spans


def tag_intervals(predicted: Tags, gold: Tags, scheme: str) -> dict[str, Interval]:
    """Of every score of tags, by sentence."""
    words = np.array([word_counts(found, true) for found, true in zip(predicted, gold, strict=True)])
    if scheme == PLAIN:
        return plain_intervals(predicted, gold, words)
    spans = [span_counts(spans_of(found), spans_of(true)) for found, true in zip(predicted, gold, strict=True)]
    pairs = zip(strict_spans(predicted, scheme), strict_spans(gold, scheme), strict=True)
    strict = [span_counts(found, true) for found, true in pairs]
    return intervals(np.concatenate([np.array(spans), np.array(strict), words], axis=1), span_scores)


def word_counts(found: Sequence[str], true: Sequence[str]) -> tuple[int, int]:
    """Right words, and words."""
    return sum(one == other for one, other in zip(found, true, strict=True)), len(true)


def span_counts(found: Sequence[object], true: Sequence[object]) -> tuple[int, int, int]:
    """Right spans, predicted spans, spans."""
    return len(set(found) & set(true)), len(found), len(true)


def span_scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Micro means over all spans, in both modes of seqeval."""
    right, found, true, strict_right, strict_found, strict_true, right_words, words = (weights @ values).T
    return {
        **shares("", right, found, true),
        **shares("strict_", strict_right, strict_found, strict_true),
        "accuracy": divided(right_words, words),
    }


def shares(prefix: str, right: np.ndarray, found: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    return {
        f"{prefix}precision": divided(right, found),
        f"{prefix}recall": divided(right, true),
        f"{prefix}f1": divided(2 * right, found + true),
    }


def plain_intervals(predicted: Tags, gold: Tags, words: np.ndarray) -> dict[str, Interval]:
    """Of accuracy and macro-F1 of tags that mark no spans."""
    names = sorted({tag for tags in (*predicted, *gold) for tag in tags})
    numbers, count = {name: number for number, name in enumerate(names)}, len(names)
    table = np.zeros((len(gold), 3 * count))  # right, predicted and true words of each tag
    for row, found, true in zip(table, predicted, gold, strict=True):
        for one, other in zip(found, true, strict=True):
            row[numbers[one]] += one == other
            row[count + numbers[one]] += 1
            row[2 * count + numbers[other]] += 1

    def scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        sums = weights @ values
        right, found, true = np.split(sums[:, : 3 * count], 3, axis=1)
        return {"accuracy": divided(sums[:, -2], sums[:, -1]), "macro_f1": macro_f1(right, found, true)}

    return intervals(np.concatenate([table, words], axis=1), scores)
