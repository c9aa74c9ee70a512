"""What happens between two steps of a run: a line in the log, a validation loss, a checkpoint, or the end."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from plmkit.data.batch import Batch
from plmkit.data.reading.columns import Say, ignore
from plmkit.data.samples import Position
from plmkit.language import tr
from plmkit.storage.files import reported_os_errors, write_text
from plmkit.training.by_corpus import CORPORA, in_words, losses_by_corpus
from plmkit.training.checkpoint import KEPT, save_checkpoint
from plmkit.training.loop import Report, State
from plmkit.training.step import Step, validate_streams

METRICS = "metrics.jsonl"
VALID = "valid/"  # prefix of validation losses
Part = Callable[[Report], None]
Bar = Callable[..., None]
HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


class Log:
    """metrics.jsonl and TensorBoard events in a run folder; lines after `step`, where it resumes, are dropped.

    None keeps all lines: a run whose steps begin again with every seed has each of them once by its name.
    """

    def __init__(self, folder: Path, step: int | None = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # seconds to import; not needed by most commands

        path = folder / METRICS
        self.folder = folder
        self.written = keep_until(path, step) if path.is_file() else set()
        with reported_os_errors(folder):
            self.file = open(path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115  (closed in close)
            self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def write(self, step: int, values: dict[str, Any]) -> None:
        if (step, *values) in self.written:  # before a crash
            return
        with reported_os_errors(self.folder):
            self.file.write(json.dumps({"step": step, **values}) + "\n")
            self.file.flush()
            for name, value in values.items():
                if isinstance(value, int | float):
                    self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        with reported_os_errors(self.folder):
            try:
                self.writer.close()
            finally:
                self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def keep_until(path: Path, step: int | None) -> set[tuple[Any, ...]]:
    """Drop lines after a step, if one is given, and an incomplete last line; returns steps and metrics of the rest."""
    kept, written = [], set()
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
            if step is None or values["step"] <= step:
                kept.append(line + "\n")
                written.add((values.pop("step"), *values))
        except (ValueError, KeyError, TypeError):
            continue
    write_text(path, "".join(kept))
    return written


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run folder's metrics.jsonl."""
    path = folder / METRICS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


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
        self, step: Step, batches: Mapping[str, list[Batch]], log: Log, *, times: int, progress: float = 0.0,
        corpora: Mapping[str, Mapping[str, list[Batch]]] | None = None, say: Say = ignore,
    ) -> None:  # fmt: skip
        self.step, self.batches, self.log, self.times = step, batches, log, times
        self.corpora, self.say = corpora or {}, say  # held-out batches of each corpus, if there are several
        self.done = int(progress * times)
        self.scores: dict[str, float] = {}

    def __call__(self, report: Report) -> None:
        part = int(report.progress * self.times)
        if part > self.done and report.progress < 1:
            self.done = part
            by_corpus = losses_by_corpus(self.measure(report.state))
            if by_corpus:
                step = tr("step {step:,}", step=report.state.step)
                self.say(tr("Held-out losses at {step}: {losses}", step=step, losses=in_words(by_corpus)))

    def measure(self, state: State) -> dict[str, float]:
        if not self.batches:
            return {}
        self.scores = self.losses(self.batches, VALID)
        found = dict(self.scores)
        for name, batches in self.corpora.items():
            own = self.losses(batches, "")
            found |= {f"{CORPORA}{name}/{loss.replace('/', '.')}": value for loss, value in own.items()}
        self.log.write(state.step, {**found, "seconds": round(state.seconds, 2)})
        return found

    def losses(self, batches: Mapping[str, list[Batch]], prefix: str) -> dict[str, float]:
        losses = validate_streams(self.step.network, batches, self.step.world.device, self.step.dtype)
        return {f"{prefix}{name}": round(loss, 5) for name, loss in losses.items()}


class Journal:
    """The mean of the losses since the last line, in the log and on the screen."""

    def __init__(
        self,
        log: Log,
        bar: Bar,
        validation: Validation,
        labels: Mapping[str, str],
        *,
        every: int,
        since: State,
        seed: int,
    ) -> None:
        self.log, self.bar, self.validation, self.every, self.seed = log, bar, validation, every, seed
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
                "learning_rate": report.learning_rate,
                "gradient_norm": round(report.norm, 4),
                "tokens": state.tokens,
                "tokens_per_second": round(speed),
                "seconds": round(state.seconds, 2),
            },
        )
        shown = {self.labels.get(name, name): loss for name, loss in losses.items()}
        where = tr("seed {seed}, {epoch}", seed=self.seed, epoch=epoch_of(state.position))
        self.bar(report, shown, speed, self.validation.scores, where)
        self.sums, self.counts, self.since = {}, {}, state


def epoch_of(position: Position) -> str:
    """The epoch being read, from 1 on; with several streams in different ones, that of each."""
    epochs = {name: place.epoch + 1 for name, place in position.places.items()}
    if len(set(epochs.values())) < 2:
        return tr("epoch {epoch}", epoch=max(epochs.values(), default=0))
    each = [tr("epoch {epoch} of {stream}", epoch=epoch, stream=name) for name, epoch in sorted(epochs.items())]
    return tr(", ").join(each)


class Checkpoints:
    """Saves the run every `every` steps: all processes contribute their part, the first one writes."""

    def __init__(self, folder: Path, step: Step, *, every: int, saved: int, newest: int = KEPT) -> None:
        self.folder, self.step, self.every, self.newest = folder, step, every, newest
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
            save_checkpoint(self.folder, self.step.network, self.step.optimizer, whole, newest=self.newest)
        self.saved = state.step


@contextmanager
def interruptible(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Record Ctrl-C, SIGTERM and a closed terminal, so that the current step can finish.

    A second Ctrl-C stops immediately, unless `patient`: torchrun forwards the first one, which the terminal has
    already sent. Under `nohup`, a closed terminal is ignored.
    """
    noted: list[int] = []
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def note(number: int, frame: FrameType | None) -> None:
        if noted and number == signal.SIGINT and not patient:
            raise KeyboardInterrupt
        if number == HANGUP:
            leave(terminals)
        noted.append(number)

    stops = [signal.SIGINT, signal.SIGTERM]
    if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
        stops.append(HANGUP)
    try:
        old = {number: signal.signal(number, note) for number in stops}
    except ValueError:  # not the main thread, which alone receives signals
        old = {}
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def leave(terminals: list[int]) -> None:
    """Discard all further output: writing to a closed terminal fails."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in terminals:
            os.dup2(nowhere, number)
        os.close(nowhere)
