"""The next token of each row: the most likely one, or a sample."""

import numpy as np
import torch
from torch import Tensor

from plmkit.generation.options import GenerationOptions

CANDIDATES = 1024  # most likely tokens that are sorted first; they nearly always contain the nucleus
MIN_VOCABULARY = 4096  # tokens from which a shortlist is faster than all logits
ROWS_AT_ONCE = 8192
TINY = np.finfo(np.float32).tiny
MARGIN = 1.01  # for the rounding of bounds and logits themselves


def sample(logits: Tensor, options: GenerationOptions, uniform: Tensor) -> Tensor:
    """(B, vocabulary) logits and (B,) uniform numbers in [0, 1) to (B,) tokens, by inverting the distribution."""
    if options.greedy:
        return logits.argmax(-1)
    logits = logits.double() / options.sampling_temperature
    total = logits.logsumexp(-1, keepdim=True)
    if options.top_k is not None:
        logits, tokens = logits.topk(min(options.top_k, logits.shape[-1]))
        total = logits.logsumexp(-1, keepdim=True)
    elif options.nucleus < 1:
        logits, tokens = nucleus_candidates(logits, total, options.nucleus)
    else:
        tokens = None
    cumulative = (logits - total).exp().cumsum(-1)  # (B, candidates)
    kept = 1 + (cumulative[:, :-1] < options.nucleus).sum(-1, keepdim=True)  # the token that crosses top-p included
    if options.nucleus == 1:
        kept = torch.full_like(kept, cumulative.shape[-1])
    mass = cumulative.gather(-1, kept - 1)
    places = torch.searchsorted(cumulative, uniform.to(cumulative)[:, None] * mass, right=True).minimum(kept - 1)
    return (places if tokens is None else tokens.gather(-1, places)).squeeze(-1)


def nucleus_candidates(logits: Tensor, total: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The most likely tokens in order, enough of them to reach top-p in every row."""
    few = logits.topk(min(CANDIDATES, logits.shape[-1]))
    if bool(((few.values - total).exp().sum(-1) >= top_p).all()):
        return few.values, few.indices
    every = logits.sort(descending=True)
    return every.values, every.indices


class Shortlist:
    """Exact argmax over a large vocabulary from 8-bit logits with an error bound.

    A row w of the output embedding and a hidden state x are rounded to 256 steps each, so w·x differs from its rounded
    product by at most |rounded w| |x - rounded x| + |w - rounded w| |x|. Only tokens that could be the best by this
    bound are scored in full: a quarter of the memory is read, and the result is that of the full product.
    """

    def __init__(self, embedding: Tensor) -> None:
        self.embedding = embedding  # (vocabulary, width)
        self.steps = (embedding.abs().amax(1) / 127).clamp(min=torch.finfo(embedding.dtype).tiny)
        self.norms, self.errors = torch.empty_like(self.steps), torch.empty_like(self.steps)
        rounded = torch.empty(embedding.shape, dtype=torch.int8)
        for begin in range(0, len(embedding), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            whole = (embedding[some] / self.steps[some, None]).round_()
            rounded[some] = whole.to(torch.int8)
            whole *= self.steps[some, None]
            self.norms[some] = whole.norm(dim=1)
            self.errors[some] = (embedding[some] - whole).norm(dim=1)
        self.scores = torch.empty_like(self.steps)  # a buffer
        self.rounded = rounded.t()  # (width, vocabulary), the numbers of each token contiguous

    def argmax(self, hidden: Tensor, banned: Tensor) -> Tensor:
        """(N, width) to (N,): the most likely token among those that are not banned."""
        vectors = hidden.numpy()  # numpy takes a fraction of torch's time for small arrays
        vectors = vectors / np.maximum(np.abs(vectors).max(1, keepdims=True) / 127, TINY)  # scores are in these units
        whole = np.rint(vectors)
        rough = torch._int_mm(torch.from_numpy(whole.astype(np.int8)), self.rounded)  # (N, vocabulary), exact so far
        lost, length = np.linalg.norm(vectors - whole, axis=1).tolist(), np.linalg.norm(vectors, axis=1).tolist()
        lines = zip(rough, torch.from_numpy(vectors), lost, length, strict=True)
        return torch.tensor([self.best(*line, banned) for line in lines])

    def best(self, rough: Tensor, vector: Tensor, lost: float, length: float, banned: Tensor) -> int:
        """Score in full all tokens whose bound reaches the full score of the approximately best one."""
        scores = self.scores.copy_(rough).mul_(self.steps)
        if len(banned):
            scores.index_fill_(0, banned, -torch.inf)
        best = int(scores.numpy().argmax())
        reached = float(self.embedding[best].dot(vector))
        scores.add_(self.norms, alpha=MARGIN * lost).add_(self.errors, alpha=MARGIN * length)
        could_be = np.flatnonzero(scores.numpy() >= reached)  # ten times as fast as torch's nonzero
        if len(could_be) == 1:
            return best
        some = torch.from_numpy(could_be)
        return int(some[(self.embedding[some] @ vector).argmax()])
