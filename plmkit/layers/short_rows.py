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
        parts = by_heads(packing.unpack(joint), 3, heads)
        query, key, value = parts
        query /= math.sqrt(query.shape[-1])
        scores = torch.bmm(query, key.mT)  # (B * heads, L, L)
        if visible is not None:
            scores.unflatten(0, (packing.rows, heads)).add_(barred(visible, scores.dtype))
        weights = scores.softmax(-1)
        kept = weights * mask_like(weights, dropout) if dropout else weights
        read = torch.bmm(kept, value)
        ctx.packing, ctx.heads = packing, heads
        ctx.save_for_backward(parts, weights, kept, read if dropout else None)
        return packing.pack(side_by_side(read[None], heads))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts, weights, kept, read = ctx.saved_tensors
        query, key, value = parts
        (to_read,) = by_heads(ctx.packing.unpack(gradient), 1, ctx.heads)
        made = torch.empty_like(parts)
        to_query, to_key, to_value = made
        torch.bmm(kept.mT, to_read, out=to_value)
        to_scores = torch.bmm(to_read, value.mT)
        if read is not None:
            # of a row's gradients, softmax takes off their mean by weight, which is this sum
            to_scores.mul_(kept).addcmul_(weights, (to_read * read).sum(-1, keepdim=True), value=-1)
        else:
            to_scores = torch._softmax_backward_data(to_scores, weights, -1, weights.dtype)
        torch.bmm(to_scores, key, out=to_query)
        to_query /= math.sqrt(query.shape[-1])
        torch.bmm(to_scores.mT, query, out=to_key)
        return ctx.packing.pack(side_by_side(made, ctx.heads)), None, None, None, None


def barred(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """What to add to scores: nothing where a position may be read, so much elsewhere that its weight is zero."""
    return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, -torch.inf)


def by_heads(joint: Tensor, parts: int, heads: int) -> Tensor:
    """(B, L, parts * width) to (parts, B * heads, L, width / heads)."""
    split = joint.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4)
    return split.clone(memory_format=torch.contiguous_format).flatten(1, 2)  # never `joint` itself


def side_by_side(parts: Tensor, heads: int) -> Tensor:
    """(parts, B * heads, L, width / heads) to (B, L, parts * width)."""
    return parts.unflatten(1, (-1, heads)).permute(1, 3, 0, 2, 4).flatten(2)
