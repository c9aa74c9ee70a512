"""Key–value caches, in buffers that are allocated once."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor


class Cache(ABC):
    """The state of a model after the tokens it has read; changed in place."""

    can_cut: ClassVar[bool] = False  # whether it can drop its last tokens
    length: int = 0  # tokens read so far

    @abstractmethod
    def pick(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be picked several times or not at all."""

    def cut(self, length: int) -> None:
        """Drop all but the first `length` tokens."""
        raise NotImplementedError(f"{type(self).__name__} cannot drop tokens.")


class KeyValueCache(Cache):
    """Keys and values of all layers; new ones are appended in place, without a copy."""

    can_cut = True

    def __init__(self, *, layers: int, rows: int, heads: int, max_length: int, inside: int, like: Tensor) -> None:
        self.steps: list[Any] = []  # the layers, prepared for one token at a time
        self.both = self.whole = like.new_empty(layers, 2, rows, heads, max_length, inside)  # rows in use, and all
        self.spare: Tensor | None = None

    @property
    def keys(self) -> Tensor:
        return self.both[:, 0]

    @property
    def values(self) -> Tensor:
        return self.both[:, 1]

    def layer(self, number: int, count: int) -> "LayerCache":
        """The view of one layer while each row reads `count` tokens."""
        return LayerCache(self.keys[number], self.values[number], self.length, count)

    def further(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """One more step: for each layer, where to write its keys and values, and all of them including these."""
        self.length += 1
        return self.both[..., self.length - 1 : self.length, :].unbind(), self.both[..., : self.length, :].unbind()

    def pick(self, rows: Tensor) -> None:
        """Into a second buffer, which is kept: beam search picks at every step, and fresh memory is slow."""
        if self.spare is None or self.spare.shape[2] < len(rows):
            self.spare = self.both.new_empty(*self.both.shape[:2], len(rows), *self.both.shape[3:])
        chosen = self.spare[:, :, : len(rows)]
        torch.index_select(self.both[..., : self.length, :], 2, rows, out=chosen[..., : self.length, :])
        self.both, self.spare, self.whole = chosen, self.whole, self.spare

    def cut(self, length: int) -> None:
        self.length = length


class LayerCache:
    """One layer of the cache, with the interface of `Packing`: rows of `count` tokens, after `before` others."""

    visible = None

    def __init__(self, keys: Tensor, values: Tensor, before: int, count: int) -> None:
        self.keys, self.values = keys, values  # (B, heads, max_length, width / heads)
        self.before, self.length = before, before + count
        self.rows, self.count = len(keys), count

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        return packed.view(self.rows, self.count, *packed.shape[1:])

    def add(self, key: Tensor, value: Tensor, window: int | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the last `window` steps, these included; None: of all steps."""
        self.keys[:, :, self.before : self.length] = key
        self.values[:, :, self.before : self.length] = value
        first = 0 if window is None else max(0, self.length - window)
        return self.keys[:, :, first : self.length], self.values[:, :, first : self.length]
