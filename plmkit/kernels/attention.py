"""Attention on a CPU, faster than torch: within rows by plain products; relative, with contexts of equal length."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from plmkit.kernels.dropout_mask import SEEDS, mask_like
from plmkit.layers.packing import Packing

WEIGHTS_AT_ONCE = 1 << 20  # of all heads: 4 MB, which stay in cache; more than a row of 512 tokens has with 4 heads
AttentionMask = Callable[
    [Packing], Tensor | None
]  # True where a position attends to another, (B, heads, L, L); None: all
Few = tuple[slice, Packing]  # the tokens of a few rows, and the packing of these rows
QUERIES_AT_ONCE = 128  # of one head: its scores stay in cache


def plain_attention(
    joint: Tensor, packing: Packing, heads: int, visible: Tensor | None, mask: Tensor | float = 1.0
) -> Tensor:
    """Reference of both kernels, by the formula; `mask`, (B, heads, L, L), is the dropout mask."""
    query, key, value = packing.unpack(joint).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return packing.pack(((scores.softmax(-1) * mask) @ value).transpose(1, 2).flatten(2))


def is_short(joint: Tensor, packing: Packing, heads: int) -> bool:
    """Whether the attention weights need no more RAM than four states, which is what a feed-forward sublayer keeps."""
    return heads * packing.length <= joint.shape[-1] // 3 * 4


def attend_short_rows(joint: Tensor, packing: Packing, heads: int, visible: Tensor | None, dropout: float) -> Tensor:
    """(T, 3 * width) queries, keys and values of packed rows → (T, width) attention output within each row.

    `visible`, broadcastable to (B, heads, L, L), is True where a position may attend to another; None: everywhere.
    """
    return AttendShortRows.apply(joint, packing, heads, visible, dropout)


class AttendShortRows(torch.autograd.Function):
    """Packed in and out in both passes, so that queries, keys and values are never split or concatenated."""

    @staticmethod
    def forward(
        ctx: Any, joint: Tensor, packing: Packing, heads: int, visible: Tensor | None, dropout: float
    ) -> Tensor:
        parts = split_heads(joint, packing, 3, heads)
        query, key, value = parts
        weights = attention_weights(query, key, packing, heads, visible)
        kept = weights * mask_like(weights, dropout) if dropout else weights
        read = torch.bmm(kept, value)
        ctx.packing, ctx.heads = packing, heads
        ctx.save_for_backward(parts, weights, kept, read if dropout else None)
        return merge_heads(read[None], packing, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts, weights, kept, read = ctx.saved_tensors
        (to_read,) = split_heads(gradient, ctx.packing, 1, ctx.heads)
        sums = None if read is None else (to_read * read).sum(-1, keepdim=True)
        return (
            merge_heads(to_parts(parts, weights, kept, to_read, sums), ctx.packing, ctx.heads),
            None,
            None,
            None,
            None,
        )


def attend_long_rows(
    joint: Tensor, packing: Packing, heads: int, attention_mask: AttentionMask, dropout: float
) -> Tensor:
    """As `attend_short_rows`, for rows whose weights need too much RAM; a few rows at a time."""
    return AttendLongRows.apply(joint, packing, heads, attention_mask, dropout)


class AttendLongRows(torch.autograd.Function):
    """The backward pass recomputes weights and dropout masks, which is cheaper than loading them from memory."""

    @staticmethod
    def forward(
        ctx: Any, joint: Tensor, packing: Packing, heads: int, attention_mask: AttentionMask, dropout: float
    ) -> Tensor:
        ctx.few = few_rows(packing, WEIGHTS_AT_ONCE // heads)
        ctx.seeds = torch.randint(SEEDS, (len(ctx.few),)).tolist()
        ctx.heads, ctx.attention_mask, ctx.dropout = heads, attention_mask, dropout
        read = joint.new_empty(len(joint), joint.shape[-1] // 3)
        for (tokens, packing), seed in zip(ctx.few, ctx.seeds, strict=True):
            parts = split_heads(joint[tokens], packing, 3, heads)
            _, kept = weights_of(ctx, parts, packing, seed)
            read[tokens] = merge_heads(torch.bmm(kept, parts[2])[None], packing, heads)
        ctx.save_for_backward(joint, read)
        return read

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        joint, read = ctx.saved_tensors
        made = torch.empty_like(joint)
        sums = (gradient * read).unflatten(-1, (ctx.heads, -1)).sum(-1)  # (T, heads)
        for (tokens, packing), seed in zip(ctx.few, ctx.seeds, strict=True):
            parts = split_heads(joint[tokens], packing, 3, ctx.heads)
            weights, kept = weights_of(ctx, parts, packing, seed)
            (to_read,), (sum_,) = (split_heads(each[tokens], packing, 1, ctx.heads) for each in (gradient, sums))
            made[tokens] = merge_heads(to_parts(parts, weights, kept, to_read, sum_), packing, ctx.heads)
        return made, None, None, None, None


def weights_of(ctx: Any, parts: Tensor, packing: Packing, seed: int) -> tuple[Tensor, Tensor]:
    """Attention weights of a few rows, before and after dropout."""
    weights = attention_weights(parts[0], parts[1], packing, ctx.heads, ctx.attention_mask(packing))
    return weights, weights * mask_like(weights, ctx.dropout, seed) if ctx.dropout else weights


def few_rows(packing: Packing, squares: int) -> list[Few]:
    """Runs of consecutive rows with at most `squares` pairs of positions each, or single rows."""
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


def attention_weights(query: Tensor, key: Tensor, packing: Packing, heads: int, visible: Tensor | None) -> Tensor:
    """(heads * B, L, L) attention weights."""
    weights = query.new_empty(len(query), packing.length, packing.length)  # scores at first
    torch.baddbmm(weights, query, key.mT, beta=0, alpha=scale_of(query), out=weights)
    if visible is not None:
        weights.unflatten(0, (heads, packing.rows)).transpose(0, 1).add_(added_mask(visible, weights.dtype))
    return torch.softmax(weights, -1, out=weights)


def to_parts(parts: Tensor, weights: Tensor, kept: Tensor, to_read: Tensor, sums: Tensor | None) -> Tensor:
    """Gradients of queries, keys and values; with dropout, `sums` are those of gradient times output.

    The gradient of softmax subtracts the weighted mean of a row's gradients, which is this sum.
    """
    query, key, value = parts
    made = torch.empty_like(parts)
    to_query, to_key, to_value = made
    torch.bmm(kept.mT, to_read, out=to_value)
    to_scores = torch.bmm(to_read, value.mT)
    if sums is not None:
        to_scores.mul_(kept).addcmul_(weights, sums, value=-1)
    else:
        torch._softmax_backward_data(to_scores, weights, -1, weights.dtype, grad_input=to_scores)
    torch.baddbmm(to_query, to_scores, key, beta=0, alpha=scale_of(query), out=to_query)
    torch.baddbmm(to_key, to_scores.mT, query, beta=0, alpha=scale_of(query), out=to_key)
    return made


def scale_of(query: Tensor) -> float:
    """The factor of the scores."""
    return 1 / math.sqrt(query.shape[-1])


def added_mask(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Added to scores: 0 where a position is visible, minus infinity elsewhere."""
    return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, -torch.inf)


def split_heads(packed: Tensor, packing: Packing, parts: int, heads: int) -> Tensor:
    """(T, parts * width) → (parts, heads * B, L, width / heads)."""
    split = packed.unflatten(-1, (parts, heads, -1)).permute(1, 2, 0, 3)
    every = split.contiguous() if packing.kept is None else packing.everywhere(split, dim=2)
    return every.unflatten(2, (packing.rows, packing.length)).flatten(1, 2)


def merge_heads(parts: Tensor, packing: Packing, heads: int) -> Tensor:
    """(parts, heads * B, L, width / heads) → (T, parts * width)."""
    every = parts.unflatten(1, (heads, -1)).flatten(2, 3).permute(2, 0, 1, 3)
    return (every if packing.kept is None else every.index_select(0, packing.kept)).flatten(1)


def plain_band(contents: Tensor, places: Tensor, keys: Tensor, values: Tensor, distances: Tensor) -> Tensor:
    """Reference of `Band.mix`: query i attends to as many keys, from i on, as there are distances."""
    queries, window = contents.shape[2], distances.shape[-1]
    found = []
    for query in range(queries):
        seen = slice(query, query + window)
        by_content = (contents[:, :, query, :, None] * keys[..., seen]).sum(2)
        by_distance = (places[:, :, query, :, None] * distances).sum(2)
        found.append(((by_content + by_distance).softmax(-1)[..., None] * values[:, :, seen]).sum(2))
    return torch.stack(found, dim=2)


class Band:
    """Scores by distance are written directly at their keys and those by content added: no shift, no copy.

    Query i attends to the keys from i to i + window - 1, so in the (queries, keys) matrix of scores its own begin one
    column later each time. In a view with rows that are one longer, they are aligned. For inference only.
    """

    def __init__(self, window: int, like: Tensor) -> None:
        self.window = window
        self.scores = like.new_empty(QUERIES_AT_ONCE * (window - 1 + QUERIES_AT_ONCE))

    def mix(self, contents: Tensor, places: Tensor, keys: Tensor, values: Tensor, distances: Tensor) -> Tensor:
        """(B, heads, Q, width) attention output, given queries of content and of distance, (B, heads, Q, width) each.

        Keys are (B, heads, width, window - 1 + Q), values (B, heads, window - 1 + Q, width) and distances, from the
        farthest to 0, (heads, width, window).
        """
        found = torch.empty_like(contents)
        for begin in range(0, contents.shape[2], QUERIES_AT_ONCE):
            queries = slice(begin, min(begin + QUERIES_AT_ONCE, contents.shape[2]))
            seen = slice(begin, queries.stop + self.window - 1)
            scores, within, beyond = self.tables(queries.stop - begin)
            for row, head in product(range(len(contents)), range(contents.shape[1])):
                beyond.fill_(-torch.inf)
                torch.mm(places[row, head, queries], distances[head], out=within)
                torch.addmm(scores, contents[row, head, queries], keys[row, head, :, seen], out=scores)
                torch.softmax(scores, -1, out=scores)
                torch.mm(scores, values[row, head, seen], out=found[row, head, queries])
        return found

    def tables(self, queries: int) -> tuple[Tensor, Tensor, Tensor]:
        """Views of the scores: (queries, keys) all, (queries, window) by distance, and those outside the window."""
        keys = self.window - 1 + queries
        within = self.scores.as_strided((queries, self.window), (keys + 1, 1))
        beyond = self.scores[self.window :].as_strided((queries - 1, queries), (keys + 1, 1))
        return self.scores[: queries * keys].view(queries, keys), within, beyond
