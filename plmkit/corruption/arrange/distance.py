"""Pairs of texts that are adjacent, apart in one document, or of different documents."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.pairs import DocumentPairs, TextPairs, plan_pairs
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError
from plmkit.language import tr

ADJACENT, APART, DIFFERENT = 0, 1, 2
FEWEST = 3  # sentences of a document with two texts that are not adjacent
FAR_OFF = 0.1  # of the share that each distance should have, a third
LOOKED = 1_000  # documents whose pairs are counted for a remark


@dataclass(frozen=True, kw_only=True)
class DistancePairs(TextPairs):
    """Two texts: adjacent, of one document but not adjacent, or of different documents (Sun et al., 2020, 4.2.2)."""

    writes: ClassVar[frozenset[str]] = frozenset({"distance"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"distance": 3}

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        if len(documents) >= 2 and longest_of(store, documents) >= FEWEST:
            return None
        return tr("it takes two documents, one of them with at least {fewest} sentences", fewest=FEWEST)

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        if self.lacks(store, documents, 0) is not None:
            raise InputError(
                tr(
                    "{where}: distances between sentences need at least two documents, one of them with at least "
                    "{fewest} sentences; found {documents_count:,} with at most {longest}.\n"
                    "In plain text, put blank lines only between documents (run.layout=blank-lines).",
                    where=where,
                    fewest=FEWEST,
                    documents_count=len(documents),
                    longest=longest_of(store, documents),
                )
            )

    def notes(self, store: TokenStore, documents: np.ndarray, length: int) -> Iterator[str]:
        """How often each distance is drawn, if that is far from a third."""
        some = documents[:: max(1, len(documents) // LOOKED)]
        labels = self.plan(store, some, length, np.random.default_rng(0)).labels["distance"]
        shares = np.bincount(labels, minlength=3) / max(1, len(labels))
        if len(labels) and np.abs(shares - 1 / 3).max() > FAR_OFF:
            yield tr(
                "Distances of sentences: {adjacent:.0%} adjacent, {apart:.0%} apart in one document, {different:.0%} "
                "in different documents, not a third each: {short:,} of {total:,} documents have fewer than {fewest} "
                "sentences.",
                adjacent=shares[ADJACENT],
                apart=shares[APART],
                different=shares[DIFFERENT],
                short=int((np.diff(store.documents)[documents] < FEWEST).sum()),
                total=len(documents),
                fewest=FEWEST,
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        return plan_pairs(DistantTexts(store, documents, length, rng), documents, self.short, "distance")


def longest_of(store: TokenStore, documents: np.ndarray) -> int:
    """The number of sentences of the longest document."""
    return int(np.diff(store.documents)[documents].max(initial=0))


class DistantTexts(DocumentPairs):
    """A third of each distance, where a document allows it; the texts of one document stand in their order.

    Texts near the beginning or the end of a document are as long as others, so that lengths do not tell the distance.
    """

    def add(self, document: int, target: int) -> None:
        self.own = self.borders_of(document)
        super().add(document, target)

    def borders_of(self, document: int) -> list[int]:
        """Token where each of its sentences begins, and the end."""
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders: list[int] = self.borders[first : last + 1].tolist()
        return borders

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        is_short = end - begin < target  # at the end of its document
        if is_short:
            begin, middle = self.moved_back(end, target)
        wanted, needed = self.below(3), max(1, target - (middle - begin))
        other = self.apart(begin, middle, needed) if wanted == APART else None
        if wanted == APART and not other:  # of a short document, a single sentence leaves more
            single = self.own[bisect_right(self.own, begin)]
            other = self.apart(begin, single, max(1, target - (single - begin)))
            middle = single if other else middle
        if other:
            first, second = sorted([(begin, middle), other])
            self.keep(self.cut(*first, *second), changed=APART)
            return not is_short
        is_single = middle == end  # a document of one sentence: nothing is adjacent
        if wanted == DIFFERENT or is_single or (wanted == APART and self.random() < 0.5):
            other = self.elsewhere_of(document, needed)
        if other:
            texts = (begin, middle), other
            first, second = texts if self.random() < 0.5 else texts[::-1]
            self.keep(self.cut(*first, *second), changed=DIFFERENT)
            return not is_short
        if not is_single:
            self.keep(self.cut(begin, middle, middle, end), changed=ADJACENT)
        return False

    def moved_back(self, end: int, target: int) -> tuple[int, int]:
        """Where a chunk of `target` tokens up to `end` begins, and a sentence in it at which it is split."""
        last = bisect_left(self.own, end)
        first = max(0, min(last - 2, bisect_right(self.own, end - target) - 1))
        middle = first + 1 + (self.below(last - first - 1) if last - first > 2 else 0)
        return self.own[first], self.own[middle]

    def apart(self, begin: int, middle: int, needed: int) -> tuple[int, int] | None:
        """`needed` tokens of this document with a sentence or more between them and a text, if there are such."""
        last = len(self.own) - 1
        after = bisect_left(self.own, middle) + 1  # the first sentence that is not adjacent
        before = bisect_left(self.own, begin) - 1  # the last border at which an earlier text that is not adjacent ends
        later, earlier = max(0, last - after), max(0, before)
        if later + earlier == 0:
            return None
        drawn = self.below(later + earlier)
        if drawn < later:
            return stretch_from(self.own, after + drawn, needed, at_least=after)
        end = max(1 + drawn - later, min(before, bisect_left(self.own, self.own[0] + needed)))
        start = max(0, min(end, bisect_right(self.own, self.own[end] - needed)) - 1)
        return self.own[start], self.own[end]

    def elsewhere_of(self, document: int, needed: int) -> tuple[int, int] | None:
        """`needed` tokens of another document; None if ten draws find none, as there may be none."""
        for _ in range(10):
            other = int(self.choices[self.below(len(self.choices))])
            if other != document:
                borders = self.borders_of(other)
                return stretch_from(borders, self.below(len(borders) - 1), needed)
        return None


def stretch_from(borders: list[int], sentence: int, needed: int, at_least: int = 0) -> tuple[int, int]:
    """Sentences with `needed` tokens from one on or, near the end, from an earlier one on."""
    sentence = max(at_least, min(sentence, bisect_right(borders, borders[-1] - needed) - 1))
    end = min(len(borders) - 1, max(sentence + 1, bisect_left(borders, borders[sentence] + needed)))
    return borders[sentence], borders[end]
