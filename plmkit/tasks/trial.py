"""One seed of a fine-tuning: train, keep the best epoch, score it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.config.machine import Machine
from plmkit.data.batch import Batch
from plmkit.data.randomness import WORD
from plmkit.data.samples import Position
from plmkit.inference.loading import Parts, Task, label_head
from plmkit.inference.model import Model
from plmkit.network import Network
from plmkit.schedules.schedule import Schedule
from plmkit.tasks.batches import LabelledRows
from plmkit.tasks.framing import TOKENS_AT_ONCE, Framed
from plmkit.tasks.gpt_finetuning import RowLM
from plmkit.tasks.head import LabelHead
from plmkit.tasks.judging import baseline, evaluate_rows
from plmkit.tasks.rows import Row
from plmkit.tasks.settings import Settled
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import put_weights, weights_of
from plmkit.training.log import Log
from plmkit.training.loop import Budget, Report, train
from plmkit.training.memory import memory_explained
from plmkit.training.run_folder import WEIGHTS
from plmkit.training.stopping import interruptible
from plmkit.training.threads import Threads

LOWER = "task.batch or task.length"  # what makes a step smaller
LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A model, a task and its rows: what every seed begins with."""

    parts: Parts
    task: Task
    settings: Settled
    machine: Machine
    framed: list[Framed]  # the training rows, ready for the model
    train: list[Row]
    dev: list[Row]
    test: list[Row]
    out: Path
    device: torch.device
    dtype: torch.dtype
    threads: Threads


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One seed's best epoch."""

    choice: float  # what epochs and seeds are chosen by
    scores: dict[str, Any]
    weights: dict[str, Tensor]


class Trial:
    """One seed."""

    def __init__(self, exercise: Exercise, seed: int, log: Log) -> None:
        settings, task, parts = exercise.settings, exercise.task, exercise.parts
        self.exercise, self.seed, self.log = exercise, seed, log
        self.device = exercise.device
        self.network = build(settings, parts, task, seed).to(self.device)
        self.head = cast(LabelHead, self.network.heads[LABEL])
        self.epoch_steps = -(-len(exercise.framed) // settings.batch)
        self.steps = max(1, round(settings.epochs * self.epoch_steps))
        self.model = Model(
            network=self.network, architecture=parts.architecture, tokenizer=parts.tokenizer, folder=exercise.out,
            kind=task.kind, classes=task.classes, longest=task.length, device=self.device,
        )  # fmt: skip
        self.best: Outcome | None = None
        self.baseline = baseline(exercise.train, exercise.dev, task.kind) if exercise.dev else None
        self.losses: list[float] = []  # since the last line in the log
        self.of_epoch: list[float] = []

    def run(self, name: str, screen: Screen, after: int = 0) -> Outcome:
        """Train to the end, then score the best epoch; Ctrl-C is passed on once the step under way has ended.

        So many more seeds come `after` this one.
        """
        exercise, settings, task = self.exercise, self.exercise.settings, self.exercise.task
        schedule = Schedule(
            steps=self.steps,
            batch=settings.batch,
            lengths=((1.0, task.length),),
            rate=settings.rate,
            warmup=settings.warmup,
            shape=settings.shape,
            clip=settings.clip,
        )
        optimizer = optimizer_of(self.network, settings)
        fixed = task.length if task.pooling == "concat" else None
        labels = labels_of(exercise.train, task)
        source = LabelledRows(
            exercise.framed, labels, exercise.parts.tokenizer.vocabulary, length=fixed, seed=self.seed
        )
        if task.kind.numeric:
            self.start_at(labels, source.next(Position(), settings.batch, task.length)[0])
        with interruptible() as interrupted, screen.training(name, after) as bar:

            def watch(report: Report) -> bool:
                exercise.threads.look()
                self.note(report, bar, screen.say)
                return not interrupted()

            with memory_explained(LOWER, lambda: "Seeds that are finished are saved."):
                train(
                    self.network, source, optimizer, schedule, Budget(steps=self.steps), watch,
                    seed=self.seed, device=self.device, dtype=exercise.dtype,
                    rows_at_once=exercise.machine.rows_at_once,
                    tokens_at_once=TOKENS_AT_ONCE if self.device.type == "cpu" else None, lower="task.rate",
                )  # fmt: skip
            if interrupted():
                raise KeyboardInterrupt
        return self.scored()

    @torch.no_grad()
    def start_at(self, labels: Tensor, batch: Batch) -> None:
        """Let the head begin with the mean of the numbers, where need be at the mean of a first batch."""
        self.network.eval()
        batch = batch.to(self.device)
        self.head.start_at(labels, self.head.rows(self.network.states(batch), batch))

    def note(self, report: Report, bar: Any, say: Callable[[str], None]) -> None:
        """After a step: a line in the log now and then, a score after each epoch."""
        step = report.state.step
        self.losses.append(report.loss)
        self.of_epoch.append(report.loss)
        recent = sum(self.losses) / len(self.losses)
        speed = report.state.tokens / report.state.seconds
        bar(report, {"loss": recent}, speed, {}, f"seed {self.seed}, {self.epoch(step)}")
        if step % self.exercise.machine.log_steps == 0 or step == self.steps:
            self.log.write(step, {f"train/{self.seed}/loss": round(recent, 5), "rate": report.rate})
            self.losses.clear()
        if step % self.epoch_steps == 0 or step == self.steps:
            report.check()
            self.end_epoch(step, say)

    def end_epoch(self, step: int, say: Callable[[str], None]) -> None:
        told = [f"train loss {sum(self.of_epoch) / len(self.of_epoch):.3f}"]
        found = self.keep_best(step)
        if self.baseline and found:
            names = dict.fromkeys((self.exercise.task.kind.score, self.baseline.measure))
            told += [f"dev {name} {found[name]:.3f}" for name in names]
            told[-1] += f" ({self.baseline})"
        say(f"Seed {self.seed}, {self.epoch(step)}: {', '.join(told)}.")
        self.of_epoch.clear()
        self.network.train()

    def epoch(self, step: int) -> str:
        return f"epoch {step / self.epoch_steps:.3g} of {self.exercise.settings.epochs:g}"

    def keep_best(self, step: int) -> dict[str, Any]:
        """Score on dev, and remember the weights if they are the best so far; without dev, the last are."""
        scores: dict[str, Any] = {}
        found: dict[str, Any] = {}
        choice = float(step)
        if self.exercise.dev:
            found = evaluate_rows(self.model, self.exercise.dev)
            scores["dev"] = found
            choice = found[self.exercise.task.kind.score]
            numbers = {name: value for name, value in found.items() if isinstance(value, float)}
            self.log.write(step, {f"dev/{self.seed}/{name}": value for name, value in numbers.items()})
        if self.best is None or choice > self.best.choice:
            weights = {name: tensor.cpu().clone() for name, tensor in weights_of(self.network).items()}
            weights = self.head.in_units(weights, f"heads.{LABEL}")
            epoch = round(step / self.epoch_steps, 3)
            self.best = Outcome(choice=choice, scores={**scores, "step": step, "epoch": epoch}, weights=weights)
        return found

    def scored(self) -> Outcome:
        """The best epoch, with its scores on the test rows."""
        assert self.best is not None
        self.network.load_state_dict(self.best.weights)
        self.head.mean, self.head.deviation = 0.0, 1.0  # which the weights have now taken up
        scores = {"seed": self.seed, **self.best.scores}
        if self.exercise.test:
            scores["test"] = evaluate_rows(self.model, self.exercise.test)
        return replace(self.best, scores=scores)


def build(settings: Settled, parts: Parts, task: Task, seed: int) -> Network:
    """The pretrained encoder, bit for bit, under a new head; or all of it random."""
    torch.manual_seed(seed & WORD)
    architecture = parts.architecture.for_task(settings.dropout)
    model = architecture.build(parts.vocabulary)
    heads: dict[str, Any] = {LABEL: label_head(architecture, task, settings.dropout)}
    embedding = model.token_embedding
    if settings.lm_weight and embedding is not None:
        heads[RowLM.name] = RowLM(embedding)
    network = Network(model, heads, {LABEL: 1.0, RowLM.name: settings.lm_weight})
    if not settings.scratch:
        own = network.state_dict()
        mine = {name: tensor for name, tensor in parts.weights.items() if name.startswith("model.")}
        put_weights(network, own | mine, parts.folder / WEIGHTS)
    return network


def labels_of(rows: Sequence[Row], task: Task) -> Tensor:
    if task.kind.numeric:
        return torch.tensor([row.label for row in rows], dtype=torch.float32)
    if task.kind.readings == "each":
        return torch.tensor([row.choices.index(str(row.label)) for row in rows])
    numbers = {name: number for number, name in enumerate(task.classes)}
    return torch.tensor([numbers[str(row.label)] for row in rows])


def optimizer_of(network: Network, task: Settled) -> torch.optim.Optimizer:
    """Over what may learn; where lower layers learn slower, by the factors of the model's own paper."""
    architecture = cast(Architecture, network.model.settings)
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if task.frozen and not name.startswith("heads."):
            parameter.requires_grad_(False)
            continue
        steps = 0 if name.startswith("heads.") else architecture.decay_steps(name)
        key = task.layer_decay**steps, parameter.dim() > 1
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": members, "weight_decay": task.decay if decays else 0.0, "peak": task.rate * factor}
        for (factor, decays), members in groups.items()
    ]
    return task.optimizer.build_groups(described, task.rate)
