"""Hiding words that stand together."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import ClassVar

import numpy as np

from plmkit.corruption.mask.masking import Masking, check_settings, rounded, units_of
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.segmentation.choosing import AnySegmenter


@dataclass(frozen=True, kw_only=True)
class NgramMasking(Masking):
    """Hide one to three words in a row, n of them with a probability like 1/n (Lan et al., 2020, 4.1)."""

    rate: float = 0.15
    longest: int = 3  # words
    masked: float = 0.8
    swapped: float = 0.1
    most: int | None = None  # hide no more than this many pieces in a row
    copies: int | None = None  # static masking: this many fixed masks, used in turn; None: a new one each epoch
    segmenter: AnySegmenter | None = None  # finds the words of languages that do not space them; None: `##` tells
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_settings(self)
        if self.longest < 1:
            raise SettingError(f"corruption.longest is a number of words, 1 or more; found {self.longest}.")

    def for_validation(self) -> TokenMasking:
        return TokenMasking()

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a piece is hidden: n-grams from random words on, while there is room."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        scores, sizes = draws.uniform(length), draws.uniform(length)
        rooms = rounded(self.rate, rows.visible.sum(axis=1), self.most)
        chosen = np.zeros_like(words.text)
        for row, begins in enumerate(words.begins):
            starts = np.flatnonzero(begins)
            taken = self.take(
                starts.tolist(),
                words.after[row, starts].tolist(),
                np.argsort(scores[row, starts]).tolist(),
                sizes[row, starts].tolist(),
                int(rooms[row]),
            )
            chosen[row, starts[taken]] = True
        return words.whole(chosen)

    def take(self, starts: list[int], ends: list[int], order: list[int], sizes: list[float], room: int) -> list[int]:
        """Numbers of the words to hide; a draw of `sizes` says how many from a word on."""
        free = [True] * len(starts)
        for word in order:
            if not room:
                break
            if not free[word]:
                continue
            count = self.words(sizes[word], neighbours(starts, ends, word, self.longest))
            while count and ends[word + count - 1] - starts[word] > room:  # too long: shorter
                count -= 1
            if count and all(free[word : word + count]):
                free[word : word + count] = [False] * count
                room -= ends[word + count - 1] - starts[word]
        taken = [word for word, is_free in enumerate(free) if not is_free]
        if not taken and starts:  # no word fits, but every row hides something
            taken = [min(order, key=lambda word: ends[word] - starts[word])]
        return taken

    def words(self, draw: float, available: int) -> int:
        """How many words: n with a probability like 1/n among those available."""
        sums = weights(self.longest)
        return 1 + bisect_right(sums, draw * sums[available - 1], 0, available - 1)


@cache
def weights(longest: int) -> tuple[float, ...]:
    """1, 1 + 1/2, 1 + 1/2 + 1/3 ..."""
    return tuple(accumulate(1 / count for count in range(1, longest + 1)))


def neighbours(starts: list[int], ends: list[int], word: int, most: int) -> int:
    """How many words stand together from this one on, at most so many; a special token ends them."""
    count = 1
    while count < most and word + count < len(starts) and ends[word + count - 1] == starts[word + count]:
        count += 1
    return count
