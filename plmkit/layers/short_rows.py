"""Attention within short rows, for training on a CPU: plain products, faster there than torch's fused kernel."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plmkit.layers.dropout import mask_like
from plmkit.layers.packing import Packing


def suits(joint: Tensor, packing: Packing, heads: int) -> bool:
    """Do these rows gain by it? Up to this length, a table of weights takes no more room than `joint` of whole rows."""
    short = heads * packing.length <= joint.shape[-1]
    return short and joint.requires_grad and joint.device.type == "cpu" and joint.dtype == torch.float32


def read_rows(joint: Tensor, packing: Packing, heads: int, visible: Tensor | None, dropout: float) -> Tensor:
    """(T, 3 * width) queries, keys and values of packed rows to (T, width): what each position reads in its row.

    `visible`, which spreads to (B, heads, L, L), is True where a position may read another; None: everywhere.
    """
    return ReadRows.apply(joint, packing, heads, visible, dropout)


class ReadRows(torch.autograd.Function):
    """From packed numbers to packed numbers both ways, so that parts are neither cut out nor joined on the way."""

    @staticmethod
    def forward(
        ctx: Any, joint: Tensor, packing: Packing, heads: int, visible: Tensor | None, dropout: float
    ) -> Tensor:
        parts = by_heads(joint, packing, 3, heads)
        query, key, value = parts
        weights = joint.new_empty(len(query), packing.length, packing.length)  # scores at first
        torch.baddbmm(weights, query, key.mT, beta=0, alpha=scale_of(query), out=weights)
        if visible is not None:
            weights.unflatten(0, (heads, packing.rows)).transpose(0, 1).add_(barred(visible, weights.dtype))
        torch.softmax(weights, -1, out=weights)
        kept = weights * mask_like(weights, dropout) if dropout else weights
        read = torch.bmm(kept, value)
        ctx.packing, ctx.heads = packing, heads
        ctx.save_for_backward(parts, weights, kept, read if dropout else None)
        return side_by_side(read[None], packing, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts, weights, kept, read = ctx.saved_tensors
        query, key, value = parts
        (to_read,) = by_heads(gradient, ctx.packing, 1, ctx.heads)
        made = torch.empty_like(parts)
        to_query, to_key, to_value = made
        torch.bmm(kept.mT, to_read, out=to_value)
        to_scores = torch.bmm(to_read, value.mT)
        if read is not None:
            # of a row's gradients, softmax takes off their mean by weight, which is this sum
            to_scores.mul_(kept).addcmul_(weights, (to_read * read).sum(-1, keepdim=True), value=-1)
        else:
            torch._softmax_backward_data(to_scores, weights, -1, weights.dtype, grad_input=to_scores)
        torch.baddbmm(to_query, to_scores, key, beta=0, alpha=scale_of(query), out=to_query)
        torch.baddbmm(to_key, to_scores.mT, query, beta=0, alpha=scale_of(query), out=to_key)
        return side_by_side(made, ctx.packing, ctx.heads), None, None, None, None


def scale_of(query: Tensor) -> float:
    """Of the scores."""
    return 1 / math.sqrt(query.shape[-1])


def barred(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """What to add to scores: nothing where a position may be read, so much elsewhere that its weight is zero."""
    return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, -torch.inf)


def by_heads(packed: Tensor, packing: Packing, parts: int, heads: int) -> Tensor:
    """(T, parts * width) to (parts, heads * B, L, width / heads)."""
    split = packed.unflatten(-1, (parts, heads, -1)).permute(1, 2, 0, 3)
    every = split.contiguous() if packing.kept is None else packing.everywhere(split, dim=2)
    return every.unflatten(2, (packing.rows, packing.length)).flatten(1, 2)


def side_by_side(parts: Tensor, packing: Packing, heads: int) -> Tensor:
    """(parts, heads * B, L, width / heads) to (T, parts * width)."""
    every = parts.unflatten(1, (heads, -1)).flatten(2, 3).permute(2, 0, 1, 3)
    return (every if packing.kept is None else every.index_select(0, packing.kept)).flatten(1)
