"""Sentences as two streams, of which one is read backwards."""

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
class BothDirections(Arrangement["SentencePlan"]):
    """Sentences in order, each from <S> to </S>; half of the rows read the same text backwards (allenai/bilm-tf).

    Each row begins where the same row of the previous batch ended, for models with recurrent memory.
    """

    needs: ClassVar[tuple[str, ...]] = ("cls", "sep", "unknown")
    in_streams: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"targets", "reversed"})

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> "SentencePlan":
        return SentencePlan(store=store, documents=documents, length=length)

    def fill(
        self, store: TokenStore, plan: "SentencePlan", chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        """At each border between two tokens, a row reads the one before it and predicts the one after it."""
        reverse, places = plan.places(chosen)
        inside = places < plan.borders[-1]
        longest = int(inside.any(0).sum())  # drop the columns that a short stream leaves empty
        inside, places = inside[:, :longest], places[:, :longest]
        places = np.where(reverse[:, None], plan.borders[-1] - 1 - places, places)
        left, right = plan.around(np.where(inside, places, 0), vocabulary)
        tokens, targets = np.where(reverse[:, None], (right, left), (left, right))
        return Rows(
            tokens=np.where(inside, tokens, vocabulary.filler),
            segments=np.zeros(tokens.shape, dtype=np.int64),
            visible=inside,
            targets=np.where(inside, targets, IGNORE),
            reversed=reverse,
        )


@dataclass(frozen=True, kw_only=True)
class SentencePlan(Plan):
    """The rows of one epoch: of all borders between tokens of sentences, `length` each; the second half backwards."""

    store: TokenStore
    documents: np.ndarray  # (D,)
    length: int
    chosen: np.ndarray | None = None  # (N,) numbers of the remaining rows; None: all
    block: ClassVar[int] = 1 << 10

    @cached_property
    def begins(self) -> np.ndarray:
        """(S,) where the tokens of each sentence begin in the store."""
        return np.asarray(self.store.sentences)[self.sentences]

    @cached_property
    def borders(self) -> np.ndarray:
        """(S + 1,) where each sentence begins among all borders, of which it has one more than tokens, and the end."""
        sizes = np.asarray(self.store.sentences)[self.sentences + 1] - self.begins + 1
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    @cached_property
    def sentences(self) -> np.ndarray:
        """(S,) of all documents, in order."""
        first, last = self.store.documents[self.documents], self.store.documents[self.documents + 1]
        counts = np.asarray(last - first)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(np.asarray(first), counts) + number

    @property
    def one_way(self) -> int:
        """Number of rows in one direction."""
        return int(-(-self.borders[-1] // self.length))

    @property
    def directions(self) -> int:
        return 2 if self.chosen is None else 1

    def __len__(self) -> int:
        return 2 * self.one_way if self.chosen is None else len(self.chosen)

    def places(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(M,) whether these rows read backwards, and (M, length) which borders they have, from the end if so."""
        numbers = chosen if self.chosen is None else self.chosen[chosen]
        return numbers >= self.one_way, numbers[:, None] % self.one_way * self.length + np.arange(self.length)

    def around(self, places: np.ndarray, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """The tokens before and after these borders: <S> before the first, </S> after the last of a sentence."""
        sentence = np.searchsorted(self.borders, places, side="right") - 1
        inside = places - self.borders[sentence]
        last = self.borders[sentence + 1] - self.borders[sentence] - 1
        at = self.begins[sentence] + inside
        text = self.store.tokens
        left = np.where(inside == 0, vocabulary.cls, text[np.maximum(at, 1) - 1].astype(np.int64))
        right = np.where(inside == last, vocabulary.sep, text[np.minimum(at, len(text) - 1)].astype(np.int64))
        return left, right

    def of(self, chosen: np.ndarray) -> Spans:
        reverse, places = self.places(chosen)
        total = self.borders[-1]
        begin, end = places[:, 0], np.minimum(places[:, -1] + 1, total)
        begin, end = np.where(reverse, total - end, begin), np.where(reverse, total - begin, end)
        first = np.searchsorted(self.borders, begin, side="right") - 1
        counts = np.searchsorted(self.borders, end, side="left") - first
        owners = np.repeat(np.arange(len(chosen)), counts)
        sentence = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(len(owners))
        starts = np.maximum(begin[owners], self.borders[sentence])
        ends = np.minimum(end[owners], self.borders[sentence + 1] - 1)  # the last border is before </S>
        stretches = np.stack([starts, ends], axis=1) - (self.borders[:-1] - self.begins)[sentence, None]
        filled = ends > starts
        return stretches[filled], owners[filled], np.zeros(int(filled.sum()), dtype=np.int64)

    def tokens(self) -> int:
        if self.chosen is None:
            return 2 * int(self.borders[-1] - len(self.sentences))
        return len(self) * self.length

    def only(self, chosen: np.ndarray) -> Self:
        return replace(self, chosen=chosen if self.chosen is None else self.chosen[chosen])
