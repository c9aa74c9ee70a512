"""Scores of predicted classes and numbers, and their mean and standard deviation over seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def class_scores(predicted: Sequence[int], gold: Sequence[int], classes: Sequence[str]) -> dict[str, float]:
    """Accuracy, macro-F1 over the classes that occur, and the Matthews correlation."""
    from sklearn import metrics  # slow to import, and most commands do not score

    _check(predicted, gold, len(classes))
    # a single class has no correlation; scikit-learn would warn and return 0
    varied = len({*predicted, *gold}) > 1
    return {
        "accuracy": float(metrics.accuracy_score(gold, predicted)),
        "macro_f1": float(metrics.f1_score(gold, predicted, average="macro", zero_division=0.0)),
        "mcc": float(metrics.matthews_corrcoef(gold, predicted)) if varied else 0.0,
    }


def label_scores(predicted: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """F1 of (rows, classes): of all answers together, and as a mean over classes; and the share of rows all right."""
    from sklearn import metrics

    def f1(average: str) -> float:
        return float(metrics.f1_score(gold, predicted, average=average, zero_division=0.0))

    whole = float(metrics.accuracy_score(gold, predicted))
    return {"micro_f1": f1("micro"), "macro_f1": f1("macro"), "exact_match": whole}


def confusion(predicted: Sequence[int], gold: Sequence[int], classes: Sequence[str]) -> list[list[int]]:
    """How often each gold class (row) was predicted as each class (column)."""
    _check(predicted, gold, len(classes))
    table = [[0] * len(classes) for _ in classes]
    for found, true in zip(predicted, gold, strict=True):
        table[true][found] += 1
    return table


def number_scores(predicted: Sequence[float], gold: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation, the mean squared and the mean absolute error."""
    from scipy import stats

    assert len(predicted) == len(gold) > 0, "one prediction for each gold number"
    found, true = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    return {
        "pearson": _correlation(stats.pearsonr, found, true),
        "spearman": _correlation(stats.spearmanr, found, true),
        "mse": float(np.mean((found - true) ** 2)),
        "mae": float(np.mean(np.abs(found - true))),
    }


def mean_and_std(scores: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean, sample standard deviation, smallest and largest of each score over several seeds."""
    assert scores and all(one.keys() == scores[0].keys() for one in scores), "the same scores from each seed"
    return {name: summary_of([one[name] for one in scores]) for name in scores[0]}


def summary_of(numbers: Sequence[float]) -> dict[str, float]:
    """Mean, sample standard deviation, smallest and largest."""
    values = np.asarray(numbers, dtype=np.float64)
    return {
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _correlation(measure: Callable[..., Any], found: Numbers, true: Numbers) -> float:
    # constant predictions carry no information: 0, where scipy returns NaN
    if _is_constant(found) or _is_constant(true):
        return 0.0
    return float(measure(found, true).statistic)


def _is_constant(numbers: Numbers) -> bool:
    """All equal up to rounding."""
    return bool(np.ptp(numbers) <= 1e-12 * np.abs(numbers).max())


def _check(predicted: Sequence[int], gold: Sequence[int], classes: int) -> None:
    assert len(predicted) == len(gold) > 0, "one prediction for each gold class"
    assert all(0 <= index < classes for index in (*predicted, *gold)), "indices of the classes"


def over_seeds(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of each score over the seeds."""
    out = {}
    for part in ("train", "dev", "test"):
        scores = [
            {name: value for name, value in run[part].items() if isinstance(value, float)}
            for run in runs
            if part in run
        ]
        if scores:
            out[part] = mean_and_std(scores)
    return out
