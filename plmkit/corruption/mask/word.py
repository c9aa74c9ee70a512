"""Masking whole words, and n-grams of them."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np

from plmkit.corruption.mask.masking import NEVER, check_max_length, units_of
from plmkit.corruption.mask.token import BudgetMasking
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.segmentation.choosing import AnySegmenter


@dataclass(frozen=True, kw_only=True)
class WordMasking(BudgetMasking):
    """Mask all pieces of a word or none; each piece draws its own 80/10/10 (Cui et al., 2019, 2.2)."""

    segmenter: AnySegmenter | None = None  # finds the words of languages without spaces; none: words by `##`

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a piece is masked: words in random order, skipping those that exceed the budget."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        begins = words.begins
        order = np.argsort(np.where(begins, draws.uniform(length), NEVER), axis=1)
        sizes = np.take_along_axis(words.after - words.first, order, axis=1)
        counts = begins.sum(axis=1)
        rooms = self.count(rows.visible.sum(axis=1))
        chosen = np.zeros_like(begins)
        for row, (count, room) in enumerate(zip(counts.tolist(), rooms.tolist(), strict=True)):
            chosen[row, order[row, fitting(sizes[row, :count].tolist(), room)]] = True
        return words.whole(chosen)


def fitting(sizes: list[int], room: int) -> list[int]:
    """The words that fit, taken in this order; if none fits, the shortest, so that a row masks at least one."""
    taken = []
    for number, size in enumerate(sizes):
        if size <= room:
            taken.append(number)
            room -= size
            if not room:
                break
    return taken or ([sizes.index(min(sizes))] if sizes else [])


@dataclass(frozen=True, kw_only=True)
class NgramMasking(BudgetMasking):
    """Mask one to three adjacent words, n of them with a probability proportional to 1/n (Lan et al., 2020, 4.1)."""

    max_length: int = 3  # maximum number of words of an n-gram
    segmenter: AnySegmenter | None = None  # finds the words of languages without spaces; none: words by `##`

    def __post_init__(self) -> None:
        super().__post_init__()
        check_max_length(self.max_length)

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a piece is masked: n-grams that start at random words, within the budget."""
        length = rows.tokens.shape[1]
        words = units_of(rows, vocabulary)
        scores, sizes = draws.uniform(length), draws.uniform(length)
        rooms = self.count(rows.visible.sum(axis=1))
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
        """Indices of the words to mask; the draws in `sizes` give the number of words of each n-gram."""
        free = [True] * len(starts)
        for word in order:
            if not room:
                break
            if not free[word]:
                continue
            count = self.words(sizes[word], neighbours(starts, ends, word, self.max_length))
            while count and ends[word + count - 1] - starts[word] > room:  # too long: shorten
                count -= 1
            if count and all(free[word : word + count]):
                free[word : word + count] = [False] * count
                room -= ends[word + count - 1] - starts[word]
        taken = [word for word, is_free in enumerate(free) if not is_free]
        if not taken and starts:  # no word fits, but every row must mask one
            taken = [min(order, key=lambda word: ends[word] - starts[word])]
        return taken

    def words(self, draw: float, available: int) -> int:
        """Number of words: n with a probability proportional to 1/n, up to those available."""
        sums = weights(self.max_length)
        return 1 + bisect_right(sums, draw * sums[available - 1], 0, available - 1)


@cache
def weights(max_length: int) -> tuple[float, ...]:
    """1, 1 + 1/2, 1 + 1/2 + 1/3 ..."""
    return tuple(accumulate(1 / count for count in range(1, max_length + 1)))


def neighbours(starts: list[int], ends: list[int], word: int, max_length: int) -> int:
    """Number of adjacent words from this one on, at most `max_length`; a special token ends them."""
    count = 1
    while count < max_length and word + count < len(starts) and ends[word + count - 1] == starts[word + count]:
        count += 1
    return count
