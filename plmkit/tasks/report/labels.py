"""Scores of any number of classes per row, in resamples, and the rows with wrong ones."""

from collections.abc import Sequence

import numpy as np

from plmkit.language import comma
from plmkit.tasks.contract import Row
from plmkit.tasks.report.bootstrap import Interval, divided, intervals
from plmkit.tasks.report.report import Mistake, Mistakes


def label_intervals(predicted: np.ndarray, gold: np.ndarray) -> dict[str, Interval]:
    """Of micro-F1, macro-F1 and rows with exactly their labels, from marks (rows, classes)."""

    def scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        found, true = np.split(values, 2, axis=1)
        right, marked = weights @ (found * true), weights @ (found + true)
        return {
            "micro_f1": divided(2 * right.sum(1), marked.sum(1)),
            "macro_f1": divided(2 * right, marked).mean(1),
            "exact_match": weights @ (found == true).all(1) / weights.sum(1),
        }

    return intervals(np.concatenate([predicted, gold], axis=1).astype(np.float64), scores)


def wrong_labels(
    rows: Sequence[Row], predicted: np.ndarray, gold: np.ndarray, probabilities: np.ndarray,
    names: Sequence[str],
) -> Mistakes:  # fmt: skip
    """Rows with a label too many or too few; those that were most certain of it first."""
    certainty = np.where(predicted, probabilities, 1 - probabilities)
    sizes = np.where(predicted != gold, certainty, 0.0).max(1)
    listed = [[comma().join(np.array(names)[row]) for row in marks.astype(bool)] for marks in (gold, predicted)]
    return Mistakes.of(
        [
            Mistake.of(row, other=row.other, label=true, prediction=found, size=float(size))
            for row, true, found, size in zip(rows, *listed, sizes, strict=True)
            if true != found
        ]
    )
