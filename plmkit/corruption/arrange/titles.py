"""Pairs of a search query and a title: clicked, shown but not clicked, or not shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.dialogue import shortened
from plmkit.corruption.contract import StretchArrangement
from plmkit.data.randomness import scramble
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import NO_TITLE, TokenStore
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

NOT_SHOWN = 2  # 0: clicked, 1: shown
DRAWS = 10  # to find a title that the query did not have


@dataclass(frozen=True, kw_only=True)
class QueryTitles(StretchArrangement):
    """A query and a title: clicked, shown but not clicked, or of another query (Sun et al., 2020, 4.2.3).

    Read from query–title tables that are given beside the text; titles of other queries are drawn again in every epoch.
    """

    random: float = 1 / 3  # share of the rows whose title is of another query, and was never shown for this one
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 2
    queries: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"relevance"})

    def __post_init__(self) -> None:
        if not 0 <= self.random < 1:
            raise SettingError(
                tr(
                    "corruption.random must be a share of the rows, at least 0 and below 1; found {random}.",
                    random=self.random,
                )
            )

    @property
    def classes(self) -> Mapping[str, int]:
        return {"relevance": 3}

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        return None if len(documents) else tr("no query–title table is given")

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        if not len(documents):
            raise InputError(
                tr(
                    "{where}: relevance is trained on queries and titles, and no table of them is given.\n"
                    "Give one beside the text (.tsv, .csv, .jsonl, .parquet), with the columns query, title and label "
                    "(0: clicked, 1: shown but not clicked, 2: not shown).",
                    where=where,
                )
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        given = titles_of(store, documents)
        shown = given[store_relevance(store)[given[:, 1]] < NOT_SHOWN]
        wanted = round(len(shown) * self.random / (1 - self.random)) - (len(given) - len(shown))
        made = others(store, given, max(0, wanted), rng)
        both = np.concatenate([given, made])
        labels = np.concatenate([store_relevance(store)[given[:, 1]], np.full(len(made), NOT_SHOWN)])
        borders = np.asarray(store.sentences)
        begins, ends = borders[both], borders[both + 1]
        stretches = np.stack([begins, begins + shortened(ends - begins, length - 3)], axis=2)
        return StretchPlan(stretches=stretches.reshape(-1, 4), labels={"relevance": labels.astype(np.int64)})


def store_relevance(store: TokenStore) -> np.ndarray:
    assert store.relevance is not None  # only documents with queries come here
    return np.asarray(store.relevance)


def titles_of(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """(N, 2) the sentence of each title of these documents, with that of its query, which comes first."""
    firsts = np.asarray(store.documents)
    counts = firsts[documents + 1] - firsts[documents] - 1
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    queries = np.repeat(firsts[documents], counts)
    pairs = np.stack([queries, queries + 1 + within], axis=1)
    return pairs[store_relevance(store)[queries] == NO_TITLE]  # a query whose tokenizer drops all of it has no row


def others(store: TokenStore, given: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 2) random queries with titles of others, never one that any table has for the same query.

    Fewer where few titles differ.
    """
    if not count or not len(given):
        return given[:0]
    everywhere = titles_of(store, np.flatnonzero(store.has_queries))  # held-out rows, too: nothing known is denied
    texts = hashes(store, np.unique(everywhere))
    known = np.sort(joint(texts, everywhere))
    made = np.stack([given[rng.integers(len(given), size=count), side] for side in (0, 1)], axis=1)
    for _ in range(DRAWS):
        clash = np.isin(joint(texts, made), known)
        if not clash.any():
            break
        made[clash, 1] = given[rng.integers(len(given), size=int(clash.sum())), 1]
    return made[~np.isin(joint(texts, made), known)]


def hashes(store: TokenStore, sentences: np.ndarray) -> np.ndarray:
    """(S,) a number for the text of each of these sentences, 0 for the others."""
    borders = np.asarray(store.sentences)
    begins, sizes = borders[sentences], borders[sentences + 1] - borders[sentences]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tokens = store.tokens[np.repeat(begins, sizes) + within].astype(np.uint64)
    found = np.zeros(len(borders) - 1, dtype=np.uint64)
    words = scramble(tokens + (within.astype(np.uint64) << np.uint64(32)))
    found[sentences] = np.add.reduceat(words, np.cumsum(sizes) - sizes)
    return found


def joint(texts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """(N,) a number for both texts of each pair of sentences."""
    joined: np.ndarray = scramble(texts[pairs[:, 0]]) + texts[pairs[:, 1]]
    return joined
