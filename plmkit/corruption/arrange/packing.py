"""Packing text into rows as full as they can be, without a second text to judge."""

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore


class OneText:
    """What all that follow share: rows of one text, from any corpus."""

    segments: ClassVar = 1
    texts: ClassVar = 1
    writes: ClassVar[frozenset[str]] = frozenset()

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Any text will do."""


@dataclass(frozen=True, kw_only=True)
class SingleSegment(OneText):
    """Documents cut into stretches as long as a row, one stretch a row (Joshi et al., 2020, 3.3)."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        room = length - 2  # [CLS] text [SEP]
        first, last = store.sentences[store.documents[documents]], store.sentences[store.documents[documents + 1]]
        counts = -(-(last - first) // room)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... in a document
        begins = np.repeat(first, counts) + room * number
        return Plan(stretches=np.stack([begins, np.minimum(begins + room, np.repeat(last, counts))], axis=1))


@dataclass(frozen=True, kw_only=True)
class FullSentences(OneText):
    """Whole sentences up to the length of a row, on into the next document (Liu et al., 2019, 4.2)."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        rows = PackedRows(store, length)
        for document in documents.tolist():
            rows.add(document)
        return rows.plan()


@dataclass(frozen=True, kw_only=True)
class DocSentences(OneText):
    """Whole sentences up to the length of a row, never into the next document (Liu et al., 2019, 4.2)."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        rows = PackedRows(store, length)
        for document in documents.tolist():
            rows.add(document)
            rows.close()
        return rows.plan()


class PackedRows:
    """Rows that take sentences as long as they fit; no token is read or copied."""

    def __init__(self, store: TokenStore, length: int) -> None:
        self.borders = np.asarray(store.sentences)  # token where each sentence begins, and the end
        self.documents = np.asarray(store.documents)
        self.empty = length - 1  # what is left of a row after [CLS]
        self.left = self.empty
        self.stretches = array("q")
        self.rows = array("q", [0])  # where each row begins among the stretches

    def add(self, document: int) -> None:
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders = self.borders[first : last + 1].tolist()
        begin, end = borders[0], borders[-1]
        while begin < end:
            room = max(0, self.left - 1)  # a separator stands behind every stretch
            stop = borders[bisect_right(borders, begin + room) - 1]
            if stop <= begin and self.left < self.empty:
                self.close()  # the next sentence wants a row of its own
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

    def plan(self) -> Plan:
        self.close()
        stretches = np.frombuffer(self.stretches, dtype=np.int64).reshape(-1, 2)
        return Plan(
            stretches=stretches,
            rows=np.frombuffer(self.rows, dtype=np.int64),
            segments=np.zeros(len(stretches), dtype=np.int8),  # documents in a row are not told apart
        )
