"""The loop: written once, knows no model."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plmkit.data.batch import Batch, Memory
from plmkit.data.randomness import generator
from plmkit.data.samples import Position
from plmkit.errors import PlmError
from plmkit.network import Network
from plmkit.schedules.schedule import Schedule
from plmkit.training.device import precision

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
            f"{found}; the run stops here.\n"
            f"Lower the rate (--set {lower}=...) and run the same command in a new folder."
        )


def train(
    network: Network,
    source: Source,
    optimizer: Optimizer,
    schedule: Schedule,
    budget: Budget,
    watch: Watch,
    *,
    seed: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    rows_at_once: int | None = None,
    tokens_at_once: int | None = None,
    state: State = State(),
    lower: str = "schedule.rate",
) -> State:
    """Steps until the budget is spent or `watch` says stop; `lower` is the setting to lower where they diverge."""
    network.train()
    begun = time.perf_counter() - state.seconds
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    report: Report | None = None
    while (progress := budget.progress(state, time.perf_counter() - begun)) < 1:
        batch, position = source.next(state.position, step=state.step, progress=progress, rows=schedule.batch)
        # dropout is a function of (seed, step), so a run that goes on needs no generator state
        torch.manual_seed(int(generator(seed, DROPOUT, state.step).integers(2**62)))
        network.advance(progress)
        at_once = fitting(batch, rows_at_once, tokens_at_once)
        loss, losses, memory = accumulate(network, batch.recalling(state.memory), device, dtype, at_once)
        norm = clipped(parameters, schedule.clip)
        if not (torch.isfinite(norm) and math.isfinite(loss)):
            raise Diverged(f"The loss or its gradient is not a finite number at step {state.step + 1}", lower)
        rate = set_rate(optimizer, schedule.factor(rate_progress(budget, state, progress)))
        optimizer.step()
        optimizer.zero_grad()
        state = replace(
            state,
            step=state.step + 1,
            tokens=state.tokens + int(batch.source.visible.sum()),
            seconds=time.perf_counter() - begun,
            position=position,
            memory=None if batch.continues is None else memory,
        )
        after = min(1.0, budget.progress(state, state.seconds))
        some = pieces(batch, at_once)[0]
        check = partial(check_sound, network, some, device, dtype, state.step, lower)
        report = Report(state=state, progress=after, loss=loss, losses=losses, rate=rate, norm=float(norm), check=check)
        if not watch(report):
            break
    if report:
        report.check()
    return replace(state, seconds=time.perf_counter() - begun)


def rate_progress(budget: Budget, state: State, progress: float) -> float:
    """Of N steps, the first is at 1 / (N + 1) and the last at N / (N + 1): neither has a rate of 0."""
    return (state.step + 1) / (budget.steps + 1) if budget.steps is not None else progress


def accumulate(
    network: Network, batch: Batch, device: torch.device, dtype: torch.dtype, rows_at_once: int | None
) -> tuple[float, dict[str, float], Memory | None]:
    """Gradients of the whole batch, a few rows at a time; every answer counts the same wherever it was.

    Returns the loss, the losses it is made of without their weights, and what the model remembers of the batch.
    """
    parts = list(pieces(batch, rows_at_once))
    counts = [network.scored(part) for part in parts]
    totals = {name: sum(count[name] for count in counts) for name in counts[0]}
    whole = torch.zeros((), device=device)
    sums: dict[str, Tensor] = {}
    memories: list[Memory] = []
    for part, count in zip(parts, counts, strict=True):
        # the mean over no answer may not be a number, so an objective that asks nothing here is left out
        shares = {name: count[name] / totals[name] for name in count if count[name]}
        with precision(device, dtype):
            outcome = network(part.to(device))
            if shares:
                loss = torch.stack([outcome.weighted[name] * share for name, share in shares.items()]).sum()
                loss.backward()
                whole += loss.detach()
        for name, share in shares.items():
            sums[name] = sums.get(name, torch.zeros((), device=device)) + outcome.losses[name].detach() * share
        memories += [] if outcome.memory is None else [outcome.memory]
    joined = tuple(torch.cat(parts) for parts in zip(*memories, strict=True)) if memories else None
    return float(whole), {name: float(value) for name, value in sums.items()}, joined


def fitting(batch: Batch, rows: int | None, tokens: int | None) -> int | None:
    """How many examples of the batch to compute at once, so that neither limit is passed."""
    if tokens is None:
        return rows
    fit = max(1, tokens // (batch.source.tokens.shape[1] * batch.most_alternatives))
    return fit if rows is None else min(rows, fit)


def pieces(batch: Batch, rows_at_once: int | None) -> list[Batch]:
    """The batch cut into runs of examples; the rows of one example stay together."""
    if rows_at_once is None or rows_at_once >= batch.examples:
        return [batch]
    return [batch.part(start, start + rows_at_once) for start in range(0, batch.examples, rows_at_once)]


def clipped(parameters: list[nn.Parameter], longest: float) -> Tensor:
    """The norm of the whole gradient, which is shortened where it is longer; 0 leaves it alone."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = length_of(gradients)
    if longest and norm > longest:  # one more pass over all gradients, and most often for nothing
        nn.utils.clip_grads_with_norm_(parameters, longest, norm)
    return norm


def length_of(gradients: list[Tensor]) -> Tensor:
    """The norm of all of them together; on a CPU by products, which take half the time of torch's norms."""
    if not gradients or gradients[0].device.type != "cpu":
        return nn.utils.get_total_norm(gradients)
    flat = [gradient.flatten() for gradient in gradients]
    return torch.stack([gradient.dot(gradient) for gradient in flat]).sum().sqrt()


def check_sound(
    network: Network, batch: Batch, device: torch.device, dtype: torch.dtype, step: int, lower: str
) -> None:
    """Refuse weights that an update spoilt: they are no numbers, or so large that the loss is none."""
    losses = validate(network, [batch], device, dtype)
    if not (all(map(math.isfinite, losses.values())) and all(is_finite(weight) for weight in network.parameters())):
        raise Diverged(f"The update of step {step} gave weights, or a loss, that are not finite numbers", lower)


def is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def set_rate(optimizer: Optimizer, factor: float) -> float:
    """Each group at its own peak times the factor; the highest is returned."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
    return max(group["lr"] for group in optimizer.param_groups)


def validate_streams(
    network: Network, streams: Mapping[str, list[Batch]], device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """Mean loss of each objective over held-out batches; of several streams, under the name of each."""
    losses = {stream: validate(network, batches, device, dtype) for stream, batches in streams.items()}
    if len(losses) == 1:
        return next(iter(losses.values()))
    return {f"{stream}/{name}": loss for stream, found in losses.items() for name, loss in found.items()}


@torch.no_grad()
def validate(network: Network, batches: list[Batch], device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Mean loss of each objective over held-out batches, every answer counting the same."""
    network.eval()
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    memory: Memory | None = None
    for batch in batches:
        with precision(device, dtype):
            outcome = network(batch.recalling(memory).to(device))
        memory = outcome.memory
        for name, loss in outcome.losses.items():
            sums[name] = sums.get(name, 0.0) + float(loss) * outcome.scored[name]
            counts[name] = counts.get(name, 0) + outcome.scored[name]
    network.train()
    return {name: sums[name] / counts[name] for name in sums}
