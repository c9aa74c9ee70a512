"""Rows that overlap with the previous row's end, and streams read in both directions."""

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

FEWEST = 8  # tokens of a row: a few of each part, and three special ones


@dataclass(frozen=True, kw_only=True)
class ReusedText(Arrangement["ReusedPlan"]):
    """Rows of `text first [SEP] second [SEP] [CLS]`, half of them with a second from elsewhere (Yang et al., 2019).

    The next row begins after `text`, which it can attend to in recurrent memory (2.5, 3.1; released code).
    """

    reuse: float = 0.5  # share of a row that the next row reuses as memory: its first part
    backward: bool = True  # half of the rows read the same text backwards
    segments: ClassVar[int] = 3
    needs: ClassVar[tuple[str, ...]] = ("cls", "sep", "end")
    in_streams: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"reversed"})

    def __post_init__(self) -> None:
        if not 0 < self.reuse < 1:
            raise SettingError(
                tr("corruption.reuse must be a share of the row, between 0 and 1; found {reuse}.", reuse=self.reuse)
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> "ReusedPlan":
        if length < FEWEST:
            raise SettingError(
                tr(
                    "stages has rows of {length} tokens; ReusedText needs at least {fewest}.",
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
    """The position of a row's text in the stream."""

    places: np.ndarray  # (length - 3,)
    size: int  # tokens of the first text, between the reused part and the separator
    reversed: bool


@dataclass(frozen=True, kw_only=True)
class ReusedPlan(Plan):
    """The rows of one epoch: row r begins at r * first of the stream; rows from `count` on read it backwards."""

    joined: Joined
    length: int
    first: int  # tokens at the beginning of a row that the next row may attend to in recurrent memory
    count: int  # rows in one direction
    numbers: np.ndarray  # (N,) of the remaining rows
    draws: (
        np.ndarray
    )  # (2 count, 3) per row: does its second text follow, where does its first end, where else to take one
    block: ClassVar[int] = 1 << 10

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def directions(self) -> int:
        """2 if no row of the second half, which reads backwards, is missing."""
        return len(self.numbers) // self.count if len(self.numbers) % self.count == 0 else 1

    @cached_property
    def borders(self) -> tuple[list[int], list[int]]:
        """Positions where a sentence begins, in the stream and in the reversed stream."""
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
        """The length of the first text, and where the second begins (released code, _split_a_and_b)."""
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
        """The sentences that hold `needed` tokens from a position on."""
        before, after = bisect_right(borders, place) - 1, bisect_left(borders, place + needed)
        last = borders[after] if after < len(borders) else len(self.joined)
        return borders[before] if before >= 0 else 0, max(last, place + needed)

    def of(self, chosen: np.ndarray) -> Spans:
        """The stretches of text that belong to one row only."""
        numbers = self.numbers[chosen] % self.count
        return StreamPlan(joined=self.joined, length=self.first).of(numbers)

    def tokens(self) -> int:
        return len(self) * (self.length - 3)

    def only(self, chosen: np.ndarray) -> Self:
        return replace(self, numbers=self.numbers[chosen])
