"""How good predictions are: class scores, number scores, and their spread over seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def class_scores(predicted: Sequence[int], gold: Sequence[int], classes: Sequence[str]) -> dict[str, float]:
    """Accuracy, macro-F1 over the classes that occur, and the Matthews correlation."""
    from sklearn import metrics  # slow to import, and most commands need no score

    _check(predicted, gold, len(classes))
    # one class everywhere has no correlation; scikit-learn would warn before it says so
    varied = len({*predicted, *gold}) > 1
    return {
        "accuracy": float(metrics.accuracy_score(gold, predicted)),
        "macro_f1": float(metrics.f1_score(gold, predicted, average="macro", zero_division=0.0)),
        "mcc": float(metrics.matthews_corrcoef(gold, predicted)) if varied else 0.0,
    }


def confusion(predicted: Sequence[int], gold: Sequence[int], classes: Sequence[str]) -> list[list[int]]:
    """How often each gold class (row) was called each class (column)."""
    _check(predicted, gold, len(classes))
    table = [[0] * len(classes) for _ in classes]
    for called, true in zip(predicted, gold, strict=True):
        table[true][called] += 1
    return table


def number_scores(predicted: Sequence[float], gold: Sequence[float]) -> dict[str, float]:
    """Pearson and Spearman correlation, and the mean squared error."""
    from scipy import stats

    assert len(predicted) == len(gold) > 0, "one prediction for each gold number"
    said, true = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    return {
        "pearson": _correlation(stats.pearsonr, said, true),
        "spearman": _correlation(stats.spearmanr, said, true),
        "mse": float(np.mean((said - true) ** 2)),
    }


def spread(scores: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Mean, sample standard deviation, smallest and largest of each score over several seeds."""
    assert scores and all(one.keys() == scores[0].keys() for one in scores), "the same scores from each seed"
    return {name: _summary(np.array([one[name] for one in scores])) for name in scores[0]}


def _summary(values: Numbers) -> dict[str, float]:
    return {
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _correlation(measure: Callable[..., Any], said: Numbers, true: Numbers) -> float:
    # a model that says the same of every text knows nothing of them: 0, where scipy says NaN
    if _is_constant(said) or _is_constant(true):
        return 0.0
    return float(measure(said, true).statistic)


def _is_constant(numbers: Numbers) -> bool:
    """All equal, up to what rounding can do."""
    return bool(np.ptp(numbers) <= 1e-12 * np.abs(numbers).max())


def _check(predicted: Sequence[int], gold: Sequence[int], classes: int) -> None:
    assert len(predicted) == len(gold) > 0, "one prediction for each gold class"
    assert all(0 <= index < classes for index in (*predicted, *gold)), "indices of the classes"
