"""Attention weights and projections on request: computed beside the layer's own arithmetic, if somebody records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from plmkit.data.batch import HeadStates

Kind = Literal["self", "cross", "query"]  # "query": the second stream of XLNet


@dataclass(frozen=True, kw_only=True)
class AttentionWeights:
    """The weights of one layer, in the order in which layers are called."""

    weights: Tensor  # (B, heads, queries, keys), each query's add up to 1
    kind: Kind = "self"
    memory: int = 0  # keys, from the first on, that belong to the text before


_records: ContextVar[list[AttentionWeights] | None] = ContextVar("attention_records", default=None)


@contextmanager
def recording() -> Iterator[list[AttentionWeights]]:
    """Collects the weights of every attention layer that is called inside."""
    kept: list[AttentionWeights] = []
    token = _records.set(kept)
    try:
        yield kept
    finally:
        _records.reset(token)


def record(weights: Callable[[], Tensor], kind: Kind = "self", memory: int = 0) -> None:
    """Called by every attention layer; `weights` is only called while somebody records."""
    if (kept := _records.get()) is not None:
        kept.append(AttentionWeights(weights=weights().detach(), kind=kind, memory=memory))


_projections: ContextVar[list[HeadStates] | None] = ContextVar("attention_projections", default=None)


@contextmanager
def projecting() -> Iterator[list[HeadStates]]:
    """Collects queries, keys and values of every self-attention layer that is called inside, with their gradients."""
    kept: list[HeadStates] = []
    token = _projections.set(kept)
    try:
        yield kept
    finally:
        _projections.reset(token)


def project(states: Callable[[], HeadStates]) -> None:
    """Called by every layer of self-attention; `states` is only called while somebody collects them."""
    if (kept := _projections.get()) is not None:
        kept.append(states())
