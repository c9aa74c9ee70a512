"""Token stores for tests, given by the lengths of their sentences."""

import numpy as np

from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey


def store_of(*documents: list[int], lines: list[int] | None = None, sources: list[int] | None = None) -> TokenStore:
    """Every token is its own place in the row; `lines` says for each sentence whether it begins a line."""
    lengths = [length for document in documents for length in document]
    sentences = np.concatenate([[0], np.cumsum(lengths)])
    return TokenStore(
        tokens=np.arange(sentences[-1]),
        sentences=sentences,
        documents=np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
        sources=np.array(sources or [0] * len(documents), dtype=np.int16),
        survey=Survey(),
        lines=None if lines is None else np.array(lines, dtype=bool),
    )


def random_store(documents: int, sentences: tuple[int, int], length: tuple[int, int], seed: int = 0) -> TokenStore:
    rng = np.random.default_rng(seed)
    return store_of(*(rng.integers(*length, rng.integers(*sentences)).tolist() for _ in range(documents)))


def all_documents(store: TokenStore) -> np.ndarray:
    return np.arange(len(store.documents) - 1)


def document_of(store: TokenStore, token: np.ndarray) -> np.ndarray:
    return np.searchsorted(store.sentences[store.documents], token, side="right") - 1


def times_seen(store: TokenStore, plan: StretchPlan) -> np.ndarray:
    """How often each token of the store is in the plan."""
    stretches, _, _ = plan.of(np.arange(len(plan)))
    edges = np.zeros(len(store.tokens) + 1, dtype=int)
    np.add.at(edges, stretches[:, 0], 1)
    np.add.at(edges, stretches[:, 1], -1)
    return np.cumsum(edges)[:-1]


def row_lengths(plan: StretchPlan) -> np.ndarray:
    """Tokens of each row with [CLS] and a separator after each part."""
    stretches, owners, _ = plan.of(np.arange(len(plan)))
    return 1 + np.bincount(owners, stretches[:, 1] - stretches[:, 0] + 1, len(plan)).astype(int)
