"""Batches of several tasks: in which order, and how many of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from plmkit.data.batch import Batch
from plmkit.data.randomness import generator
from plmkit.data.samples import Place
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.tasks.batches import LabelledExamples

JOINT = 7  # the purpose of these random numbers
ORDERS = ("joint", "sequential")


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """All batches of all tasks, shuffled together in every epoch (Liu et al., 2019, 3.2)."""

    order: str = "joint"  # joint: batches of all tasks are shuffled together; sequential: one task after the other
    ratio: float | None = None  # batches of the other tasks per batch of the first; none: all of each task
    temperature: float = 1.0  # above 1, small tasks get more batches and large ones fewer: rows^(1/temperature)

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise SettingError(
                tr("order takes {orders}; found '{order}'.", orders=comma().join(ORDERS), order=self.order)
            )
        if self.ratio is not None and not 0 < self.ratio < 1e6:
            raise SettingError(tr("ratio must be a number above 0; found {ratio:g}.", ratio=self.ratio))
        if not 1 <= self.temperature < 1e6:
            raise SettingError(
                tr("temperature must be 1 or more; found {temperature:g}.", temperature=self.temperature)
            )
        if self.ratio is not None and self.temperature != 1:
            raise SettingError(tr("ratio and temperature both change how many batches tasks get. Give one of them."))

    @property
    def is_sequential(self) -> bool:
        return self.order == "sequential"

    def counts(self, whole: Sequence[int]) -> list[int]:
        """The batches of each task in an epoch, from the number that holds each of its rows once."""
        if self.ratio is not None:
            others = self.ratio * whole[0] / sum(whole[1:])
            return [whole[0], *(max(1, round(count * others)) for count in whole[1:])]
        shares = np.array(whole, dtype=float) ** (1 / self.temperature)
        return [max(1, round(float(share))) for share in shares * sum(whole) / shares.sum()]


class JointExamples:
    """Batches of several tasks; which comes next is a pure function of (seed, epoch)."""

    def __init__(self, sources: Sequence[LabelledExamples], mixing: Mixing, *, seed: int, epochs: float) -> None:
        self.sources, self.mixing, self.seed, self.epochs = sources, mixing, seed, epochs
        self.latest: tuple[int, np.ndarray] | None = None  # epoch, and the task of each of its batches

    def counts(self, rows: int) -> list[int]:
        """The batches of each task in an epoch."""
        return self.mixing.counts([source.batches(rows) for source in self.sources])

    def batches(self, rows: int) -> int:
        """The batches of an epoch."""
        return sum(self.counts(rows))

    def ends(self, rows: int) -> list[int]:
        """The steps after which each task has been trained, if one follows the other."""
        return list(accumulate(round(count * self.epochs) for count in self.counts(rows)))

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        """The place counts batches."""
        if place.index >= self.batches(rows):
            place = Place(epoch=place.epoch + 1)
        task, number = self.drawn(place, rows)
        epoch, index = divmod(number, self.sources[task].batches(rows))
        source = self.sources[task]
        place_of = Place(epoch=epoch, index=index * source.task.examples_per_step(rows))
        batch, _ = source.next(place_of, rows, length)
        return batch, replace(place, index=place.index + 1)

    def drawn(self, place: Place, rows: int) -> tuple[int, int]:
        """The task of a batch, and how many batches of that task came before it."""
        counts = self.counts(rows)
        if self.mixing.is_sequential:
            ends = self.ends(rows)
            step = min(place.epoch * sum(counts) + place.index, ends[-1] - 1)
            task = int(np.searchsorted(ends, step, side="right"))
            return task, step - (ends[task - 1] if task else 0)
        order = self.order(place.epoch, counts)
        task = int(order[place.index])
        return task, place.epoch * counts[task] + int((order[: place.index] == task).sum())

    def order(self, epoch: int, counts: Sequence[int]) -> np.ndarray:
        if self.latest is None or self.latest[0] != epoch:
            tasks = np.repeat(np.arange(len(counts)), counts)
            self.latest = epoch, generator(self.seed, JOINT, epoch).permutation(tasks)
        return self.latest[1]
