"""Beam search: keep the most likely prefixes at every step."""

from dataclasses import dataclass

import torch

from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import GeneratedSequence

LENGTH_PENALTY = 0.6  # the default, as GPT-3 was evaluated (Brown et al., 2020, 2.4)


@dataclass(kw_only=True)
class Beam:
    """A prefix and its log-probability."""

    sequence: GeneratedSequence
    log_probability: float = 0.0
    length: int = 0  # tokens, the end token included

    def score(self, penalty: float) -> float:
        """Log-probability divided by ((5 + length) / 6) ** penalty (Wu et al., 2016, eq. 14)."""
        return self.log_probability / ((5 + self.length) / 6) ** penalty

    def extended(self, token: int, log_probability: float) -> "Beam":
        """The prefix with one more token; text already decoded is not decoded again."""
        sequence = self.sequence.fork()
        sequence.add(token)
        return Beam(sequence=sequence, log_probability=log_probability, length=self.length + 1)


def beam_search(
    model: LanguageModel, sequence: GeneratedSequence, options: GenerationOptions
) -> list[tuple[GeneratedSequence, float]]:
    """The best `n` continuations of a prompt with their scores, best first.

    A text is finished when its end is among the best `beams` continuations; the search ends when `beams` texts are
    finished. One beam is greedy decoding.
    """
    assert options.beams is not None
    penalty = LENGTH_PENALTY if options.length_penalty is None else options.length_penalty
    cache, last = model.prefill([sequence.prompt], len(sequence.prompt) + sequence.max_tokens)
    beams, finished = [Beam(sequence=sequence)], list[tuple[GeneratedSequence, float]]()
    while True:
        logs = model.logits(last).float().log_softmax(-1)  # (beams, vocabulary)
        totals = logs + torch.tensor([[beam.log_probability] for beam in beams], device=model.device)
        best = totals.flatten().topk(min(2 * options.beams, totals.numel()))
        kept: list[tuple[int, Beam]] = []
        for place, (total, index) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if len(kept) == options.beams or total == -torch.inf:
                break
            source, token = divmod(index, logs.shape[1])
            beam = beams[source].extended(token, total)
            if beam.sequence.ended is None:
                kept.append((source, beam))
            elif place < options.beams:
                finished.append((beam.sequence, beam.score(penalty)))
        if len(finished) >= options.beams or not kept:
            return sorted(finished, key=lambda found: -found[1])[: options.n]
        beams = [beam for _, beam in kept]
        if [source for source, _ in kept] != list(range(len(last))):
            cache.pick(torch.tensor([source for source, _ in kept], device=model.device))
        last = model.extend([[beam.sequence.tokens[-1]] for beam in beams], cache)[:, -1]
