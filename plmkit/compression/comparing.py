"""Whether a compressed model computes the same as the one it was made from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plmkit.compression.texts import SIZES, TEXTS, lengths_of, rows_at
from plmkit.data.batch import Batch, States
from plmkit.inference.model import Model
from plmkit.tasks.framing import Framed

TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The largest difference of any number at one length and batch size."""

    length: int
    rows: int
    largest: float


def gaps_of(before: Model, after: Model, texts: Sequence[str] = TEXTS) -> Iterator[Gap]:
    """The differences of states, from which all answers are computed, at every length and batch size."""
    for length in lengths_of(min(before.max_length, after.max_length)):
        for count in SIZES:
            rows = rows_at(before, length, count, texts)
            pairs = zip(outputs_of(before, rows), outputs_of(after, rows), strict=True)
            largest = max(difference(one, other) for one, other in pairs)
            yield Gap(length=length, rows=count, largest=largest)


def difference(one: Tensor, other: Tensor) -> float:
    """Infinite where a number is not finite in one of them only."""
    gap = (one - other).abs().masked_fill(one == other, 0.0)  # both may be minus infinity
    return float(gap.max()) if torch.isfinite(gap).all() else float("inf")


def outputs_of(model: Model, rows: Sequence[Framed]) -> list[Tensor]:
    """The states of all tokens and the pooled ones, and both where only those of the first tokens are needed."""
    states, batch = model.states(rows)
    found = numbers_in(states, batch)
    first, batch = model.states(rows, needed=lambda batch: torch.zeros_like(batch.source.visible))
    return [*found, first.hidden[:, 0], *([] if first.pooled is None else [first.pooled])]


def numbers_in(states: States, batch: Batch) -> list[Tensor]:
    hidden = states.hidden[batch.source.visible]
    return [hidden] if states.pooled is None else [hidden, states.pooled]
