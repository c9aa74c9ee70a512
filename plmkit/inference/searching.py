"""Nearest texts by the cosine of their vectors: every text is compared, in one matrix product."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.errors import InputError, SettingError
from plmkit.inference.arguments import count
from plmkit.inference.given import given_texts
from plmkit.inference.passages import Passage
from plmkit.language import tr

SCORES = 1 << 24  # of queries with texts that are in memory at once
Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A text that a search found."""

    rank: int  # from 1, the nearest
    score: float  # cosine of its vector and that of the query
    text: str
    source: str | None  # file
    line: int  # in its file, or its number in a list, from 1


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """What turns texts into vectors: a model, or static word vectors."""

    folder: Path
    width: int
    embed: Embed


class SearchIndex:
    """Texts with their vectors, ready to be searched; `model.index(texts)` makes one.

    Attributes:
        passages: The texts, each with `text`, `source` and `line`.
        vectors: (texts, width), each of length 1.
    """

    def __init__(self, embedder: Embedder, passages: Sequence[Passage], vectors: np.ndarray) -> None:
        self.embedder, self.passages, self.vectors = embedder, passages, vectors

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        return tr("<SearchIndex of {texts:,} texts by {folder}>", texts=len(self.passages), folder=self.embedder.folder)

    def search(self, queries: Any, top: int = 10, *, faiss: bool = False) -> Any:
        """Find the texts nearest to a query.

        Args:
            queries: A query, or a list of queries.
            top: Number of texts per query.
            faiss: Compare by FAISS, which must be installed; it finds the same texts.

        Returns:
            A list of `Hit` (`rank`, `score`, `text`, `source`, `line`), nearest first; for a list of queries, a list of
            these.
        """
        count(top, "top")
        texts = given_texts(queries)
        for number, text in enumerate(texts.rows, start=1):
            if not text.strip():
                raise InputError(tr("Query {number} is empty. Give a text to search for.", number=number))
        if not texts.rows:
            return []
        wanted = unit(self.embedder.embed(texts.rows))
        find = nearest_by_faiss if faiss else nearest
        scores, places = find(self.vectors, wanted, min(top, len(self.passages)))
        return texts.answer([self.hits(*found) for found in zip(scores, places, strict=True)])

    def hits(self, scores: np.ndarray, places: np.ndarray) -> list[Hit]:
        chosen = [self.passages[place] for place in places.tolist()]
        return [
            Hit(rank=rank, score=score, text=one.text, source=one.source, line=one.line)
            for rank, (score, one) in enumerate(zip(scores.tolist(), chosen, strict=True), start=1)
        ]


def nearest(vectors: np.ndarray, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """(queries, top) the highest products and where they are; of equal ones, the first."""
    some = max(1, SCORES // len(vectors))
    parts = (queries[start : start + some] for start in range(0, len(queries), some))
    found = [nearest_of(row, top) for part in parts for row in products(vectors, part)]
    return np.stack([scores for scores, _ in found]), np.stack([places for _, places in found])


def products(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """(queries, texts); of one query, as the product of a matrix and a vector, which reads the matrix as it lies."""
    return (vectors @ queries[0])[None] if len(queries) == 1 else queries @ vectors.T


def nearest_of(scores: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    lowest = np.partition(scores, len(scores) - top)[len(scores) - top]
    above = np.flatnonzero(scores > lowest)
    places = np.concatenate([above, np.flatnonzero(scores == lowest)[: top - len(above)]])
    places = places[np.lexsort((places, -scores[places]))]
    return scores[places], places


def nearest_by_faiss(vectors: np.ndarray, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The same by FAISS's exact index of inner products."""
    try:
        import faiss  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise SettingError(
            tr(
                "--faiss needs the package faiss-cpu, which is not installed: pip install 'plmkit[faiss]'.\n"
                "Without --faiss the search is exact as well."
            )
        ) from error
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    scores, places = index.search(queries, top)
    return scores, places


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1 in float32; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
