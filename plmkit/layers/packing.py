"""Rows without their padding: everything but attention is computed for real tokens only."""

import torch
from torch import Tensor


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
        return flat if self.kept is None else flat[self.kept]

    def unpack(self, packed: Tensor) -> Tensor:
        """Zeros where the padding was."""
        if self.kept is not None:
            full = packed.new_zeros(self.rows * self.length, *packed.shape[1:])
            packed = full.index_copy(0, self.kept, packed)
        return packed.view(self.rows, self.length, *packed.shape[1:])

    def positions(self) -> Tensor:
        """(T,) the place of each token in its row."""
        places = torch.arange(self.rows * self.length, device=self.first.device) if self.kept is None else self.kept
        return places % self.length
