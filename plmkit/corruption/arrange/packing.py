"""Packing text into full rows, without labels."""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import StretchArrangement
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import SettingError
from plmkit.language import tr

SHORTEST = 2  # tokens of a row of random length: one per segment


@dataclass(frozen=True, kw_only=True)
class SingleSegment(StretchArrangement):
    """Documents cut into stretches as long as a row, one stretch per row (Joshi et al., 2020, 3.3)."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        room = length - 2  # [CLS] text [SEP]
        first, last = store.sentences[store.documents[documents]], store.sentences[store.documents[documents + 1]]
        counts = -(-(last - first) // room)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... within a document
        begins = np.repeat(first, counts) + room * number
        return StretchPlan(stretches=np.stack([begins, np.minimum(begins + room, np.repeat(last, counts))], axis=1))


@dataclass(frozen=True, kw_only=True)
class FullSentences(StretchArrangement):
    """Full rows of whole sentences, across document boundaries (Liu et al., 2019, 4.2)."""

    sentence_task: ClassVar[str | None] = "none"  # as in RoBERTa

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        rows = PackedRows(store, length)
        for document in documents.tolist():
            rows.add(document)
        return rows.plan()


@dataclass(frozen=True, kw_only=True)
class DocSentences(StretchArrangement):
    """Full rows of whole sentences, within one document (Liu et al., 2019, 4.2)."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        rows = PackedRows(store, length)
        for document in documents.tolist():
            rows.add(document)
            rows.close()
        return rows.plan()


@dataclass(frozen=True, kw_only=True)
class ContiguousSegments(StretchArrangement):
    """Two consecutive stretches of about half a row each, sometimes one (Clark et al., 2020; released code)."""

    single: float = 0.1  # share of the rows that are one stretch
    short: float = 0.05  # share of the rows that have a random length
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 2

    def __post_init__(self) -> None:
        for name, share in (("single", self.single), ("short", self.short)):
            if not 0 <= share <= 1:
                raise SettingError(
                    tr(
                        "corruption.{name} must be a share of the rows, from 0 to 1; found {share}.",
                        name=name,
                        share=share,
                    )
                )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        rows = SegmentRows(store, length, self, rng)
        for document in documents.tolist():
            rows.add(document)
        return StretchPlan(stretches=np.frombuffer(rows.stretches, dtype=np.int64).reshape(-1, 4))


class PackedRows:
    """Rows filled with sentences while they fit; no token is read or copied."""

    def __init__(self, store: TokenStore, length: int) -> None:
        self.borders = np.asarray(store.sentences)  # token where each sentence begins, and the end
        self.documents = np.asarray(store.documents)
        self.empty = length - 1  # the room of a row after [CLS]
        self.left = self.empty
        self.stretches = array("q")
        self.rows = array("q", [0])  # index of each row's first stretch

    def add(self, document: int) -> None:
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders = self.borders[first : last + 1].tolist()
        begin, end = borders[0], borders[-1]
        while begin < end:
            room = max(0, self.left - 1)  # a separator follows every stretch
            stop = borders[bisect_right(borders, begin + room) - 1]
            if stop <= begin and self.left < self.empty:
                self.close()  # the next sentence needs a new row
                continue
            if stop <= begin:
                stop = begin + room  # a sentence longer than a row is cut
            self.stretches.extend((begin, stop))
            self.left -= stop - begin + 1
            begin = stop
            if begin < end:
                self.close()

    def close(self) -> None:
        if self.left < self.empty:
            self.rows.append(len(self.stretches) // 2)
            self.left = self.empty

    def plan(self) -> StretchPlan:
        self.close()
        stretches = np.frombuffer(self.stretches, dtype=np.int64).reshape(-1, 2)
        return StretchPlan(
            stretches=stretches,
            rows=np.frombuffer(self.rows, dtype=np.int64),
            segments=np.zeros(len(stretches), dtype=np.int8),  # documents in a row are not distinguished
        )


class SegmentRows:
    """Each row begins where the previous one ended, so that no token is lost or repeated."""

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
        """Four numbers in [0, 1) per row, drawn in bulk."""
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

    def half(self, borders: list[int], begin: int, middle: int, over: bool) -> int:
        """The sentence border before or, half of the time, after the middle; the first text is never empty."""
        place = bisect_left(borders, middle)
        after = borders[min(place, len(borders) - 1)]
        before = borders[place - 1] if place else begin
        return after if over or before <= begin else before
