"""Batches of several streams of data: which stream each step reads is a pure function of (seed, step)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from plmkit.data.batch import Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place, Position
from plmkit.schedules.schedule import Stage, stage_at

STREAM = 6  # the purpose of these random numbers
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


class MixtureSource:
    """The batches of a run: each step draws one of the streams that its stage runs."""

    def __init__(self, streams: Mapping[str, FedStream], stages: Sequence[Stage], *, seed: int) -> None:
        self.streams, self.stages, self.seed = streams, stages, seed
        self.running = [tuple(name for name in stage.streams or streams if name in streams) for stage in stages]

    @classmethod
    def of_one(cls, feed: Feed, length: int) -> Self:
        """A source with one stream and one length."""
        return cls({ONLY: FedStream(feed=feed)}, (Stage(length=length),), seed=0)

    def next(self, position: Position, *, step: int, progress: float, rows: int) -> tuple[Batch, Position]:
        """The batch of this step, and the position after it."""
        number = stage_at(self.stages, progress)
        if number != position.stage:
            position = self.entered(position, number)
        stream = self.streams[self.drawn(number, step)]
        batch, place = stream.feed.next(position.at(stream.place), rows, self.stages[number].length)
        if stream.heads is not None:
            batch = replace(batch, heads=stream.heads)
        return batch, replace(position, places={**position.places, stream.place: place})

    def entered(self, position: Position, number: int) -> Position:
        """In another stage: rows of another length begin a new epoch, rows of the same length continue."""
        if self.stages[number].length == self.stages[position.stage].length:
            return replace(position, stage=number)
        return Position(stage=number, places={name: Place(epoch=at.epoch + 1) for name, at in position.places.items()})

    def drawn(self, number: int, step: int) -> str:
        """The stream that a step of this stage reads."""
        names = self.running[number]
        if len(names) == 1:
            return names[0]
        weights = np.cumsum([self.streams[name].weight for name in names])
        draw = generator(self.seed, STREAM, step).random() * weights[-1]
        return names[int(np.searchsorted(weights, draw, side="right"))]


def seed_of(seed: int, place: int) -> int:
    """The seed of the streams that read from this place, by its number: the first has the run's own."""
    return seed if place == 0 else int(generator(seed, STREAM, 0, place).integers(2**62))
