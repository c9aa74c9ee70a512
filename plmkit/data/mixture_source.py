"""Batches of several streams of data: which stream each step reads is a function of the seed and the steps before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from plmkit.data.batch import Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place, Position
from plmkit.schedules.schedule import Stage, shares_of, stage_at

STREAM = 6  # the purpose of these random numbers
EXACT = 6  # decimal places: what sums of shares differ by beyond them is rounding
ONLY = "text"  # the name of a stream that is the only one


class Feed(Protocol):
    """Batches of one stream, in order."""

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]: ...


@dataclass(frozen=True, kw_only=True)
class FedStream:
    """One stream of a mixture."""

    feed: Feed
    place: str = ONLY  # streams that share a place continue where the other stopped
    heads: frozenset[str] | None = None  # trained by its batches; None: all
    weight: float = 1.0  # its share of the steps, in proportion to the others that run
    task: int | None = None  # pretraining task of its rows


class MixtureSource:
    """The batches of a run: each step reads one of the streams that its stage runs.

    `steps` is the length of the run where it is known: with it, shares of stages that end within a step are exact too.
    """

    def __init__(
        self, streams: Mapping[str, FedStream], stages: Sequence[Stage], *, seed: int, steps: int | None = None
    ) -> None:
        self.streams, self.stages, self.seed, self.steps = streams, stages, seed, steps
        self.running = [stage.streams or tuple(streams) for stage in stages]

    @classmethod
    def of_one(cls, feed: Feed, length: int) -> Self:
        """A source with one stream and one length."""
        return cls({ONLY: FedStream(feed=feed)}, (Stage(length=length),), seed=0)

    def next(self, position: Position, *, step: int, progress: float, rows: int) -> tuple[Batch, Position]:
        """The batch of this step, and the position after it."""
        number = stage_at(self.stages, progress)
        if number != position.stage:
            position = self.entered(position, number)
        name, owed = self.chosen(number, step, position.owed)
        stream = self.streams[name]
        batch, place = stream.feed.next(position.at(stream.place), rows, self.stages[number].length)
        return batch.of_stream(stream.heads, stream.task), replace(
            position, places={**position.places, stream.place: place}, owed=owed
        )

    def entered(self, position: Position, number: int) -> Position:
        """In another stage: rows of another length begin a new epoch, rows of the same length continue."""
        if self.stages[number].length == self.stages[position.stage].length:
            return replace(position, stage=number)
        places = {name: Place(epoch=at.epoch + 1) for name, at in position.places.items()}
        return replace(position, stage=number, places=places)

    def chosen(self, number: int, step: int, owed: Mapping[str, float]) -> tuple[str, Mapping[str, float]]:
        """The stream that a step of this stage reads, and by how many steps each stream lags behind its share then.

        Of the streams that lag, the one whose next step is due first: no stream is ever a whole step off its share.
        """
        stage, names = self.stages[number], self.running[number]
        if not stage.shares:
            return self.drawn(number, step), owed
        shares = shares_of(stage)
        gained = self.gained(number, step)
        lag = {name: owed.get(name, 0.0) + gained.get(name, 0.0) for name in {**owed, **gained}}
        due = {name: round((1 - owed.get(name, 0.0)) / shares[name], EXACT) for name in names}
        behind = [name for name in names if round(lag[name], EXACT) > 0] or list(names)
        order = generator(self.seed, STREAM, 1, number).permutation(len(names)).tolist()
        name = min(behind, key=lambda name: (due[name], order[names.index(name)]))
        return name, {**lag, name: lag[name] - 1}

    def gained(self, number: int, step: int) -> dict[str, float]:
        """The share of each stream in this step, which may be the last of one stage and the first of another."""
        if self.steps is None:
            return shares_of(self.stages[number])
        gained: dict[str, float] = {}
        begin = 0.0
        for stage in self.stages:
            end = stage.until * self.steps
            inside = min(end, step + 1) - max(begin, step)
            if inside > 0 and stage.shares:
                for name, share in shares_of(stage).items():
                    gained[name] = gained.get(name, 0.0) + share * inside
            begin = end
        return gained

    def drawn(self, number: int, step: int) -> str:
        """A random stream, by the weights."""
        names = self.running[number]
        if len(names) == 1:
            return names[0]
        weights = np.cumsum([self.streams[name].weight for name in names])
        draw = generator(self.seed, STREAM, step).random() * weights[-1]
        return names[int(np.searchsorted(weights, draw, side="right"))]


def seed_of(seed: int, place: int) -> int:
    """The seed of the streams that read from this place, by its number: the first has the run's own."""
    return seed if place == 0 else int(generator(seed, STREAM, 0, place).integers(2**62))
