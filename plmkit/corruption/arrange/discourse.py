"""Pairs of texts that a connective connected: the connective is removed, and its relation is to be predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.dialogue import shortened
from plmkit.corruption.contract import StretchArrangement
from plmkit.data.connectives import RELATIONS
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class DiscoursePairs(StretchArrangement):
    """Two texts that an explicit connective connected, without it (Sun et al., 2020, 4.2.3; our connectives)."""

    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 2
    writes: ClassVar[frozenset[str]] = frozenset({"discourse"})
    needs_details: ClassVar[frozenset[str]] = frozenset({"connectives"})

    @property
    def classes(self) -> Mapping[str, int]:
        return {"discourse": len(RELATIONS)}

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        return None if len(connected_in(store, documents)) else tr("no sentence has a connective that is known")

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        if not len(connected_in(store, documents)):
            raise InputError(
                tr(
                    "{where}: discourse relations are found by connectives (because, however, 因为, 但是), and none of "
                    "the {documents_count:,} documents has one.\n"
                    "Give English or Chinese text with punctuation, or drop the task.",
                    where=where,
                    documents_count=len(documents),
                )
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        found = connected_in(store, documents)
        sizes = shortened(found[:, 1:4:2] - found[:, :4:2], length - 3)  # [CLS] first [SEP] second [SEP]
        firsts = np.stack([found[:, 1] - sizes[:, 0], found[:, 1]], axis=1)  # what is next to the connective is kept
        seconds = np.stack([found[:, 2], found[:, 2] + sizes[:, 1]], axis=1)
        return StretchPlan(stretches=np.hstack([firsts, seconds]), labels={"discourse": found[:, 4]})


def connected_in(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """(N, 6) the connectives of these documents, of one that is there twice twice."""
    assert store.connectives is not None  # the store has them where a step needs them
    table = np.asarray(store.connectives)
    owners = np.searchsorted(store.begins, table[:, 0], side="right") - 1
    order = np.argsort(owners, kind="stable")
    first, last = (np.searchsorted(owners[order], documents, side=side) for side in ("left", "right"))
    counts = last - first
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return table[order[np.repeat(first, counts) + within]]
