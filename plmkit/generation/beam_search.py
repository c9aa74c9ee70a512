"""Beam search over several texts at once, each with beams of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.layers.cache import Cache

LENGTH_PENALTY = 0.6  # the default, as the Transformer and GPT-3 were evaluated (Vaswani et al., 2017, 6.1)


class Prefix(Protocol):
    """A text while it is generated."""

    max_tokens: int

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def ended(self) -> str | None: ...

    def extended(self, token: int) -> Self:
        """The text with one more token; this one is unchanged."""


SomePrefix = TypeVar("SomePrefix", bound=Prefix)


@dataclass(frozen=True, kw_only=True)
class Beam(Generic[SomePrefix]):
    """A prefix and its log-probability."""

    sequence: SomePrefix
    log_probability: float = 0.0
    length: int = 0  # tokens, the end token included

    def score(self, penalty: float) -> float:
        return self.log_probability / length_penalty(self.length, penalty)

    def best_score(self, penalty: float) -> float:
        """What no text that begins with this prefix can exceed: log-probabilities only fall."""
        ends = self.length + 1, self.sequence.max_tokens  # the divisor grows or falls with the length
        return max(self.log_probability / length_penalty(length, penalty) for length in ends)

    def extended(self, token: int, log_probability: float) -> "Beam[SomePrefix]":
        return Beam(sequence=self.sequence.extended(token), log_probability=log_probability, length=self.length + 1)


def length_penalty(length: int, penalty: float) -> float:
    """((5 + length) / 6) ** penalty, by which log-probabilities are divided (Wu et al., 2016, eq. 14)."""
    return float(((5 + length) / 6) ** penalty)


@dataclass(kw_only=True)
class Search(Generic[SomePrefix]):
    """The beams of one text, and the texts that have ended.

    A text ends when its end is among the best `beams` continuations. The search is over when `beams` texts have ended;
    an exact one, when no beam can still become one of the best `n` texts.
    """

    options: GenerationOptions
    beams: list[Beam[SomePrefix]]
    exact: bool = False
    finished: list[tuple[SomePrefix, float]] = field(default_factory=list)

    @property
    def width(self) -> int:
        assert self.options.beams is not None
        return self.options.beams

    @property
    def penalty(self) -> float:
        return LENGTH_PENALTY if self.options.length_penalty is None else self.options.length_penalty

    @property
    def best(self) -> list[tuple[SomePrefix, float]]:
        """The best `n` texts with their scores, best first."""
        return sorted(self.finished, key=lambda found: -found[1])[: self.options.n]

    def advance(self, totals: Sequence[float], parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Keep the best continuations, given best first; returns the beam that each of those kept continues."""
        kept: list[int] = []
        beams: list[Beam[SomePrefix]] = []
        for place, (total, parent, token) in enumerate(zip(totals, parents, tokens, strict=True)):
            if len(kept) == self.width or total == -torch.inf:
                break
            beam = self.beams[parent].extended(token, total)
            if beam.sequence.ended is None:
                kept.append(parent)
                beams.append(beam)
            elif place < self.width:
                self.finished.append((beam.sequence, beam.score(self.penalty)))
        self.beams = beams
        return kept

    @property
    def over(self) -> bool:
        if not self.beams:
            return True
        if not self.exact:
            return len(self.finished) >= self.width
        if len(self.finished) < self.options.n:
            return False
        return max(beam.best_score(self.penalty) for beam in self.beams) <= self.best[-1][1]


def search_of(sequence: SomePrefix, options: GenerationOptions, *, exact: bool = False) -> Search[SomePrefix]:
    return Search(options=options, beams=[Beam(sequence=sequence)], exact=exact)


def beam_search(model: LanguageModel, searches: Sequence[Search[SomePrefix]], cache: Cache, last: Tensor) -> None:
    """Advance all searches together until each is over; one beam is greedy decoding.

    The cache has a row per search, and `last` (searches, width) is the state that predicts the first new token. Each
    search has the same number of rows, so that those of one source can share what was computed of it.
    """
    live, scores = list(searches), [[0.0] for _ in searches]
    while live:
        found = continuations(model.logits(last), torch.tensor(scores, device=model.device), 2 * live[0].width)
        rows = len(scores[0])
        kept = [
            (number, parents, search)
            for number, (search, *best) in enumerate(zip(live, *(part.tolist() for part in found), strict=True))
            if (parents := search.advance(*best)) and not search.over
        ]
        live = [search for _, _, search in kept]
        beams = max((len(parents) for _, parents, _ in kept), default=0)
        picked, tokens, scores = list[int](), list[list[int]](), list[list[float]]()
        for number, parents, search in kept:
            spare = beams - len(parents)  # copies of the first beam that never win
            picked += [number * rows + parent for parent in [*parents, *parents[:1] * spare]]
            tokens += [[beam.sequence.tokens[-1]] for beam in [*search.beams, *search.beams[:1] * spare]]
            scores.append([*(beam.log_probability for beam in search.beams), *[-torch.inf] * spare])
        if not live:
            return
        if picked != list(range(len(last))):
            cache.pick(torch.tensor(picked, device=model.device))
        last = model.extend(tokens, cache)[:, -1]


def continuations(logits: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """(S * R, vocabulary) logits and (S, R) log-probabilities of prefixes to the best `count` of each search.

    Returns (S, count) log-probabilities, best first, with the prefix that each continues and its token.
    """
    best = logits.float().log_softmax(-1).topk(min(count, logits.shape[-1]))  # a third of the time of logsumexp
    values = best.values + scores.view(-1, 1)
    chosen = values.view(len(scores), -1).topk(min(count, values.numel() // len(scores)))
    tokens = best.indices.view(len(scores), -1).gather(1, chosen.indices)
    return chosen.values, chosen.indices // values.shape[-1], tokens
