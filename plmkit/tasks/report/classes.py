"""Scores of classes: one by one, in resamples, and which are confused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from plmkit.tasks.report.bootstrap import Interval, divided, intervals
from plmkit.tasks.report.report import ClassScore, Confused


def class_table(
    predicted: Sequence[int] | np.ndarray, gold: Sequence[int] | np.ndarray, names: Sequence[str]
) -> tuple[tuple[ClassScore, ...], tuple[ClassScore, ...]]:
    """Precision, recall, F1 and support of every class, and their macro and weighted means.

    Of numbers of classes, or of marks (rows, classes) where a row may have several.
    """
    from sklearn.metrics import precision_recall_fscore_support  # slow to import

    numbers = range(len(names))
    each = precision_recall_fscore_support(gold, predicted, labels=numbers, zero_division=0.0)
    rows = tuple(class_score(name, *own) for name, own in zip(names, np.array(each).T.tolist(), strict=True))
    return rows, means_of(rows)


def class_score(name: str, precision: float, recall: float, f1: float, support: int) -> ClassScore:
    return ClassScore(
        name=name, precision=float(precision), recall=float(recall), f1=float(f1), support=int(support)
    )  # fmt: skip


def table_of(types: Sequence[dict[str, Any]]) -> tuple[tuple[ClassScore, ...], tuple[ClassScore, ...]]:
    """The same from the scores of types of spans, or of tags."""
    rows = tuple(
        class_score(one["type"], one["precision"], one["recall"], one["f1"], one["support"]) for one in types
    )  # fmt: skip
    return rows, means_of(rows)


def means_of(rows: Sequence[ClassScore]) -> tuple[ClassScore, ...]:
    """Macro: every class counts the same; weighted: by its support."""
    if not rows:
        return ()
    support = np.array([one.support for one in rows])
    table = np.array([[one.precision, one.recall, one.f1] for one in rows])
    weighted = np.average(table, axis=0, weights=support) if support.any() else np.zeros(3)
    total = int(support.sum())
    found = {"macro": table.mean(0).tolist(), "weighted": weighted.tolist()}
    return tuple(
        ClassScore(name=name, precision=mean[0], recall=mean[1], f1=mean[2], support=total)
        for name, mean in found.items()
    )


def confusions(matrix: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[Confused, ...]:
    """Every two classes that were confused, the most frequent first."""
    found = [
        Confused(label=names[true], prediction=names[other], rows=rows, share=rows / sum(row))
        for true, row in enumerate(matrix)
        for other, rows in enumerate(row)
        if rows and other != true
    ]
    return tuple(sorted(found, key=lambda one: -one.rows))


def class_intervals(predicted: Sequence[int], gold: Sequence[int], classes: int) -> dict[str, Interval]:
    """Of accuracy, macro-F1 and the Matthews correlation."""

    def scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        true, found = values.T
        return scores_of(*(weights @ one for one in counted(true, found, classes)))

    return intervals(np.stack([gold, predicted], axis=1), scores)


def counted(true: np.ndarray, found: np.ndarray, classes: int) -> tuple[csr_matrix, csr_matrix, csr_matrix]:
    """(rows, classes) each: where a class is right, where it is predicted, where it is the label."""

    def marks(numbers: np.ndarray, wanted: np.ndarray) -> csr_matrix:
        return csr_matrix((wanted.astype(float), (np.arange(len(numbers)), numbers)), shape=(len(numbers), classes))

    everywhere = np.ones(len(true))
    return marks(true, true == found), marks(found, everywhere), marks(true, everywhere)


def scores_of(right: np.ndarray, found: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    """From counts (R, classes), as scikit-learn defines them: macro-F1 is over the classes that occur."""
    rows, correct = true.sum(1), right.sum(1)
    spread = (rows**2 - (found**2).sum(1)) * (rows**2 - (true**2).sum(1))
    return {
        "accuracy": correct / rows,
        "macro_f1": macro_f1(right, found, true),
        "mcc": divided(correct * rows - (found * true).sum(1), np.sqrt(np.maximum(spread, 0.0))),
    }


def macro_f1(right: np.ndarray, found: np.ndarray, true: np.ndarray) -> np.ndarray:
    occurring = found + true > 0
    return divided(divided(2 * right, found + true).sum(1), occurring.sum(1))
