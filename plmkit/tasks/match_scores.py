"""How well cosines tell which texts match: against scores, against 0 and 1, and in finding the partner of each text."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plmkit.tasks.scores import number_scores

DEPTHS = (1, 10)  # of recall
BLOCK = 1024  # texts whose partners are looked for at once
Block = Callable[[slice], np.ndarray]  # some first texts → their scores with all second texts


def graded_scores(cosines: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Correlations of the cosine with a score."""
    found = number_scores(cosines.tolist(), labels.tolist())
    return {name: found[name] for name in ("spearman", "pearson")} | {"rows": len(labels)}


def binary_scores(cosines: np.ndarray, labels: np.ndarray, threshold: float) -> dict[str, Any]:
    """Average precision, and accuracy and F1 of the pairs whose cosine is at least the threshold."""
    from sklearn import metrics  # slow to import

    predicted = cosines >= threshold
    return {
        "ap": float(metrics.average_precision_score(labels, cosines)),
        "accuracy": float(np.mean(predicted == (labels > 0))),
        "f1": float(metrics.f1_score(labels > 0, predicted, zero_division=0.0)),
        "spearman": number_scores(cosines.tolist(), labels.tolist())["spearman"],
        "threshold": float(threshold),
        "rows": len(labels),
    }


def best_threshold(cosines: np.ndarray, labels: np.ndarray) -> float:
    """The threshold with the highest accuracy, halfway between two cosines; of several, the lowest."""
    order = np.argsort(cosines, kind="stable")
    found, true = cosines[order], labels[order] > 0
    # at place i, the pairs from i on are taken to match
    right = np.concatenate([[0], np.cumsum(~true)]) + np.concatenate([np.cumsum(true[::-1])[::-1], [0]])
    apart = np.concatenate([[True], found[1:] > found[:-1], [True]])  # equal cosines are on one side
    place = int(np.argmax(np.where(apart, right, -1)))
    around = found[max(0, place - 1) : place + 1]
    return (
        float(around.mean()) if 0 < place < len(found) else float(found[0] - 1e-3 if place == 0 else found[-1] + 1e-3)
    )


def partner_scores(block: Block, texts: Sequence[str], others: Sequence[str]) -> dict[str, Any]:
    """MRR and recall of the second text of each pair, among all second texts, for its first text.

    `block` scores them in the order in which each text occurs first; other partners of a text do not count against it.
    """
    found = np.array([rank for rank, _ in partners_of(block, texts, others)])
    return {**{name: float(np.mean(values)) for name, values in pair_scores(found).items()},
            "rows": len(texts), "texts": len(set(others))}  # fmt: skip


def pair_scores(ranks: np.ndarray) -> dict[str, np.ndarray]:
    """Every score of each pair, by the rank of its second text."""
    return {"mrr": 1 / ranks, **{f"recall_at_{k}": ranks <= k for k in DEPTHS}}


def partners_of(block: Block, texts: Sequence[str], others: Sequence[str]) -> list[tuple[int, str]]:
    """For each pair the rank of its second text, and the best of those that are no partner of the first one."""
    firsts, seconds = list(dict.fromkeys(texts)), list(dict.fromkeys(others))
    queries, places = numbers_of(texts, firsts), numbers_of(others, seconds)
    partners: list[list[int]] = [[] for _ in firsts]
    for query, place in zip(queries, places, strict=True):
        partners[query].append(place)
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for start in range(0, len(firsts), BLOCK):
        scores = block(slice(start, start + BLOCK))
        for query, (row, mine) in enumerate(zip(scores, partners[start : start + BLOCK], strict=True), start):
            against = row.copy()
            against[mine] = -np.inf
            nearest = seconds[int(against.argmax())]
            found |= {(query, place): (1 + int((against >= row[place]).sum()), nearest) for place in mine}
    return [found[pair] for pair in zip(queries, places, strict=True)]


def numbers_of(texts: Sequence[str], unique: Sequence[str]) -> list[int]:
    numbers = {text: number for number, text in enumerate(unique)}
    return [numbers[text] for text in texts]


def first_of_each(texts: Sequence[str]) -> list[int]:
    """Where each different text occurs first."""
    numbers: dict[str, int] = {}
    for number, text in enumerate(texts):
        numbers.setdefault(text, number)
    return list(numbers.values())
