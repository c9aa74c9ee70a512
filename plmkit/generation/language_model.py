"""A language model for generation: a network that reads in steps with a cache, and its head over the vocabulary."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import CacheSettings, GeneratingModel
from plmkit.data.batch import Batch, Side
from plmkit.layers.cache import Cache
from plmkit.layers.vocabulary_head import TiedHead
from plmkit.training.threads import look

FEW_ROWS = 16  # up to which a shortlist is faster than all logits
MANY_TOKENS = 32  # new tokens from which a shortlist is worth its preparation
MIN_VOCABULARY = 4096  # tokens from which a shortlist is faster than all logits
ROWS_AT_ONCE = 8192
TINY = np.finfo(np.float32).tiny
MARGIN = 1.01  # for the rounding of bounds and logits themselves


class LanguageModel:
    """A model with `begin` and `extend`, and its LM head; some tokens are banned and never generated."""

    def __init__(
        self, model: GeneratingModel[Any], head: nn.Module, vocabulary_size: int, banned: Sequence[int],
        device: torch.device, *, causal: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.head, self.vocabulary_size = model, head, vocabulary_size
        self.banned = torch.tensor(banned, dtype=torch.long, device=device)
        self.device = device
        self.causal = causal  # forward gives the same states as `extend`, faster because nothing is cached
        self.context_length: int | None = None  # of its caches, in place of the architecture's
        self.clamp: int | None = None
        self.shortlist: Shortlist | None = None

    def extend(self, tokens: Sequence[Sequence[int]], cache: Cache) -> Tensor:
        """Read the same number n of tokens in each row; returns (B, n, width)."""
        look()
        return self.model.extend(torch.tensor(tokens, dtype=torch.long, device=self.device), cache)

    def begin(self, rows: int, length: int, source: Side | None = None) -> Cache:
        """An empty cache for a number of rows of up to `length` tokens; an encoder–decoder encodes their source."""
        return self.model.begin(
            CacheSettings(rows, length, context_length=self.context_length, clamp=self.clamp, source=source)
        )

    def with_cache(self, context_length: int | None, clamp: int | None) -> "LanguageModel":
        """The same model with another context length and another maximum distance."""
        other = copy(self)
        other.context_length, other.clamp = context_length, clamp
        return other

    def states(self, tokens: Tensor) -> Tensor:
        """(B, L) whole rows to (B, L, width) states that predict the next token, without a cache."""
        visible = torch.ones_like(tokens, dtype=torch.bool)
        side = Side(tokens=tokens, visible=visible, segments=torch.zeros_like(tokens))
        return self.model(Batch(source=side)).hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(N, width) to (N, vocabulary), -inf for banned tokens."""
        logits = self.head(hidden)[:, : self.vocabulary_size]  # the embedding may be padded
        return logits.index_fill_(1, self.banned, -torch.inf) if len(self.banned) else logits

    def argmax(self, hidden: Tensor) -> Tensor:
        """(N, width) to (N,): the most likely tokens."""
        if self.shortlist is None or len(hidden) > FEW_ROWS:
            return self.logits(hidden).argmax(-1)
        return self.shortlist.argmax(hidden, self.banned)

    def expect(self, tokens: int) -> None:
        """Prepare a shortlist if it pays for this many greedy tokens and this vocabulary."""
        if tokens < MANY_TOKENS or self.shortlist is not None or self.vocabulary_size < MIN_VOCABULARY:
            return
        if not isinstance(self.head, TiedHead):
            return
        embedding = self.head.table
        if embedding.device.type == "cpu" and embedding.dtype == torch.float32:
            self.shortlist = Shortlist(embedding.detach()[: self.vocabulary_size])

    def prefill(self, prompts: Sequence[Sequence[int]], length: int) -> tuple[Cache, Tensor]:
        """Read all prompts up to the length of the shortest; a common prefix is read once.

        Returns a cache for up to `length` tokens and the (B, width) states after the last token.
        """
        shortest = min(map(len, prompts))
        shared = common_prefix(prompts, shortest)
        rows = 1 if shared else len(prompts)
        cache = self.begin(rows, length)
        hidden = self.extend([prompts[0][:shared]], cache) if shared else None
        if shared and len(prompts) > 1:
            cache.pick(torch.zeros(len(prompts), dtype=torch.long, device=self.device))
        if shared == shortest:
            assert hidden is not None
            return cache, hidden[:, -1].expand(len(prompts), -1)
        return cache, self.extend([prompt[shared:shortest] for prompt in prompts], cache)[:, -1]


def common_prefix(rows: Sequence[Sequence[int]], maximum: int) -> int:
    """The number of first tokens that all rows share, up to a maximum."""
    return next((place for place in range(maximum) if len({row[place] for row in rows}) > 1), maximum)


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
