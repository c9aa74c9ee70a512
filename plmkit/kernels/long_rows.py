"""Attention within long rows, for training on a CPU: a few rows at a time, and no table of weights is kept."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plmkit.kernels.short_rows import by_heads, side_by_side, to_parts, weigh
from plmkit.layers.dropout import SEEDS, mask_like
from plmkit.layers.packing import Packing

WEIGHTS_AT_ONCE = 1 << 20  # of all heads: 4 MB, near the processor; more than one row of 512 tokens has with 4 heads
Readable = Callable[
    [Packing], Tensor | None
]  # True where a position may read another, (B, heads, L, L); None: everywhere
Few = tuple[slice, Packing]  # where the tokens of a few rows stand among all, and their own packing


def read_long_rows(joint: Tensor, packing: Packing, heads: int, readable: Readable, dropout: float) -> Tensor:
    """As `read_rows`, for rows whose tables of weights would fill the memory; padded to the longest of a few."""
    return ReadLongRows.apply(joint, packing, heads, readable, dropout)


class ReadLongRows(torch.autograd.Function):
    """The way back weighs again, and draws the same masks again: that is cheaper than to fetch them from memory."""

    @staticmethod
    def forward(ctx: Any, joint: Tensor, packing: Packing, heads: int, readable: Readable, dropout: float) -> Tensor:
        ctx.few = few_rows(packing, WEIGHTS_AT_ONCE // heads)
        ctx.seeds = torch.randint(SEEDS, (len(ctx.few),)).tolist()
        ctx.heads, ctx.readable, ctx.dropout = heads, readable, dropout
        read = joint.new_empty(len(joint), joint.shape[-1] // 3)
        for (tokens, packing), seed in zip(ctx.few, ctx.seeds, strict=True):
            parts = by_heads(joint[tokens], packing, 3, heads)
            _, kept = weights_of(ctx, parts, packing, seed)
            read[tokens] = side_by_side(torch.bmm(kept, parts[2])[None], packing, heads)
        ctx.save_for_backward(joint, read)
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        joint, read = ctx.saved_tensors
        made = torch.empty_like(joint)
        sums = (gradient * read).unflatten(-1, (ctx.heads, -1)).sum(-1)  # (T, heads)
        for (tokens, packing), seed in zip(ctx.few, ctx.seeds, strict=True):
            parts = by_heads(joint[tokens], packing, 3, ctx.heads)
            weights, kept = weights_of(ctx, parts, packing, seed)
            (to_read,), (sum_,) = (by_heads(each[tokens], packing, 1, ctx.heads) for each in (gradient, sums))
            made[tokens] = side_by_side(to_parts(parts, weights, kept, to_read, sum_), packing, ctx.heads)
        return made, None, None, None, None


def weights_of(ctx: Any, parts: Tensor, packing: Packing, seed: int) -> tuple[Tensor, Tensor]:
    """Of a few rows, and what dropout leaves of them."""
    weights = weigh(parts[0], parts[1], packing, ctx.heads, ctx.readable(packing))
    return weights, weights * mask_like(weights, ctx.dropout, seed) if ctx.dropout else weights


def few_rows(packing: Packing, squares: int) -> list[Few]:
    """Runs of rows, as many at once as have so many pairs of positions, or one."""
    lengths, begins = packing.shown.sum(1).tolist(), [*packing.first.tolist(), None]
    found, start = [], 0
    while start < packing.rows:
        stop, longest = start + 1, lengths[start]
        while stop < packing.rows and (stop + 1 - start) * max(longest, lengths[stop]) ** 2 <= squares:
            longest = max(longest, lengths[stop])
            stop += 1
        rows = packing.shown[start:stop]
        filled = rows.any(0).nonzero()
        tokens = slice(begins[start], begins[stop])
        found.append((tokens, Packing(rows[:, int(filled[0]) : int(filled[-1]) + 1])))
        start = stop
    return found
