"""What happens after a step of pretraining: a line in the log, a validation loss, a checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from plmkit.data.batch import Batch
from plmkit.training.checkpoint import save_checkpoint
from plmkit.training.log import Log
from plmkit.training.loop import Report, State
from plmkit.training.step import Step, validate_streams

Part = Callable[[Report], None]
Bar = Callable[..., None]


class Watch:
    """Each part in turn; the run continues until it is interrupted."""

    def __init__(self, parts: Sequence[Part], interrupted: Callable[[], bool]) -> None:
        self.parts, self.interrupted = parts, interrupted

    def __call__(self, report: Report) -> bool:
        for part in self.parts:
            part(report)
        return not self.interrupted()


class Validation:
    """Validation losses, measured `times` times per run."""

    def __init__(
        self, step: Step, batches: Mapping[str, list[Batch]], log: Log, *, times: int, progress: float = 0.0
    ) -> None:
        self.step, self.batches, self.log, self.times = step, batches, log, times
        self.done = int(progress * times)
        self.scores: dict[str, float] = {}

    def __call__(self, report: Report) -> None:
        part = int(report.progress * self.times)
        if part > self.done and report.progress < 1:
            self.done = part
            self.measure(report.state)

    def measure(self, state: State) -> dict[str, float]:
        if self.batches:
            losses = validate_streams(self.step.network, self.batches, self.step.world.device, self.step.dtype)
            self.scores = {f"valid/{name}": round(loss, 5) for name, loss in losses.items()}
            self.log.write(state.step, {**self.scores, "seconds": round(state.seconds, 2)})
        return self.scores


class Journal:
    """The mean of the losses since the last line, in the log and on the screen."""

    def __init__(
        self, log: Log, bar: Bar, validation: Validation, labels: Mapping[str, str], *, every: int, since: State
    ) -> None:
        self.log, self.bar, self.validation, self.every = log, bar, validation, every
        self.labels = labels  # names of the losses on the screen
        self.since = since
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}  # steps with each loss: a stream may not train every objective

    def __call__(self, report: Report) -> None:
        for name, loss in report.losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + loss
            self.counts[name] = self.counts.get(name, 0) + 1
        if report.state.step % self.every == 0:
            self.write(report)

    def write(self, report: Report) -> None:
        state = report.state
        speed = (state.tokens - self.since.tokens) / max(1e-9, state.seconds - self.since.seconds)
        losses = {name: round(total / self.counts[name], 5) for name, total in self.sums.items()}
        self.log.write(
            state.step,
            {
                **{f"train/{name}": loss for name, loss in losses.items()},
                "rate": report.rate,
                "gradient_norm": round(report.norm, 4),
                "tokens": state.tokens,
                "tokens_per_second": round(speed),
                "seconds": round(state.seconds, 2),
            },
        )
        shown = {self.labels.get(name, name): loss for name, loss in losses.items()}
        self.bar(report, shown, speed, self.validation.scores)
        self.sums, self.counts, self.since = {}, {}, state


class Checkpoints:
    """Saves the run every `every` steps: all processes contribute their part, the first one writes."""

    def __init__(self, folder: Path, step: Step, *, every: int, saved: int) -> None:
        self.folder, self.step, self.every = folder, step, every
        self.saved = saved  # step of the newest checkpoint

    def __call__(self, report: Report) -> None:
        if report.state.step % self.every == 0:
            report.check()
            self.save(report.state)

    def save(self, state: State) -> None:
        """Save a checkpoint, unless this step is saved already."""
        if state.step == self.saved:
            return
        whole = replace(state, memory=self.step.world.joined(state.memory))
        if self.step.world.first:
            save_checkpoint(self.folder, self.step.network, self.step.optimizer, whole)
        self.saved = state.step
