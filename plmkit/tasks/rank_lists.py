"""The lists of candidates that an epoch trains on."""

from collections.abc import Iterator

import numpy as np


def lists_of(relevant: np.ndarray, others: np.ndarray, size: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """The candidates of one query in lists of up to `size`, each of one relevant candidate and others.

    Every candidate is in at least one list: the relevant ones take turns, and so do the others, both in random order.
    Without one of the two sorts, the lists have the other alone.
    """
    relevant, others = random.permutation(relevant), random.permutation(others)
    if not len(relevant) or not len(others):
        alone = np.concatenate([relevant, others])
        yield from (alone[start : start + size] for start in range(0, len(alone), size))
        return
    beside = min(size - 1, len(others))
    for turn in range(list_count(len(relevant), len(others), size)):
        chosen = np.arange(turn * beside, (turn + 1) * beside) % len(others)
        yield np.concatenate([relevant[turn % len(relevant)][None], others[chosen]])


def list_count(relevant: int, others: int, size: int) -> int:
    """The number of lists, which no epoch changes."""
    return max(relevant, -(-others // min(size - 1, others)))
