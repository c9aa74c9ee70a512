"""Rows without their padding: where there is much of it, everything but attention is computed for real tokens only."""

from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable, which loads the compiler at once
from torch.autograd.function import once_differentiable

FULL = 0.95  # share of real tokens from which on taking padding out and putting it back takes longer than computing it


class Packing:
    """Between (B, L, ...) with padding and (T, ...) without, or with all of it where there is hardly any."""

    @_disable_dynamo  # how many there are is known only with the numbers
    def __init__(self, visible: Tensor, full: float | None = None) -> None:
        self.rows, self.length = visible.shape
        counts = visible.sum(1)
        straight = torch.arange(self.length, device=visible.device) < counts[:, None]
        facts = counts.sum(), (counts == 0).any(), (visible == straight).all()
        tokens, empty, behind = torch.stack([fact.long() for fact in facts]).tolist()
        # a row of nothing but padding has nothing to read, and padding in front moves where rows begin
        loose = tokens < (FULL if full is None else full) * visible.numel() or empty or not behind
        self.kept = visible.flatten().nonzero().squeeze(1) if loose else None  # (T,); None: all places
        self.visible = None if tokens == visible.numel() else visible[:, None, None, :]  # to attention; None: all
        begins = torch.arange(self.rows, device=visible.device) * self.length
        self.first = counts.cumsum(0) - counts if loose else begins  # where each row begins
        self.last = self.first + counts - 1  # where its text ends

    def pack(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.kept is None else take_once(flat, self.kept)

    def unpack(self, packed: Tensor) -> Tensor:
        """With any finite numbers where padding is."""
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

    @_disable_dynamo
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
        super().__init__(torch.arange(int(counts.max()), device=counts.device) < counts[:, None], full=1.0)
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
