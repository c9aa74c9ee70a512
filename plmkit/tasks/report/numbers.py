"""Intervals of how well numbers agree with labels: correlations, errors, average precision."""

import numpy as np

from plmkit.tasks.report.bootstrap import Interval, divided, intervals


def number_intervals(predicted: np.ndarray, gold: np.ndarray) -> dict[str, Interval]:
    """Of Pearson and Spearman correlation, mean squared and mean absolute error."""
    return intervals(np.stack([predicted, gold], axis=1), number_scores)


def number_scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    found, true = values.T
    rows = weights.sum(1)
    return {
        "pearson": correlation(found, true, weights),
        "spearman": correlation(ranks(found, weights), ranks(true, weights), weights),
        "mse": weights @ (found - true) ** 2 / rows,
        "mae": weights @ np.abs(found - true) / rows,
    }


def binary_intervals(cosines: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, Interval]:
    """Of average precision, of accuracy and F1 from a threshold on, and of the Spearman correlation."""

    def scores(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        found, true = values.T
        predicted, relevant = found >= threshold, true > 0
        return {
            "ap": average_precision(found, relevant, weights),
            "accuracy": weights @ (predicted == relevant) / weights.sum(1),
            "f1": divided(2 * (weights @ (predicted & relevant)), weights @ predicted + weights @ relevant),
            "spearman": correlation(ranks(found, weights), ranks(true, weights), weights),
        }

    return intervals(np.stack([cosines, labels], axis=1), scores)


def correlation(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's, of rows that occur as often as their weights, (R, U); 0 where one side is constant."""
    rows = weights.sum(1, keepdims=True)
    left, right = (side - (weights * side).sum(1, keepdims=True) / rows for side in (one, other))
    product, *squares = ((weights * pair).sum(1) for pair in (left * right, left**2, right**2))
    return divided(product, np.sqrt(squares[0] * squares[1]))


def ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R, U) the rank of every value among as many equal ones as its weight; equal values share their mean rank."""
    order = np.argsort(values, kind="stable")
    begins = group_begins(values[order])
    grouped = np.add.reduceat(weights[:, order], begins, axis=1)
    middle = np.cumsum(grouped, axis=1) - (grouped - 1) / 2
    out = np.empty_like(weights)
    out[:, order] = np.repeat(middle, np.diff(np.append(begins, len(values))), axis=1)
    return out


def average_precision(scores: np.ndarray, relevant: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R,) as scikit-learn defines it: equal scores are one threshold."""
    order = np.argsort(-scores, kind="stable")
    begins = group_begins(scores[order])
    right, rows = (np.add.reduceat(some[:, order], begins, axis=1) for some in (weights * relevant, weights))
    precision = divided(np.cumsum(right, axis=1), np.cumsum(rows, axis=1))
    return divided((right * precision).sum(1), right.sum(1))


def group_begins(ordered: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
