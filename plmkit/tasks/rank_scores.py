"""How well candidates are ordered: MAP, MRR, hits and nDCG, and what a random order would reach."""

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

HITS = (1, 3, 10)
DEPTH = 10  # of nDCG


def rank_scores(scores: Sequence[np.ndarray], relevance: Sequence[np.ndarray]) -> dict[str, Any]:
    """Means over the queries that have a relevant candidate (relevance above 0); the others are counted.

    Of candidates with equal scores, those that are not relevant come first, so that the order of a file helps nobody.
    """
    found = query_scores(scores, relevance)
    queries = len(found["map"])
    means = {name: mean(values) for name, values in found.items()}
    return {**means, "queries": queries, "without_relevant": len(scores) - queries}


def query_scores(scores: Sequence[np.ndarray], relevance: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Every score of each query that has a relevant candidate."""
    kept = [(found, true) for found, true in zip(scores, relevance, strict=True) if (true > 0).any()]
    first = np.array([first_rank(found, true) for found, true in kept])
    return {
        "map": np.array([average_precision(found, true > 0) for found, true in kept]),
        "mrr": 1 / first,
        **{f"hits_at_{k}": first <= k for k in HITS},
        f"ndcg_at_{DEPTH}": np.array([ndcg(found, true) for found, true in kept]),
    }


def mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def first_rank(scores: np.ndarray, relevance: np.ndarray) -> int:
    """The rank of the first relevant candidate."""
    best, others = scores[relevance > 0].max(), scores[relevance <= 0]
    return 1 + int((others >= best).sum())


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score  # slow to import

    return float(average_precision_score(relevant, scores))


def ndcg(scores: np.ndarray, relevance: np.ndarray) -> float:
    from sklearn.metrics import ndcg_score

    return float(ndcg_score(relevance[None], scores[None], k=DEPTH)) if len(scores) > 1 else 1.0


def random_average_precision(relevant: int, candidates: int) -> float:
    """The expected average precision of a random order (Bestgen, 2015)."""
    harmonic = sum(1 / rank for rank in range(1, candidates + 1))
    following = (relevant - 1) / (candidates - 1) * (candidates - harmonic) if candidates > 1 else 0.0
    return (harmonic + following) / candidates


def random_reciprocal_rank(relevant: int, candidates: int) -> float:
    """The expected reciprocal rank of the first relevant candidate in a random order."""
    orders = comb(candidates, relevant)
    places = range(1, candidates - relevant + 2)
    return sum(comb(candidates - place, relevant - 1) / orders / place for place in places)
