"""Rows without their padding: everything but attention is computed for real tokens only."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Packing:
    """Between (B, L, ...) with padding and (T, ...) without."""

    def __init__(self, visible: Tensor) -> None:
        self.rows, self.length = visible.shape
        whole = bool(visible.all())
        self.kept = None if whole else visible.flatten().nonzero().squeeze(1)  # (T,)
        self.visible = None if whole else visible[:, None, None, :]  # what attention may read; None: all
        self.first = torch.arange(self.rows, device=visible.device) * self.length  # where each row begins
        self.last = self.first + self.length - 1  # where each row ends
        if self.kept is not None:
            ends = visible.sum(1).cumsum(0)
            self.first, self.last = ends - visible.sum(1), ends - 1

    def pack(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.kept is None else take_once(flat, self.kept)

    def unpack(self, packed: Tensor) -> Tensor:
        """Zeros where the padding was."""
        return packed.unflatten(0, (self.rows, self.length)) if self.kept is None else self.spread(packed, self.kept)

    def spread(self, packed: Tensor, places: Tensor) -> Tensor:
        """(B, L, ...) with these numbers at these places of all rows, counted through, and zeros elsewhere."""
        full = packed.new_zeros(self.rows * self.length, *packed.shape[1:])
        return full.index_copy_(0, places, packed).unflatten(0, (self.rows, self.length))

    def positions(self) -> Tensor:
        """(T,) the place of each token in its row."""
        places = torch.arange(self.rows * self.length, device=self.first.device) if self.kept is None else self.kept
        return places % self.length


class Wanted(Packing):
    """The few tokens of packed rows whose last states are used; moved to the left, they are short rows of their own.

    The first token of a row is always one of them. What a token may read, and where it stands in the text, only
    the packing of all tokens knows.
    """

    def __init__(self, every: Packing, wanted: Tensor) -> None:
        wanted = wanted.flatten().clone()
        begins = every.first if every.kept is None else every.kept[every.first]
        wanted[begins] = True
        if every.kept is None:
            self.among = self.places = wanted.nonzero().squeeze(1)
        else:
            self.among = wanted[every.kept].nonzero().squeeze(1)  # (N,) where they are among packed tokens
            self.places = every.kept[self.among]  # (N,) and among all places of all rows
        counts = torch.bincount(self.places // every.length, minlength=every.rows)
        super().__init__(torch.arange(int(counts.max()), device=counts.device) < counts[:, None])
        self.every = every

    def choose(self, packed: Tensor) -> Tensor:
        """(T, ...) to (N, ...)."""
        return take_once(packed, self.among)

    def put_back(self, chosen: Tensor) -> Tensor:
        """(N, ...) to (B, L, ...), zeros elsewhere."""
        return self.every.spread(chosen, self.places)


def take_once(rows: Tensor, places: Tensor) -> Tensor:
    """rows[places], where no place comes twice."""
    return TakeOnce.apply(rows, places)


class TakeOnce(torch.autograd.Function):
    """Gradients are copied to their places; torch would add them up there, which takes five times as long."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.rows = len(rows)
        return rows.index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.rows, *gradient.shape[1:]).index_copy_(0, places, gradient), None
