"""Documents joined to one stream, an end token behind each, without copying a token."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from plmkit.data.shards import TokenStore


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Documents of a store in some order, each with one more token at its end."""

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
        """(D + 1,) place in the stream where each document begins, and the end."""
        sizes = self.store.document_tokens()[self.documents] + 1
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def whereabouts(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For places in the stream: which document, which token of the store, and True at the end of a document."""
        document = np.searchsorted(self.borders, places, side="right") - 1
        inside = places - self.borders[document]
        at_end = places == self.borders[document + 1] - 1
        return document, self.begins[document] + inside - at_end, at_end

    def sentence_starts(self) -> np.ndarray:
        """(S,) the places in the stream where sentences begin."""
        first, last = self.store.documents[self.documents], self.store.documents[self.documents + 1]
        counts = np.asarray(last - first)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.asarray(self.store.sentences)[np.repeat(np.asarray(first), counts) + number]
        return starts - np.repeat(self.begins - self.borders[:-1], counts)

    def tokens(self, places: np.ndarray, end: int) -> np.ndarray:
        """The tokens at places of the stream; the shape of `places`."""
        _, place, at_end = self.whereabouts(places)
        return np.where(at_end, end, self.store.tokens[place].astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """One epoch's rows: row r reads places r * length to (r + 1) * length of the stream, and is asked for the next."""

    joined: Joined
    length: int
    chosen: np.ndarray | None = field(default=None)  # (N,) numbers of the rows that are left; None: all

    def __len__(self) -> int:
        return -(-(len(self.joined) - 1) // self.length) if self.chosen is None else len(self.chosen)

    def places(self, chosen: np.ndarray) -> np.ndarray:
        """(M, length + 1) where the tokens of these rows stand in the stream, and behind its end the last again."""
        numbers = chosen if self.chosen is None else self.chosen[chosen]
        return numbers[:, None] * self.length + np.arange(self.length + 1)

    def of(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The stretches of the chosen rows: (M, 2) begin and end, (M,) which of the chosen, (M,) segment."""
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

    def blocks(self, size: int = 1 << 10) -> Iterator[np.ndarray]:
        """The numbers of all rows, some at a time: what is made of them stays small."""
        for start in range(0, len(self), size):
            yield np.arange(start, min(start + size, len(self)))

    def tokens(self) -> int:
        """How many tokens of text all rows have together."""
        if self.chosen is None:
            return len(self.joined) - len(self.joined.documents)
        return len(self) * self.length

    def only(self, chosen: np.ndarray) -> "StreamPlan":
        """The plan with these rows alone, in this order."""
        return replace(self, chosen=chosen if self.chosen is None else self.chosen[chosen])
