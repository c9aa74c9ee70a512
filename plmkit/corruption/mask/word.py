"""Hiding whole words."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.mask.masking import NEVER, Masking, check_settings, rounded, units_of
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.segmentation.choosing import AnySegmenter


@dataclass(frozen=True, kw_only=True)
class WordMasking(Masking):
    """Hide all pieces of a word or none; each piece draws its own 80/10/10 (Cui et al., 2019, 2.2)."""

    rate: float = 0.15
    masked: float = 0.8
    swapped: float = 0.1
    most: int | None = None  # hide no more than this many pieces in a row
    copies: int | None = None  # static masking: this many fixed masks, used in turn; None: a new one each epoch
    segmenter: AnySegmenter | None = None  # finds the words of languages that do not space them; None: `##` tells
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_settings(self)

    def for_validation(self) -> TokenMasking:
        return TokenMasking()

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a piece is hidden: words in random order, one that breaks the budget skipped."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        begins = words.begins
        order = np.argsort(np.where(begins, draws.uniform(length), NEVER), axis=1)
        sizes = np.take_along_axis(words.after - words.first, order, axis=1)
        counts = begins.sum(axis=1)
        rooms = rounded(self.rate, rows.visible.sum(axis=1), self.most)
        chosen = np.zeros_like(begins)
        for row, (count, room) in enumerate(zip(counts.tolist(), rooms.tolist(), strict=True)):
            chosen[row, order[row, fitting(sizes[row, :count].tolist(), room)]] = True
        return words.whole(chosen)


def fitting(sizes: list[int], room: int) -> list[int]:
    """Which words are taken, in this order, while there is room; where none fits, the shortest, so that one is."""
    taken = []
    for number, size in enumerate(sizes):
        if size <= room:
            taken.append(number)
            room -= size
            if not room:
                break
    return taken or ([sizes.index(min(sizes))] if sizes else [])
