"""A batch on its way from the token file to the model: what the corruption steps hand to each other."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One epoch's examples: each is one or more stretches of the token file, which stand in a row one after another."""

    stretches: np.ndarray  # (N, 2 K) begin and end of each row's K stretches, empty ones last; with `rows`, (S, 2)
    rows: np.ndarray | None = None  # (N + 1,) stretch where each row begins, and the end, where not every row has K
    segments: np.ndarray | None = None  # (N, K) or (S,) of each stretch; None: 0, 1, ... in a row
    follows: np.ndarray | None = None  # (N,) 0 where a row stands as in the text, 1 where it was changed, or IGNORE

    def __len__(self) -> int:
        return len(self.stretches) if self.rows is None else len(self.rows) - 1

    def of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The stretches of the chosen rows: (M, 2) begin and end, (M,) which of the chosen, (M,) segment."""
        if self.rows is None:
            many = self.stretches.shape[1] // 2
            stretches = self.stretches[chosen].reshape(-1, 2)
            owners, counted = np.divmod(np.arange(len(stretches)), many)
            segments = counted if self.segments is None else self.segments[chosen].reshape(-1)
        else:
            counts = self.rows[chosen + 1] - self.rows[chosen]
            owners = np.repeat(np.arange(len(chosen)), counts)
            counted = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(self.rows[chosen], counts) + counted
            stretches = self.stretches[places]
            segments = counted if self.segments is None else self.segments[places]
        filled = stretches[:, 1] > stretches[:, 0]
        return (stretches, owners, segments) if filled.all() else (stretches[filled], owners[filled], segments[filled])

    def blocks(self, size: int = 1 << 16) -> Iterator[np.ndarray]:
        """The numbers of all rows, some at a time: what is made of them stays small."""
        for start in range(0, len(self), size):
            yield np.arange(start, min(start + size, len(self)))

    def tokens(self) -> int:
        """How many tokens of text all rows have together."""
        if self.rows is None:
            return int(self.stretches[:, 1::2].sum() - self.stretches[:, ::2].sum())
        return int(self.stretches[:, 1].sum() - self.stretches[:, 0].sum())

    def only(self, chosen: np.ndarray) -> "Plan":
        """The plan with these rows alone, in this order."""
        follows = None if self.follows is None else self.follows[chosen]
        if self.rows is None:
            segments = None if self.segments is None else self.segments[chosen]
            return Plan(stretches=self.stretches[chosen], segments=segments, follows=follows)
        stretches, owners, segments = self.of(chosen)
        rows = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(chosen)))])
        return Plan(stretches=stretches, rows=rows, segments=segments, follows=follows)


def cuts(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens each of two texts loses when the longer one (the second if equal) loses one at a time."""
    excess = max(0, first + second - room)
    uneven = min(excess, abs(first - second))
    rest = excess - uneven
    cut_first, cut_second = rest // 2, rest - rest // 2
    return (cut_first + uneven, cut_second) if first > second else (cut_first, cut_second + uneven)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch on its way: B rows of L positions, in numpy."""

    tokens: np.ndarray  # (B, L)
    segments: np.ndarray  # (B, L)
    visible: np.ndarray  # (B, L) False on padding
    follows: np.ndarray | None = None  # (B,)
    corpus: np.ndarray | None = None  # (T,) all tokens of the text, to draw some as often as they occur
    units: np.ndarray | None = None  # (B, L) uint8, bits where words, phrases and entities begin; 0 off the text
    targets: np.ndarray | None = None  # (B, L)
    edges: np.ndarray | None = None  # (B, L, 2) places just before and just after the span of a hidden token, or -1
    reading: np.ndarray | None = None  # (B, L, 2) a position is read by those whose second number is above its first
    backward: np.ndarray | None = None  # (B,) True where a row runs from its end to its beginning
