"""Decoding token by token: sampling, and prompt lookup decoding."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import torch
from torch import Tensor

from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import GeneratedSequence

NGRAMS = (3, 2)  # lengths of the n-grams that are looked up, in this order
SIZES = (2, 5, 15)  # proposed tokens: on CPUs 3, 6 and 16 positions cost about one, two and three times a single one
CANDIDATES = 1024  # most likely tokens that are sorted first; they nearly always contain the nucleus


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


class PromptLookup:
    """What followed the latest occurrence of each n-gram of a text."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self.places: dict[tuple[int, ...], int] = {}  # of the token after each n-gram
        self.level = 0
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        for length in NGRAMS:  # of the tokens before this one, so that a lookup never finds itself
            if len(self.tokens) >= length:
                self.places[tuple(self.tokens[-length:])] = len(self.tokens)
        self.tokens.append(token)

    def propose(self, maximum: int) -> list[int]:
        """The tokens that followed then; at the end of the text they start over, as repeated text does."""
        size = min(SIZES[self.level], maximum)
        for length in NGRAMS:
            place = self.places.get(tuple(self.tokens[-length:]))
            if place is not None:
                return list(islice(cycle(self.tokens[place : place + size]), size))
        return []

    def adapt(self, proposed: int, accepted: int) -> None:
        """Propose more after everything was accepted, few otherwise."""
        if proposed:
            self.level = min(self.level + 1, len(SIZES) - 1) if accepted == proposed else 0


def decode_with_lookup(model: LanguageModel, sequence: GeneratedSequence) -> Iterator[tuple[int, str]]:
    """The same greedy text as `decode_batch`, with one pass over the weights for several tokens.

    With a cache that cannot drop rejected tokens, it decodes token by token.
    """
    model.expect(sequence.max_tokens)
    cache, last = model.prefill([sequence.prompt], len(sequence.prompt) + sequence.max_tokens)
    token, lookup = int(model.argmax(last)), PromptLookup(sequence.prompt)
    while True:
        yield 0, sequence.add(token)
        if sequence.ended is not None:
            return
        lookup.add(token)
        proposed = lookup.propose(sequence.max_tokens - len(sequence.tokens) - 1) if cache.can_cut else []
        before = cache.length
        greedy = model.argmax(model.extend([[token, *proposed]], cache)[0]).tolist()
        accepted = 0
        while accepted < len(proposed) and proposed[accepted] == greedy[accepted]:
            yield 0, sequence.add(proposed[accepted])
            if sequence.ended is not None:
                return
            lookup.add(proposed[accepted])
            accepted += 1
        lookup.adapt(len(proposed), accepted)
        if accepted < len(proposed):
            cache.cut(before + 1 + accepted)
        token = greedy[accepted]
