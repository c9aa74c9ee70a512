"""Pairs of texts that are adjacent, apart in one document, or of different documents."""

from bisect import bisect_left
from collections.abc import Mapping
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


@dataclass(frozen=True, kw_only=True)
class DistancePairs(TextPairs):
    """Two texts: adjacent, of one document but not adjacent, or of different documents (Sun et al., 2020, 4.2.2)."""

    writes: ClassVar[frozenset[str]] = frozenset({"distance"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"distance": 3}

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        longest = int(np.diff(store.documents)[documents].max(initial=0))
        if len(documents) < 2 or longest < FEWEST:
            raise InputError(
                tr(
                    "{where}: distances between sentences need at least two documents, one of them with at least "
                    "{fewest} sentences; found {documents_count:,} with at most {longest}.\n"
                    "In plain text, put blank lines only between documents (run.layout=blank-lines).",
                    where=where,
                    fewest=FEWEST,
                    documents_count=len(documents),
                    longest=longest,
                )
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        return plan_pairs(DistantTexts(store, documents, length, rng), documents, self.short, "distance")


class DistantTexts(DocumentPairs):
    """A third of each distance, where a document allows it; the texts of one document stand in their order."""

    def add(self, document: int, target: int) -> None:
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        self.own = self.borders[first : last + 1].tolist()
        super().add(document, target)

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        wanted = self.below(3)
        if wanted == APART and (other := self.apart(begin, middle, target - (middle - begin))):
            texts = sorted([(begin, middle), other])
            self.keep(self.cut(*texts[0], *texts[1]), changed=APART)
            return True
        if wanted == DIFFERENT or alone or (wanted == APART and self.random() < 0.5):
            other = self.elsewhere(document, target - (middle - begin))
            if not self.own[0] <= other[0] < self.own[-1]:  # if ten draws find no other document, there may be none
                self.keep(self.cut(begin, middle, *other), changed=DIFFERENT)
                return True
        if not alone:
            self.keep(self.cut(begin, middle, middle, end), changed=ADJACENT)
        return False

    def apart(self, begin: int, middle: int, needed: int) -> tuple[int, int] | None:
        """`needed` tokens of this document with a sentence or more between them and a text, if there are such."""
        last = len(self.own) - 1
        after = bisect_left(self.own, middle) + 1  # the first sentence that is not adjacent
        before = bisect_left(self.own, begin) - 1  # the sentence at whose beginning an earlier text ends at the latest
        later, earlier = max(0, last - after), max(0, before)
        if later + earlier == 0:
            return None
        drawn = self.below(later + earlier)
        if drawn < later:
            start = after + drawn
            end = min(last, max(start + 1, bisect_left(self.own, self.own[start] + needed)))
            return self.own[start], self.own[end]
        end = 1 + drawn - later
        start = min(end - 1, max(0, bisect_left(self.own, self.own[end] - needed)))
        return self.own[start], self.own[end]
