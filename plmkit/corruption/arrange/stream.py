"""Documents joined to one stream, and rows of a causal model: the target of each position is the next token."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from plmkit.corruption.contract import Arrangement
from plmkit.data.batch import IGNORE
from plmkit.data.rows import Plan, Rows, Spans
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Documents of a store in some order, each followed by an end token."""

    store: TokenStore
    documents: np.ndarray  # (D,) in the order of the stream

    def __len__(self) -> int:
        return int(self.borders[-1])

    @cached_property
    def begins(self) -> np.ndarray:
        """(D,) where each document's tokens begin in the store."""
        return np.asarray(self.store.sentences[self.store.documents[self.documents]])

    @cached_property
    def borders(self) -> np.ndarray:
        """(D + 1,) where each document begins in the stream, and the end."""
        sizes = self.store.document_tokens()[self.documents] + 1
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def whereabouts(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For positions in the stream: the document, the token in the store, and True at the end of a document."""
        document = np.searchsorted(self.borders, places, side="right") - 1
        inside = places - self.borders[document]
        at_end = places == self.borders[document + 1] - 1
        return document, self.begins[document] + inside - at_end, at_end

    def sentence_starts(self) -> np.ndarray:
        """(S,) where sentences begin in the stream."""
        first, last = self.store.documents[self.documents], self.store.documents[self.documents + 1]
        counts = np.asarray(last - first)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.asarray(self.store.sentences)[np.repeat(np.asarray(first), counts) + number]
        return starts - np.repeat(self.begins - self.borders[:-1], counts)

    def tokens(self, places: np.ndarray, end: int) -> np.ndarray:
        """The tokens at these positions of the stream, in the shape of `places`."""
        _, place, at_end = self.whereabouts(places)
        return np.where(at_end, end, self.store.tokens[place].astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class StreamPlan(Plan):
    """The rows of one epoch: row r has positions r * length to (r + 1) * length, and predicts the next tokens."""

    joined: Joined
    length: int
    chosen: np.ndarray | None = None  # (N,) numbers of the remaining rows; None: all
    block: ClassVar[int] = 1 << 10

    def __len__(self) -> int:
        return -(-(len(self.joined) - 1) // self.length) if self.chosen is None else len(self.chosen)

    def places(self, chosen: np.ndarray) -> np.ndarray:
        """(M, length + 1) positions of these rows' tokens in the stream; beyond its end, the last one repeated."""
        numbers = chosen if self.chosen is None else self.chosen[chosen]
        return numbers[:, None] * self.length + np.arange(self.length + 1)

    def of(self, chosen: np.ndarray) -> Spans:
        places = self.places(chosen)[:, :-1]
        inside = places < len(self.joined)
        document, token, at_end = self.joined.whereabouts(np.minimum(places, len(self.joined) - 1))
        text = inside & ~at_end
        owners = np.broadcast_to(np.arange(len(chosen))[:, None], places.shape)[text]
        document, token = document[text], token[text]
        begins = np.flatnonzero(np.diff(document, prepend=-1) | np.diff(owners, prepend=-1))
        ends = np.append(begins[1:], len(token)) - 1
        stretches = np.stack([token[begins], token[ends] + 1], axis=1)
        return stretches, owners[begins], np.zeros(len(begins), dtype=np.int64)

    def tokens(self) -> int:
        if self.chosen is None:
            return len(self.joined) - len(self.joined.documents)
        return len(self) * self.length

    def only(self, chosen: np.ndarray) -> Self:
        return replace(self, chosen=chosen if self.chosen is None else self.chosen[chosen])


@dataclass(frozen=True, kw_only=True)
class Stream(Arrangement[StreamPlan]):
    """Documents in random order, joined by the end token and cut into rows (Radford et al., 2018, 4.1)."""

    needs: ClassVar[tuple[str, ...]] = ("end",)
    in_streams: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"targets"})

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StreamPlan:
        return StreamPlan(joined=Joined(store=store, documents=rng.permutation(documents)), length=length)

    def fill(
        self, store: TokenStore, plan: StreamPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        """A row predicts as many tokens as it has; the last target is the token after it."""
        places = plan.places(chosen)
        inside = places < len(plan.joined)
        tokens = plan.joined.tokens(np.minimum(places, len(plan.joined) - 1), vocabulary.end)
        longest = int(inside[:, 1:].any(0).sum())  # drop the columns that a short stream leaves empty
        predicted = inside[:, 1 : longest + 1]
        return Rows(
            tokens=np.where(predicted, tokens[:, :longest], vocabulary.filler),
            segments=np.zeros((len(chosen), longest), dtype=np.int64),
            visible=predicted,
            targets=np.where(predicted, tokens[:, 1 : longest + 1], IGNORE),
        )


@dataclass(frozen=True, kw_only=True)
class ParallelStreams(Stream):
    """Text in order, in one stream per row of a batch, continued from batch to batch (Dai et al., 2019).

    Each row begins where the same row of the previous batch ended, for models with recurrent memory.
    """

    continues: ClassVar[bool] = True

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StreamPlan:
        return StreamPlan(joined=Joined(store=store, documents=documents), length=length)
