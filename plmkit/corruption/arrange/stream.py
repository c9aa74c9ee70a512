"""Rows of a left-to-right model: text in one stream, and at every place the token that follows."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.rows import Rows
from plmkit.data.shards import TokenStore
from plmkit.data.stream import Joined, StreamPlan
from plmkit.data.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Documents in random order, joined by the end token and cut into rows (Radford et al., 2018, 4.1)."""

    segments: ClassVar = 1
    texts: ClassVar = 1
    in_streams: ClassVar = True
    needs: ClassVar = ("end",)  # special tokens of the vocabulary
    writes: ClassVar = frozenset({"targets"})

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Any text will do."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StreamPlan:
        return StreamPlan(joined=Joined(store=store, documents=rng.permutation(documents)), length=length)

    def fill(self, plan: StreamPlan, chosen: np.ndarray, vocabulary: Vocabulary) -> Rows:
        """A row has as many tokens as it reads; what follows the last of them is asked for too."""
        places = plan.places(chosen)
        inside = places < len(plan.joined)
        tokens = plan.joined.tokens(np.minimum(places, len(plan.joined) - 1), vocabulary.end)
        longest = int(inside[:, 1:].any(0).sum())  # what a short stream leaves empty is no use
        asked = inside[:, 1 : longest + 1]
        return Rows(
            tokens=np.where(asked, tokens[:, :longest], vocabulary.filler),
            segments=np.zeros((len(chosen), longest), dtype=np.int64),
            visible=asked,
            targets=np.where(asked, tokens[:, 1 : longest + 1], IGNORE),
        )


@dataclass(frozen=True, kw_only=True)
class ParallelStreams(Stream):
    """The text in its own order, as many streams as a batch has rows, each read on from row to row (Dai et al., 2019).

    Each row of a batch goes on where the same row of the batch before ended, so that a model can remember.
    """

    continues: ClassVar = True

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StreamPlan:
        return StreamPlan(joined=Joined(store=store, documents=documents), length=length)
