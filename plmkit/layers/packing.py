"""Rows without their padding: everything but attention is computed for real tokens only."""

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable, which loads the compiler at once

from plmkit.kernels.gather import spread, take_once


class Packing:
    """Between (B, L, ...) with padding and (T, ...) without."""

    @_disable_dynamo  # how many there are is known only with the numbers
    def __init__(self, visible: Tensor) -> None:
        self.rows, self.length = visible.shape
        self.shown = visible  # (B, L) False on padding
        every, counts = visible.flatten(), visible.sum(1)
        kept = every.nonzero().squeeze(1)
        self.kept = kept if len(kept) < len(every) else None  # (T,) places of all rows, counted through; None: all
        if self.kept is not None:
            self.padding = (~every).nonzero().squeeze(1)  # the other places
            self.sources = (every.cumsum(0) - 1).clamp_(min=0)  # (B * L,) which of those kept is there, or was last
        self.visible = None if self.kept is None else visible[:, None, None, :]  # to attention; None: all
        self.first = counts.cumsum(0) - counts  # where each row begins
        self.last = self.first + counts - 1  # where its text ends

    def pack(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.kept is None else take_once(flat, self.kept)

    def unpack(self, packed: Tensor) -> Tensor:
        """With zeros where padding is."""
        every = packed if self.kept is None else spread(packed, self.sources, self.padding, self.kept)
        return every.unflatten(0, (self.rows, self.length))

    def everywhere(self, packed: Tensor, dim: int = 0) -> Tensor:
        """From kept places to all of them, with zeros where padding is."""
        return packed.index_select(dim, self.sources).index_fill_(dim, self.padding, 0)

    def positions(self) -> Tensor:
        """(T,) the place of each token in its row."""
        places = torch.arange(self.rows * self.length, device=self.first.device) if self.kept is None else self.kept
        return places % self.length


class NeededTokens(Packing):
    """The few tokens of packed rows whose last states are used; moved to the left, they are short rows of their own.

    The first token of a row is always one of them. What a token may read, and where it stands in the text, only
    the packing of all tokens knows.
    """

    @_disable_dynamo
    def __init__(self, every: Packing, needed: Tensor) -> None:
        needed = needed.flatten().clone()
        begins = every.first if every.kept is None else every.kept[every.first]
        needed[begins] = True
        if every.kept is None:
            self.among = self.places = needed.nonzero().squeeze(1)
        else:
            self.among = needed[every.kept].nonzero().squeeze(1)  # (N,) where they are among packed tokens
            self.places = every.kept[self.among]  # (N,) and among all places of all rows
        counts = torch.bincount(self.places // every.length, minlength=every.rows)
        super().__init__(torch.arange(int(counts.max()), device=counts.device) < counts[:, None])
        self.every = every

    def choose(self, packed: Tensor) -> Tensor:
        """(T, ...) to (N, ...)."""
        return take_once(packed, self.among)

    def put_back(self, chosen: Tensor) -> Tensor:
        """(N, ...) to (B, L, ...), zeros elsewhere."""
        rows, length = self.every.rows, self.every.length
        full = chosen.new_zeros(rows * length, *chosen.shape[1:])
        return full.index_copy_(0, self.places, chosen).unflatten(0, (rows, length))
