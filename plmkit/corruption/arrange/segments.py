"""Two segments that follow each other, and nothing to judge about them."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore
from plmkit.errors import SettingError

SHORTEST = 2  # tokens of a row of random length: one for each segment


@dataclass(frozen=True, kw_only=True)
class ContiguousSegments:
    """Two stretches of about half a row that follow each other, sometimes one (Clark et al., 2020; released code)."""

    single: float = 0.1  # share of the rows that are one stretch
    short: float = 0.05  # share of the rows that have a random length
    segments: ClassVar = 2
    texts: ClassVar = 2
    writes: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name in ("single", "short"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(
                    f"corruption.{name} is a share of the rows, from 0 to 1; found {getattr(self, name)}."
                )

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Any text will do."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        rows = SegmentRows(store, length, self, rng)
        for document in documents.tolist():
            rows.add(document)
        return Plan(stretches=np.frombuffer(rows.stretches, dtype=np.int64).reshape(-1, 4))


class SegmentRows:
    """Each row begins where the last one ended, so that no token is lost or seen twice."""

    def __init__(
        self, store: TokenStore, length: int, settings: ContiguousSegments, rng: np.random.Generator
    ) -> None:  # fmt: skip
        self.borders = np.asarray(store.sentences)
        self.documents = np.asarray(store.documents)
        self.length = length
        self.settings = settings
        self.rng = rng
        self.numbers: list[list[float]] = []
        self.stretches = array("q")

    def draw(self) -> list[float]:
        """Four numbers in [0, 1) for a row, drawn many at a time."""
        if not self.numbers:
            self.numbers = self.rng.random((512, 4)).tolist()
        return self.numbers.pop()

    def add(self, document: int) -> None:
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders = self.borders[first : last + 1].tolist()
        begin, end = borders[0], borders[-1]
        while begin < end:
            single, short, size, over = self.draw()
            room = self.length - 3
            if short < self.settings.short:
                room = SHORTEST + int(size * (room - SHORTEST + 1))
            if single < self.settings.single:
                middle = stop = min(end, begin + room)
            else:
                stop = min(end, begin + room)
                middle = min(self.half(borders, begin, begin + room // 2, over < 0.5), stop)
            self.stretches.extend((begin, middle, middle, stop))
            begin = stop

    def half(self, borders: list[int], begin: int, wanted: int, over: bool) -> int:
        """The border of a sentence before or, half of the time, behind the middle; the first text is never empty."""
        place = bisect_left(borders, wanted)
        behind = borders[min(place, len(borders) - 1)]
        before = borders[place - 1] if place else begin
        return behind if over or before <= begin else before
