"""A batch on its way from the token file to the model: what the corruption steps hand to each other."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One epoch's examples: each is a first and a second stretch of the token file (the second may be empty)."""

    stretches: np.ndarray  # (N, 4) begin and end of the first, begin and end of the second
    follows: np.ndarray | None = None  # (N,) 0 where the second really follows the first, 1 where not

    def __len__(self) -> int:
        return len(self.stretches)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch on its way: B rows of L positions, in numpy."""

    tokens: np.ndarray  # (B, L)
    segments: np.ndarray  # (B, L)
    visible: np.ndarray  # (B, L) False on padding
    follows: np.ndarray | None = None  # (B,)
    units: np.ndarray | None = None  # (B, L) uint8, bits where words, phrases and entities begin; 0 off the text
    targets: np.ndarray | None = None  # (B, L)
    edges: np.ndarray | None = None  # (B, L, 2) places just before and just after the span of a hidden token, or -1
