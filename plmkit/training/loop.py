"""The training loop: written once, independent of the model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from plmkit.data.batch import Batch, Memory
from plmkit.data.randomness import generator
from plmkit.data.samples import Position
from plmkit.errors import PlmError
from plmkit.language import several, tr
from plmkit.schedules.schedule import Schedule
from plmkit.training.step import Step

DROPOUT = 17  # the purpose of these random numbers, apart from those of the data


class Source(Protocol):
    """Where batches come from."""

    def next(self, position: Position, *, step: int, progress: float, rows: int) -> tuple[Batch, Position]: ...


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train: until the first of the given limits is reached."""

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        limits = []
        if self.steps is not None:
            limits.append(several(self.steps, "step"))
        if self.tokens is not None:
            limits.append(several(self.tokens, "token"))
        if self.seconds is not None:
            limits.append(tr("{minutes:g} minutes", minutes=round(self.seconds / 60, 2)))
        return tr(" or ").join(limits)

    @property
    def only_steps(self) -> int | None:
        """The number of steps, if nothing else limits the run."""
        return self.steps if self.tokens is None and self.seconds is None else None

    def progress(self, state: "State", seconds: float) -> float:
        """The share of the budget that is spent, from 0 to 1."""
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
    """The progress of a run; with weights and optimizer, everything needed to resume it."""

    step: int = 0
    tokens: int = 0  # trained on, without padding
    seconds: float = 0.0  # of training, without pauses
    before: float = 0.0  # of these, before the first step; the schedule covers the rest
    position: Position = Position()
    memory: Memory | None = None  # recurrent memory of the previous batch, if the next one continues it
    notes: dict[str, Any] = field(default_factory=dict)  # what else a checkpoint keeps of the run, as JSON


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a step."""

    state: State
    progress: float  # after the step
    loss: float  # the weighted sum of all losses, which the step minimises
    losses: dict[str, float]  # without loss weights, as on held-out text
    learning_rate: float
    norm: float  # of the gradient, before clipping
    check: Callable[[], None]  # raises Diverged if the weights are not finite after the step: call before saving


Watch = Callable[[Report], bool]  # True continues, False stops the run


class Diverged(PlmError):
    """The loss or the weights are no longer finite."""

    def __init__(self, found: str, lower: str) -> None:
        super().__init__(
            tr(
                "{found}; the run stops here.\n"
                "Lower the learning rate (--set {lower}=...) and run the same command with a new folder.",
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
    lower: str = "schedule.learning_rate",
) -> State:
    """Train until the budget is spent or `watch` returns False; `lower` is the setting to lower after divergence."""
    network, world = step.network, step.world
    network.train()
    started = time.perf_counter() - state.seconds
    report: Report | None = None
    while (progress := budget.progress(state, world.agreed(time.perf_counter() - started))) < 1:
        batch, position = source.next(state.position, step=state.step, progress=progress, rows=schedule.batch)
        part = world.part(batch, seed_of(seed, state.step))
        # dropout is a function of (seed, step), so resuming needs no generator state
        torch.manual_seed(seed_of(seed, state.step, *(() if world.alone else (world.rank,))))
        network.advance(progress)
        made = step.gradients(part.with_memory(state.memory))
        norm = step.clipped()
        if not (math.isfinite(norm) and math.isfinite(made.loss)):
            raise Diverged(tr("The loss or its gradient is not finite at step {step}", step=state.step + 1), lower)
        rate = step.update(schedule.factor(rate_progress(budget, state, progress)))
        state = replace(
            state,
            step=state.step + 1,
            tokens=state.tokens + batch.token_count,
            seconds=time.perf_counter() - started,
            position=position,
            memory=None if batch.continues is None else made.memory,
        )
        report = Report(
            state=state,
            progress=min(1.0, budget.progress(state, state.seconds)),
            loss=made.loss,
            losses=made.losses,
            learning_rate=rate,
            norm=norm,
            check=checking(step, part, state.step, lower),
        )
        if world.any(not watch(report)):
            break
    if report:
        report.check()
    return replace(state, seconds=time.perf_counter() - started)


def seed_of(seed: int, *key: int) -> int:
    return int(generator(seed, DROPOUT, *key).integers(2**62))


def checking(step: Step, batch: Batch, number: int, lower: str) -> Callable[[], None]:
    """A function that raises Diverged if the weights, or the loss they give, are not finite after an update."""

    def check() -> None:
        if not step.is_sound(batch):
            raise Diverged(
                tr("The weights or the loss are not finite after step {step}", step=number),
                lower,
            )

    return check


def rate_progress(budget: Budget, state: State, progress: float) -> float:
    """Of N steps, the first is at 1 / (N + 1) and the last at N / (N + 1): neither has a learning rate of 0."""
    return (state.step + 1) / (budget.steps + 1) if budget.steps is not None else progress
