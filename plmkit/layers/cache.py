"""Keys and values of what a decoder has read, in room that is taken once."""

import torch
from torch import Tensor


class KeyValueCache:
    """All layers' keys and values; reading on writes behind what is there, and copies nothing."""

    def __init__(self, *, layers: int, rows: int, heads: int, longest: int, inside: int, like: Tensor) -> None:
        self.length = 0  # steps it holds
        shape = layers, rows, heads, longest, inside
        self.keys, self.values = like.new_empty(shape), like.new_empty(shape)

    def layer(self, number: int, count: int) -> "Kept":
        """What one layer reads and writes while `count` tokens are read in each row."""
        return Kept(self.keys[number], self.values[number], self.length, count)

    def pick(self, rows: Tensor) -> None:
        """Keep these rows, in this order; one may be named several times, or not at all."""
        self.keys, self.values = (picked(held, rows, self.length) for held in (self.keys, self.values))

    def cut(self, length: int) -> None:
        """Forget what was read behind the first so many steps."""
        self.length = length


def picked(held: Tensor, rows: Tensor, length: int) -> Tensor:
    layers, _, heads, longest, inside = held.shape
    new = held.new_empty(layers, len(rows), heads, longest, inside)
    torch.index_select(held[:, :, :, :length], 1, rows, out=new[:, :, :, :length])
    return new


class Kept:
    """One layer of it, in the place of a `Packing`: rows of `count` tokens without padding, behind `before` others."""

    visible = None

    def __init__(self, keys: Tensor, values: Tensor, before: int, count: int) -> None:
        self.keys, self.values = keys, values  # (B, heads, longest, width / heads)
        self.before, self.length = before, before + count
        self.rows, self.count = len(keys), count

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        return packed.view(self.rows, self.count, *packed.shape[1:])

    def add(self, key: Tensor, value: Tensor, reach: int | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of the last `reach` steps, these among them; None: of all."""
        self.keys[:, :, self.before : self.length] = key
        self.values[:, :, self.before : self.length] = value
        first = 0 if reach is None else max(0, self.length - reach)
        return self.keys[:, :, first : self.length], self.values[:, :, first : self.length]
