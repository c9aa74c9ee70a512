"""Counts of a corpus that a corruption may need, made once before training."""

from collections.abc import Sequence

import numpy as np

from plmkit.corruption.contract import Counts, Step
from plmkit.data.shards import TokenStore, let_go
from plmkit.initialisation.corpus import count_cooccurrences, sample_documents, text_of

BLOCK = 1 << 22  # tokens counted at a time


def prepared(
    corruption: Sequence[Step], store: TokenStore, documents: np.ndarray, size: int, seed: int
) -> tuple[Step, ...]:
    """The steps with the counts that they need, of these documents and a vocabulary of this size."""
    needed = frozenset().union(*(step.needs_counts for step in corruption))
    counts = Counts(
        tokens=store.tokens if "tokens" in needed else None,
        frequencies=frequencies_of(store, documents, size) if "frequencies" in needed else None,
        cooccurrence=(
            count_cooccurrences(text_of(store, sample_documents(store, documents, seed)), size)
            if "cooccurrence" in needed
            else None
        ),
    )
    return tuple(step.prepared(counts) for step in corruption)


def frequencies_of(store: TokenStore, documents: np.ndarray, size: int) -> np.ndarray:
    """(size,) how often each token occurs in these documents."""
    counts = count_tokens(store.tokens, size)
    for document in np.setdiff1d(np.arange(len(store.documents) - 1), documents).tolist():
        counts -= count_tokens(store.tokens[slice(*store.stretch(document))], size)
    return counts


def count_tokens(tokens: np.ndarray, size: int) -> np.ndarray:
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(tokens), BLOCK):
        counts += np.bincount(tokens[start : start + BLOCK], minlength=size)
        let_go(tokens)
    return counts
