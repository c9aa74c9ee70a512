"""Paragraphs whose parts are shuffled: the order is to be predicted."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.dialogue import shortened
from plmkit.corruption.arrange.pairs import check_sentences
from plmkit.corruption.contract import StretchArrangement
from plmkit.data.orders import classes_of, order_classes
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import SettingError
from plmkit.language import tr

MOST_PARTS = 6  # which have 873 orders


@dataclass(frozen=True, kw_only=True)
class ReorderedSentences(StretchArrangement):
    """A paragraph in 1 to `max_parts` parts of whole sentences, in random order (Sun et al., 2020, 4.2.2)."""

    max_parts: int = 3  # parts of a paragraph, at most: 3 have 1! + 2! + 3! = 9 orders
    writes: ClassVar[frozenset[str]] = frozenset({"order"})

    def __post_init__(self) -> None:
        if not 2 <= self.max_parts <= MOST_PARTS:
            raise SettingError(
                tr(
                    "corruption.max_parts must be from 2 to {most}; found {parts}.",
                    most=MOST_PARTS,
                    parts=self.max_parts,
                )
            )

    @property
    def classes(self) -> Mapping[str, int]:
        return {"order": order_classes(self.max_parts)}

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        longest = np.diff(store.documents)[documents].max(initial=0)
        return None if longest >= 2 else tr("no document has two sentences")

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        check_sentences(store, documents, where, tr("there is no order to learn"), tr("treat a whole file"))

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        room = length - 1 - self.max_parts  # [CLS] part [SEP] part [SEP] ...
        chunks = paragraphs(store, documents, room)
        counts = np.minimum(
            1 + (rng.random(len(chunks)) * self.max_parts).astype(np.int64), chunks[:, 1] - chunks[:, 0]
        )
        borders = np.sort(np.hstack([chunks[:, :1], self.inner(chunks, counts, rng), chunks[:, 1:]]), axis=1)
        parts = np.asarray(store.sentences)[borders]  # (N, max_parts + 1); parts beyond `counts` are empty, at the end
        drawn = np.where(np.arange(self.max_parts) < counts[:, None], rng.random((len(chunks), self.max_parts)), 1.0)
        orders = np.argsort(drawn, axis=1, kind="stable")
        begins, ends = (np.take_along_axis(side, orders, axis=1) for side in (parts[:, :-1], parts[:, 1:]))
        stretches = np.stack([begins, begins + shortened(ends - begins, room)], axis=2)
        labels = np.zeros(len(chunks), dtype=np.int64)
        for count in range(2, self.max_parts + 1):
            mine = counts == count
            labels[mine] = classes_of(orders[mine, :count])
        return StretchPlan(
            stretches=stretches.reshape(len(chunks), -1),
            segments=np.zeros((len(chunks), self.max_parts), dtype=np.int8),  # the parts are one text
            labels={"order": labels},
        )

    def inner(self, chunks: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(N, max_parts - 1) sentences between which a paragraph is split, all sets equally likely; else its end."""
        first, last = chunks.T
        chosen = np.tile(last[:, None], (1, self.max_parts - 1))
        for number in range(self.max_parts - 1):
            place = first + 1 + (rng.random(len(chunks)) * (last - first - 1 - number)).astype(np.int64)
            for earlier in np.sort(chosen, axis=1).T[:number]:
                place += place >= earlier
            chosen[:, number] = np.where(number < counts - 1, place, last)
        return chosen

    def notes(self, store: TokenStore, documents: np.ndarray, length: int) -> Iterator[str]:
        counts = np.diff(store.documents)[documents]
        if (short := int((counts < self.max_parts).sum())) > len(counts) / 2:
            yield tr(
                "{short:,} of {total:,} documents have fewer than {parts} sentences, so most orders have fewer parts.",
                short=short,
                total=len(counts),
                parts=self.max_parts,
            )


def paragraphs(store: TokenStore, documents: np.ndarray, room: int) -> np.ndarray:
    """(N, 2) runs of sentences that fill a row, from and to; of at least two sentences, where a document has them."""
    sentences, firsts = np.asarray(store.sentences), np.asarray(store.documents)
    found = array("q")
    for document in documents.tolist():
        first, last = int(firsts[document]), int(firsts[document + 1])
        borders = sentences[first : last + 1].tolist()
        start, count = 0, last - first
        while start < count:
            end = bisect_right(borders, borders[start] + room) - 1
            end = min(count, max(end, start + 2))
            found.extend((first + start, first + end))
            start = end
    return np.frombuffer(found, dtype=np.int64).reshape(-1, 2)
