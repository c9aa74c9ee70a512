"""Gather and scatter of rows with distinct indices."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def plain_take(rows: Tensor, places: Tensor) -> Tensor:
    """Reference of `take_once`."""
    return rows[places]


def take_once(rows: Tensor, places: Tensor) -> Tensor:
    """rows[places], for distinct places."""
    return TakeOnce.apply(rows, places)


class TakeOnce(torch.autograd.Function):
    """Gradients are copied to their places; torch would accumulate them, which takes five times as long."""

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


def plain_spread(packed: Tensor, length: int, kept: Tensor) -> Tensor:
    """Reference of `spread`: zeros of this length, with the packed rows at the kept places."""
    return packed.new_zeros(length, *packed.shape[1:]).index_copy(0, kept, packed)


def spread(packed: Tensor, sources: Tensor, padding: Tensor, kept: Tensor) -> Tensor:
    """Packed rows at the kept places, zeros at padding.

    `sources` holds for every place the packed row there, or the last one before.
    """
    return Spread.apply(packed, sources, padding, kept)


class Spread(torch.autograd.Function):
    """Gradients are gathered from the kept places; torch would accumulate them."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, sources: Tensor, padding: Tensor, kept: Tensor) -> Tensor:
        ctx.save_for_backward(kept)
        return packed.index_select(0, sources).index_fill_(0, padding, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return gradient.index_select(0, kept), None, None, None
