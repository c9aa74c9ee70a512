"""One token for each row: the likeliest, or one drawn from the likeliest."""

import torch
from torch import Tensor

from plmkit.generation.writing import Writing

FEW = 1024  # candidates that are put in order first; together they nearly always have the share that is asked for


def choose(scores: Tensor, writing: Writing, draws: Tensor) -> Tensor:
    """(B, vocabulary) scores and (B,) numbers in [0, 1) to (B,) tokens; the same numbers choose the same tokens."""
    if writing.greedy:
        return scores.argmax(-1)
    scores = scores.double() / writing.heat
    total = scores.logsumexp(-1, keepdim=True)
    if writing.top_k is not None:
        scores, tokens = scores.topk(min(writing.top_k, scores.shape[-1]))
        total = scores.logsumexp(-1, keepdim=True)
    elif writing.share < 1:
        scores, tokens = likeliest(scores, total, writing.share)
    else:
        tokens = None
    shares = (scores - total).exp().cumsum(-1)  # (B, candidates)
    kept = 1 + (shares[:, :-1] < writing.share).sum(-1, keepdim=True)  # with the one that crosses the share
    if writing.share == 1:
        kept = torch.full_like(kept, shares.shape[-1])
    reached = shares.gather(-1, kept - 1)
    places = torch.searchsorted(shares, draws.to(shares)[:, None] * reached, right=True).minimum(kept - 1)
    return (places if tokens is None else tokens.gather(-1, places)).squeeze(-1)


def likeliest(scores: Tensor, total: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The best candidates in order, enough of them to have the share in every row."""
    few = scores.topk(min(FEW, scores.shape[-1]))
    if bool(((few.values - total).exp().sum(-1) >= share).all()):
        return few.values, few.indices
    every = scores.sort(descending=True)
    return every.values, every.indices
