"""The loop: written once, knows no model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from plmkit.data.batch import Batch, Memory
from plmkit.data.randomness import generator
from plmkit.data.samples import Position
from plmkit.errors import PlmError
from plmkit.language import tr
from plmkit.schedules.schedule import Schedule
from plmkit.training.step import Step

DROPOUT = 17  # the purpose of these random numbers, apart from those of the data


class Source(Protocol):
    """Where batches come from."""

    def next(self, position: Position, *, step: int, progress: float, rows: int) -> tuple[Batch, Position]: ...


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train: until the first of those that are given is spent."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def progress(self, state: "State", seconds: float) -> float:
        """The share that is spent, from 0 to 1."""
        shares = []
        if self.steps is not None:
            shares.append(state.step / self.steps)
        if self.tokens is not None:
            shares.append(state.tokens / self.tokens)
        if self.seconds is not None:
            left = self.seconds - state.before
            shares.append((seconds - state.before) / left if left > 0 else float(state.step > 0))
        return max(shares)


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a run is; with weights and optimizer, all that it takes to go on."""

    step: int = 0
    tokens: int = 0  # read, without padding
    seconds: float = 0.0  # of training, pauses not counted
    before: float = 0.0  # of these, before the first step: the schedule is of the rest
    position: Position = Position()
    memory: Memory | None = None  # of the batch before, where the next one goes on from it


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a step says of itself."""

    state: State
    progress: float  # after the step
    loss: float  # what the step makes smaller: the sum of all losses, each times its weight
    losses: dict[str, float]  # without their weights, as on held-out text
    rate: float
    norm: float  # of the gradient, before clipping
    check: Callable[[], None]  # raises Diverged where the step left weights that nobody can use: ask before saving


Watch = Callable[[Report], bool]  # True goes on, False stops the run here


class Diverged(PlmError):
    """The loss or the weights are no longer numbers."""

    def __init__(self, found: str, lower: str) -> None:
        super().__init__(
            tr(
                "{found}; the run stops here.\n"
                "Lower the rate (--set {lower}=...) and run the same command in a new folder.",
                found=found,
                lower=lower,
            )
        )


def train(
    step: Step,
    source: Source,
    schedule: Schedule,
    budget: Budget,
    watch: Watch,
    *,
    seed: int,
    state: State = State(),
    lower: str = "schedule.rate",
) -> State:
    """Steps until the budget is spent or `watch` says stop; `lower` is the setting to lower where they diverge."""
    network, world = step.network, step.world
    network.train()
    begun = time.perf_counter() - state.seconds
    report: Report | None = None
    while (progress := budget.progress(state, world.agreed(time.perf_counter() - begun))) < 1:
        batch, position = source.next(state.position, step=state.step, progress=progress, rows=schedule.batch)
        part = world.part(batch, seed_of(seed, state.step))
        # dropout is a function of (seed, step), so a run that continues needs no generator state
        torch.manual_seed(seed_of(seed, state.step, *(() if world.alone else (world.rank,))))
        network.advance(progress)
        made = step.gradients(part.with_memory(state.memory))
        norm = step.clipped()
        if not (math.isfinite(norm) and math.isfinite(made.loss)):
            raise Diverged(
                tr("The loss or its gradient is not a finite number at step {step}", step=state.step + 1), lower
            )
        rate = step.update(schedule.factor(rate_progress(budget, state, progress)))
        state = replace(
            state,
            step=state.step + 1,
            tokens=state.tokens + int(batch.source.visible.sum()),
            seconds=time.perf_counter() - begun,
            position=position,
            memory=None if batch.continues is None else made.memory,
        )
        report = Report(
            state=state,
            progress=min(1.0, budget.progress(state, state.seconds)),
            loss=made.loss,
            losses=made.losses,
            rate=rate,
            norm=norm,
            check=checking(step, part, state.step, lower),
        )
        if world.any(not watch(report)):
            break
    if report:
        report.check()
    return replace(state, seconds=time.perf_counter() - begun)


def seed_of(seed: int, *key: int) -> int:
    return int(generator(seed, DROPOUT, *key).integers(2**62))


def checking(step: Step, batch: Batch, number: int, lower: str) -> Callable[[], None]:
    """Refuse, when called, weights that an update spoilt: they are no numbers, or so large that the loss is none."""

    def check() -> None:
        if not step.is_sound(batch):
            raise Diverged(
                tr("The update of step {number} gave weights, or a loss, that are not finite numbers", number=number),
                lower,
            )

    return check


def rate_progress(budget: Budget, state: State, progress: float) -> float:
    """Of N steps, the first is at 1 / (N + 1) and the last at N / (N + 1): neither has a rate of 0."""
    return (state.step + 1) / (budget.steps + 1) if budget.steps is not None else progress
