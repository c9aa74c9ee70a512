"""Rows that begin with the text that the row before ended with, and streams read in both directions."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from plmkit.corruption.arrange.stream import Joined, StreamPlan
from plmkit.corruption.contract import Arrangement
from plmkit.data.rows import Plan, Rows, Spans, cuts
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr

FEWEST = 8  # tokens of a row: some of each part, and three special ones


@dataclass(frozen=True, kw_only=True)
class ReusedText(Arrangement["ReusedPlan"]):
    """Rows of `text first [SEP] second [SEP] [CLS]`, the second from elsewhere half of the time (Yang et al., 2019).

    The next row begins after the text, which it can read in its recurrent memory (2.5, 3.1; released code).
    """

    reuse: float = 0.5  # the first part of a row
    backward: bool = True  # half of the rows read the same text from its end
    segments: ClassVar[int] = 3
    needs: ClassVar[tuple[str, ...]] = ("cls", "sep", "end")
    in_streams: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"reversed"})

    def __post_init__(self) -> None:
        if not 0 < self.reuse < 1:
            raise SettingError(
                tr("corruption.reuse is a share of the row, between 0 and 1; found {reuse}.", reuse=self.reuse)
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> "ReusedPlan":
        if length < FEWEST:
            raise SettingError(
                tr(
                    "stages ask for rows of {length} tokens; ReusedText needs {fewest} or more.",
                    length=length,
                    fewest=FEWEST,
                )
            )
        joined = Joined(store=store, documents=rng.permutation(documents))
        first = round(self.reuse * length)
        count = max(1, (len(joined) - length) // first + 1)
        numbers = np.arange(2 * count if self.backward else count)
        return ReusedPlan(
            joined=joined, length=length, first=first, count=count, numbers=numbers, draws=rng.random((len(numbers), 3))
        )

    def fill(
        self, store: TokenStore, plan: "ReusedPlan", chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        rows = [plan.row(number) for number in chosen.tolist()]
        tokens = np.empty((len(rows), plan.length), dtype=np.int64)
        segments = np.zeros_like(tokens)
        tokens[:, -1], segments[:, -1] = vocabulary.cls, 2
        for line, segment, row in zip(tokens, segments, rows, strict=True):
            text = plan.joined.tokens(row.places, vocabulary.end)
            border = plan.first + row.size
            line[:border], line[border] = text[:border], vocabulary.sep
            line[border + 1 : -2], line[-2] = text[border:], vocabulary.sep
            segment[border + 1 : -1] = 1
        return Rows(
            tokens=tokens,
            segments=segments,
            visible=np.ones(tokens.shape, dtype=bool),
            reversed=np.array([row.reversed for row in rows]) if self.backward else None,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """Where a row's text stands in the stream."""

    places: np.ndarray  # (length - 3,)
    size: int  # tokens of the text before the separator, after the part that is read again
    reversed: bool


@dataclass(frozen=True, kw_only=True)
class ReusedPlan(Plan):
    """One epoch's rows: row r begins at place r * first of the stream; rows from `count` on read it from its end."""

    joined: Joined
    length: int
    first: int  # tokens at the beginning of a row that the next row may read in its recurrent memory
    count: int  # rows in one direction
    numbers: np.ndarray  # (N,) of the rows that are left
    draws: np.ndarray  # (2 count, 3) for each row: does its second text follow, where does its first end, whence else
    block: ClassVar[int] = 1 << 10

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def directions(self) -> int:
        """2 where no row of the second half, which reads from the end, is missing."""
        return len(self.numbers) // self.count if len(self.numbers) % self.count == 0 else 1

    @cached_property
    def borders(self) -> tuple[list[int], list[int]]:
        """Places where a sentence begins, in reading order; in the stream, and in the stream from its end."""
        forward = self.joined.sentence_starts()
        return forward.tolist(), (len(self.joined) - forward)[::-1].tolist()

    def row(self, chosen: int) -> Row:
        number = int(self.numbers[chosen])
        reverse, begin = number >= self.count, number % self.count * self.first
        size, second = self.cut(begin + self.first, self.borders[reverse], self.draws[number])
        places = np.arange(begin, begin + self.length - 3)
        places[self.first + size :] = np.arange(second, second + len(places) - self.first - size)
        places %= len(self.joined)
        return Row(places=len(self.joined) - 1 - places if reverse else places, size=size, reversed=reverse)

    def cut(self, begin: int, borders: list[int], draws: np.ndarray) -> tuple[int, int]:
        """How long the first text is, and where the second begins (released code, _split_a_and_b)."""
        room = self.length - 3 - self.first
        low, high = bisect_right(borders, begin), bisect_left(borders, begin + room)
        stop = borders[high] if high < len(borders) else max(len(self.joined), begin + room)
        follows, where, whence = draws.tolist()
        end = borders[low + int(where * (high - low))] if high > low else stop
        if high > low and follows >= 0.5:
            second, last = end, stop
        else:
            needed = max(1, room - (end - begin))
            second, last = self.elsewhere(int(whence * max(1, len(self.joined) - needed)), needed, borders)
        size = end - begin - cuts(end - begin, last - second, room)[0]
        return size, second

    def elsewhere(self, place: int, needed: int, borders: list[int]) -> tuple[int, int]:
        """The sentences that hold `needed` tokens from a place on."""
        before, after = bisect_right(borders, place) - 1, bisect_left(borders, place + needed)
        last = borders[after] if after < len(borders) else len(self.joined)
        return borders[before] if before >= 0 else 0, max(last, place + needed)

    def of(self, chosen: np.ndarray) -> Spans:
        """The stretches of the text that each row has for itself."""
        numbers = self.numbers[chosen] % self.count
        return StreamPlan(joined=self.joined, length=self.first).of(numbers)

    def tokens(self) -> int:
        return len(self) * (self.length - 3)

    def only(self, chosen: np.ndarray) -> Self:
        return replace(self, numbers=self.numbers[chosen])
