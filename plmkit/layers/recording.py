"""Attention weights on request: computed beside the layer's own arithmetic, and only while somebody records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

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
