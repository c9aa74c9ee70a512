"""Beam search: the likeliest text that can be found by keeping the best few beginnings."""

from dataclasses import dataclass

import torch

from plmkit.generation.row import Row
from plmkit.generation.write import Writer
from plmkit.generation.writing import Writing

PENALTY = 0.6  # with which GPT-3 searched (Brown et al., 2020, 2.4)


@dataclass(kw_only=True)
class Beam:
    """A beginning, and how likely it is."""

    row: Row
    log_probability: float = 0.0
    length: int = 0  # tokens, the end among them

    def score(self, penalty: float) -> float:
        """Log-probability for its length: ((5 + length) / 6) ** penalty divides it (Wu et al., 2016, eq. 14)."""
        return self.log_probability / ((5 + self.length) / 6) ** penalty

    def extended(self, token: int, log_probability: float) -> "Beam":
        """Spelt by one token more; what came before is spelt once for all that follow it."""
        row = self.row.branch()
        row.add(token)
        return Beam(row=row, log_probability=log_probability, length=self.length + 1)


def search(writer: Writer, row: Row, writing: Writing) -> list[tuple[Row, float]]:
    """The best `n` texts that follow the prompt of a fresh row, best first.

    A text is finished when its end is among the best `beams` continuations; the search is over when as many texts
    are finished. With one beam this takes the likeliest token every time.
    """
    assert writing.beams is not None
    penalty = PENALTY if writing.length_penalty is None else writing.length_penalty
    cache, last = writer.start([row.prompt], len(row.prompt) + row.room)
    beams, finished = [Beam(row=row)], list[tuple[Row, float]]()
    while True:
        logs = writer.scores(last).float().log_softmax(-1)  # (beams, vocabulary)
        totals = logs + torch.tensor([[beam.log_probability] for beam in beams], device=writer.device)
        best = totals.flatten().topk(min(2 * writing.beams, totals.numel()))
        going: list[tuple[int, Beam]] = []
        for place, (total, index) in enumerate(zip(best.values.tolist(), best.indices.tolist(), strict=True)):
            if len(going) == writing.beams or total == -torch.inf:
                break
            source, token = divmod(index, logs.shape[1])
            beam = beams[source].extended(token, total)
            if beam.row.ended is None:
                going.append((source, beam))
            elif place < writing.beams:
                finished.append((beam.row, beam.score(penalty)))
        if len(finished) >= writing.beams or not going:
            return sorted(finished, key=lambda found: -found[1])[: writing.n]
        beams = [beam for _, beam in going]
        if [source for source, _ in going] != list(range(len(last))):
            cache.pick(torch.tensor([source for source, _ in going], device=writer.device))
        last = writer.read([[beam.row.written[-1]] for beam in beams], cache)[:, -1]
