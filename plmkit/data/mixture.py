"""Mixing corpora: each source's share of the tokens that are read."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore

CLOSE = 0.002  # a share this near to its weight is left alone
ROUNDS = 100


def mix(store: TokenStore, documents: np.ndarray, weights: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """The documents of an epoch: each once or, with weights, repeated until each source has its share of the tokens."""
    if not weights:
        return documents
    sizes, sources = store.document_tokens()[documents], store.sources[documents]
    present = sum(weight for source, weight in enumerate(weights) if (sources == source).any())
    total = sizes.sum()
    chosen = []
    for source, weight in enumerate(weights):
        mine = documents[sources == source]
        needed = total * weight / present
        chosen.append(repeat_to(mine, sizes[sources == source], needed, rng))
    return np.concatenate(chosen)


def repeat_to(documents: np.ndarray, sizes: np.ndarray, needed: float, rng: np.random.Generator) -> np.ndarray:
    """Whole copies of the documents, then random ones, until they hold `needed` tokens."""
    if not len(documents):
        return documents
    copies, rest = divmod(needed, sizes.sum())
    order = rng.permutation(len(documents))
    extra = int(np.searchsorted(np.cumsum(sizes[order]), rest))
    return np.concatenate([np.tile(documents, int(copies)), documents[order[:extra]]])


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def balance(plan: AnyPlan, store: TokenStore, weights: Sequence[float], rng: np.random.Generator) -> AnyPlan:
    """Drop rows of sources that exceed their share, which truncation and random second texts can cause."""
    if not weights or not len(plan):
        return plan
    counts = tokens_by_source(plan, store, len(weights))
    present = counts.sum(axis=0) > 0
    needed = np.where(present, weights, 0.0) / np.sum(weights, where=present)
    order = rng.permutation(len(plan))
    for _ in range(ROUNDS):
        totals = counts[order].sum(axis=0)
        source = int(np.argmax(totals / totals.sum() - needed))
        if totals[source] / totals.sum() - needed[source] <= CLOSE:
            break
        fewer = without_excess(order, counts, source, needed[source])
        if (counts[fewer].sum(axis=0)[present] == 0).any():
            break  # with so few rows, no choice of them has the shares
        order = fewer
    return plan.only(np.sort(order))


def tokens_by_source(plan: Plan, store: TokenStore, sources: int) -> np.ndarray:
    """(N, sources) number of tokens from each source, per row."""
    starts = store.sentences[store.documents]
    counts = np.zeros((len(plan), sources))
    for block in plan.blocks():
        stretches, owners, _ = plan.of(block)
        source = store.sources[np.searchsorted(starts, stretches[:, 0], side="right") - 1]
        sizes = stretches[:, 1] - stretches[:, 0]
        counts[block] = np.bincount(
            owners * sources + source, weights=sizes, minlength=len(block) * sources
        ).reshape(-1, sources)  # fmt: skip
    return counts


def without_excess(order: np.ndarray, counts: np.ndarray, source: int, needed: float) -> np.ndarray:
    """Drop random rows in which the source exceeds its share, until its share is the one needed."""
    mine, whole = counts[order, source], counts[order].sum(axis=1)
    rich = np.flatnonzero(mine > needed * whole)  # in random order, as `order` is
    left = (mine.sum() - np.cumsum(mine[rich])) - needed * (whole.sum() - np.cumsum(whole[rich]))
    return np.delete(order, rich[: int(np.argmax(left <= 0)) + 1])
