"""Beam search: the likeliest text that can be found by keeping the best few beginnings."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from plmkit.generation.row import Row
from plmkit.generation.write import Writer
from plmkit.generation.writing import Writing

PENALTY = 0.6  # with which GPT-3 searched (Brown et al., 2020, 2.4)


@dataclass(kw_only=True)
class Beam:
    """A beginning, and how likely it is."""

    tokens: list[int] = field(default_factory=list)
    log_probability: float = 0.0

    def score(self, penalty: float) -> float:
        """Log-probability for its length: ((5 + length) / 6) ** penalty divides it (Wu et al., 2016, eq. 14)."""
        return self.log_probability / ((5 + len(self.tokens)) / 6) ** penalty


def search(writer: Writer, make: Callable[[], Row], writing: Writing) -> list[tuple[Row, float]]:
    """The best `n` texts, best first; `make` gives a fresh row of the prompt.

    A text is finished when its end is among the best `beams` continuations; the search is over when as many texts
    are finished. With one beam this takes the likeliest token every time.
    """
    assert writing.beams is not None
    penalty = PENALTY if writing.length_penalty is None else writing.length_penalty
    prompt, room = make().prompt, make().room
    cache, last = writer.start([prompt], len(prompt) + room)
    beams, finished = [Beam()], list[tuple[Row, float]]()
    while True:
        logs = writer.scores(last).float().log_softmax(-1)  # (beams, vocabulary)
        totals = logs + torch.tensor([[beam.log_probability] for beam in beams], device=writer.device)
        best = totals.flatten().topk(min(2 * writing.beams, totals.numel()))
        going: list[tuple[int, Beam]] = []
        for place, (total, index) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if len(going) == writing.beams or total == -torch.inf:
                break
            source, token = divmod(index, logs.shape[1])
            beam = Beam(tokens=[*beams[source].tokens, token], log_probability=total)
            row = spelt(make, beam)
            if row.ended is None:
                going.append((source, beam))
            elif place < writing.beams:
                finished.append((row, beam.score(penalty)))
        if len(finished) >= writing.beams or not going:
            return sorted(finished, key=lambda found: -found[1])[: writing.n]
        beams = [beam for _, beam in going]
        if [source for source, _ in going] != list(range(len(last))):
            cache.pick(torch.tensor([source for source, _ in going], device=writer.device))
        last = writer.read([[beam.tokens[-1]] for beam in beams], cache)[:, -1]


def spelt(make: Callable[[], Row], beam: Beam) -> Row:
    row = make()
    for token in beam.tokens:
        row.add(token)
    return row
