"""Orders of the parts of a paragraph as classes: those of one part, then those of two, and so on."""

from math import factorial

import numpy as np


def order_classes(parts: int) -> int:
    """Orders of up to this number of parts: 1, 3, 9, 33, 153 ..."""
    return sum(factorial(count) for count in range(1, parts + 1))


def classes_of(orders: np.ndarray) -> np.ndarray:
    """(N,) the class of each order: (N, parts) which of the parts, from 0, stands first, second, and so on.

    The orders of a number of parts are sorted as in a dictionary: 012, 021, 102, 120, 201, 210.
    """
    parts = orders.shape[1]
    smaller_after = np.triu(orders[:, None, :] < orders[:, :, None], 1).sum(axis=2)
    weights = np.array([factorial(parts - 1 - place) for place in range(parts)], dtype=np.int64)
    labels: np.ndarray = order_classes(parts - 1) + smaller_after @ weights
    return labels


def order_of(label: int) -> tuple[int, ...]:
    """The order that a class stands for."""
    parts = 1
    while order_classes(parts) <= label:
        parts += 1
    rank, left, order = label - order_classes(parts - 1), list(range(parts)), []
    for place in range(parts):
        number, rank = divmod(rank, factorial(parts - 1 - place))
        order.append(left.pop(number))
    return tuple(order)
