"""Rows without their padding: everything but attention is computed for real tokens only."""

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import the compiler

from plmkit.kernels.autograd import spread, take_once


class Packing:
    """Converts between (B, L, ...) with padding and (T, ...) without; in an exported graph padding is computed too."""

    @_disable_dynamo  # T depends on the data
    def __init__(self, visible: Tensor) -> None:
        self.rows, self.length = visible.shape
        self.shown = visible  # (B, L) False on padding
        self.kept: Tensor | None = None  # (T,) flat indices of tokens; None: all
        self.visible: Tensor | None = visible[:, None, None, :]  # for attention; None: all
        if torch.compiler.is_exporting():
            self.first = torch.arange(self.rows, device=visible.device) * self.length
            self.last = self.first + (visible * torch.arange(self.length, device=visible.device)).amax(1)
            return
        every, counts = visible.flatten(), visible.sum(1)
        kept = every.nonzero().squeeze(1)
        if len(kept) == len(every):
            self.visible = None
        else:
            self.kept = kept
            self.padding = (~every).nonzero().squeeze(1)  # flat indices of padding
            self.sources = (every.cumsum(0) - 1).clamp_(min=0)  # (B * L,) the token there, or the last before
        self.first = counts.cumsum(0) - counts  # where each row begins
        self.last = self.first + counts - 1  # where its text ends

    def pack(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.kept is None else take_once(flat, self.kept)

    def unpack(self, packed: Tensor) -> Tensor:
        """(T, ...) → (B, L, ...) with zeros at padding."""
        every = packed if self.kept is None else spread(packed, self.sources, self.padding, self.kept)
        return every.unflatten(0, (self.rows, self.length))

    def everywhere(self, packed: Tensor, dim: int = 0) -> Tensor:
        """From tokens to all B * L places, with zeros at padding."""
        return packed.index_select(dim, self.sources).index_fill_(dim, self.padding, 0)

    def positions(self) -> Tensor:
        """(T,) the position of each token in its row."""
        if torch.compiler.is_exporting():
            return torch.arange(self.length, device=self.first.device).repeat(self.rows)
        places = torch.arange(self.rows * self.length, device=self.first.device) if self.kept is None else self.kept
        return places % self.length


class NeededTokens(Packing):
    """The tokens of packed rows whose last states are needed, moved left into shorter rows.

    The first token of a row is always one of them. Attention masks and positions are those of `every`,
    the packing of all tokens. In an exported graph `needed` has the places themselves, (N,), the same in all rows, and
    only their states are returned.
    """

    @_disable_dynamo
    def __init__(self, every: Packing, needed: Tensor) -> None:
        self.every = every
        if torch.compiler.is_exporting():
            self.rows, self.length, self.kept = every.rows, needed.shape[0], None
            self.first = torch.arange(self.rows, device=needed.device) * self.length
            self.places = needed
            return
        needed = needed.flatten().clone()
        begins = every.first if every.kept is None else every.kept[every.first]
        needed[begins] = True
        if every.kept is None:
            self.among = self.places = needed.nonzero().squeeze(1)
        else:
            self.among = needed[every.kept].nonzero().squeeze(1)  # (N,) indices among packed tokens
            self.places = every.kept[self.among]  # (N,) flat indices among B * L
        counts = torch.bincount(self.places // every.length, minlength=every.rows)
        super().__init__(torch.arange(int(counts.max()), device=counts.device) < counts[:, None])

    def choose(self, packed: Tensor) -> Tensor:
        """(T, ...) → (N, ...)."""
        if torch.compiler.is_exporting():
            return self.every.unpack(packed).index_select(1, self.places).flatten(0, 1)
        return take_once(packed, self.among)

    def put_back(self, chosen: Tensor) -> Tensor:
        """(N, ...) → (B, L, ...), zeros elsewhere."""
        if torch.compiler.is_exporting():
            return self.unpack(chosen)
        rows, length = self.every.rows, self.every.length
        full = chosen.new_zeros(rows * length, *chosen.shape[1:])
        return full.index_copy_(0, self.places, chosen).unflatten(0, (rows, length))
