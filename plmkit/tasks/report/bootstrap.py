"""Bootstrap intervals: how much a score would vary with other rows of the same kind (Efron, 1979)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from plmkit.data.randomness import generator

RESAMPLES = 1000
LEVEL = 0.95
BOOTSTRAP = 23  # key of the random numbers
CELLS = 2_000_000  # weights that are drawn at once

# what the scores are computed from, (U, K), one line for each of the U different rows, and how often each of these
# occurs in every resample, (R, U) → each score in every resample, (R,); NaN where a resample has no such row
Scores = Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where a score lies in 95 % of the resamples."""

    low: float
    high: float


def intervals(values: np.ndarray, scores: Scores, seed: int = 0) -> dict[str, Interval]:
    """The percentile interval of every score of the rows, (N, K) numbers from which the scores are computed.

    Rows that are equal are drawn together, so that a large file of few different rows costs little, and the order of
    the rows changes nothing.
    """
    different, counts = np.unique(values, axis=0, return_counts=True)
    random, total = generator(seed, BOOTSTRAP), int(counts.sum())
    at_once = max(1, CELLS // len(different))
    found: dict[str, list[np.ndarray]] = {}
    for start in range(0, RESAMPLES, at_once):
        drawn = random.multinomial(total, counts / total, size=min(at_once, RESAMPLES - start))
        for name, made in scores(different, drawn.astype(np.float64)).items():
            found.setdefault(name, []).append(made)
    edges = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    quantiles = {name: np.nanquantile(np.concatenate(parts), edges) for name, parts in found.items()}
    return {name: Interval(low=float(low), high=float(high)) for name, (low, high) in quantiles.items()}


def mean_intervals(columns: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, Interval]:
    """The intervals of means over rows, one column, (N,), for each; NaN: the row does not count in this mean."""
    table = np.stack([np.asarray(column, dtype=np.float64) for column in columns.values()], axis=1)
    counted = ~np.isnan(table)

    def means(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        sums, rows = np.split(weights @ values, 2, axis=1)
        return dict(zip(columns, divided(sums, rows, empty=np.nan).T, strict=True))

    return intervals(np.concatenate([np.where(counted, table, 0.0), counted], axis=1), means, seed)


def divided(above: np.ndarray, below: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """A quotient that is `empty` where there is nothing to divide by."""
    above, below = np.broadcast_arrays(above, below)
    out = np.full(above.shape, empty)
    np.divide(above, below, out=out, where=below != 0)
    return out
