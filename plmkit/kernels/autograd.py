"""Operations with a backward pass of their own: gather, scatter, and cross entropy in chunks of rows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from plmkit.kernels.linear import is_prepared, pad_rows

NUMBERS_AT_ONCE = 5 << 22  # logits in memory: 84 MB; the 600 masked tokens of 4,096 fit at once
NUMBERS_IN_CACHE = 1 << 19  # of the CPU: 2 MB


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


def plain_cross_entropy(
    hidden: Tensor, table: Tensor, targets: Tensor, shares: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Reference of `chunked_cross_entropy`."""
    losses = F.cross_entropy(F.linear(hidden, table, bias), targets, reduction="none")
    return losses.mean() if shares is None else (losses * shares).sum()


def chunked_cross_entropy(
    hidden: Tensor, table: Tensor, targets: Tensor, shares: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Mean of -log softmax(hidden table + bias)[target] over N rows: hidden (N, width), table (vocabulary, width).

    With shares (N,) it is the sum weighted by them. Every row has a target: none is IGNORE.
    """
    if shares is None:
        shares = hidden.new_full((len(hidden),), 1 / max(1, len(hidden)), dtype=table.dtype)
    if is_prepared(hidden):
        hidden, targets, shares = pad_rows(hidden), pad_rows(targets), pad_rows(shares)  # rows without a share
    return ChunkedCrossEntropy.apply(hidden, table, bias, targets, shares.to(table.dtype), torch.is_grad_enabled())


class ChunkedCrossEntropy(torch.autograd.Function):
    """Gradients are computed with the loss, while a chunk's logits exist: the largest product is computed once."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, shares: Tensor, learning: bool
    ) -> Tensor:
        wanted = learning and any(ctx.needs_input_grad)
        rows = max(16, NUMBERS_AT_ONCE // len(table))
        total = hidden.new_zeros((), dtype=table.dtype)
        to_hidden = torch.empty_like(hidden) if wanted else None
        to_table = torch.zeros_like(table) if wanted and not len(hidden) else None  # else the first chunk's
        to_bias = torch.zeros_like(bias) if wanted and bias is not None else None
        for start in range(0, len(hidden), rows):
            part, target = hidden[start : start + rows], targets[start : start + rows, None]
            share = shares[start : start + rows, None]
            scores = (part @ table.T).to(table.dtype)  # (rows, vocabulary), changed in place from here on
            right, sums = exponentiate(scores, bias, target)
            total += ((sums.log() - right) * share).sum()
            if to_hidden is None:
                continue
            scores.scatter_add_(1, target, -sums)
            share = share / sums  # scales the small factors of the products, not the large one
            if to_bias is not None:
                with torch.autocast(part.device.type, enabled=False):  # a sum, which must not be rounded
                    to_bias += scores.T @ share.squeeze(1)
            part = part * share
            if torch.is_autocast_enabled(part.device.type):
                scores = scores.to(torch.get_autocast_dtype(part.device.type))  # once for both products
            to_hidden[start : start + rows] = scores @ table * share
            if to_table is None:
                to_table = (scores.T @ part).to(table.dtype)
            elif scores.dtype is not table.dtype:
                to_table += scores.T @ part  # in lower precision, which in-place products do not use
            else:
                to_table.addmm_(scores.T, part)
        ctx.save_for_backward(to_hidden)
        ctx.to_weights = to_table, to_bias  # as large as the weights, for any number of rows
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss: Tensor) -> tuple[Tensor | None, ...]:
        made = *ctx.saved_tensors, *ctx.to_weights
        ctx.to_weights = None  # released, so that they become the gradients without a copy
        if loss.device.type != "cpu" or loss != 1:
            made = tuple(None if part is None else part.mul_(loss) for part in made)  # in place: nothing else uses them
        return *made, None, None, None


def exponentiate(scores: Tensor, bias: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor]:
    """(N, vocabulary) in place: exp(score + bias - the row's maximum).

    Returns (N, 1) logarithms at the targets, and (N, 1) sums. A CPU processes a few rows at a time,
    which stay in its cache from one operation to the next.
    """
    few = max(1, NUMBERS_IN_CACHE // scores.shape[1]) if scores.device.type == "cpu" else max(1, len(scores))
    right, sums = [], []
    for part, places in zip(scores.split(few), target.split(few), strict=True):
        if bias is not None:
            part += bias
        part -= part.amax(1, keepdim=True)
        right.append(part.gather(1, places))
        sums.append(part.exp_().sum(1, keepdim=True))
    return torch.cat(right), torch.cat(sums)
