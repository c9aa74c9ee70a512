"""One seed of a fine-tuning: train, keep the best epoch, score it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.config.machine import Machine
from plmkit.data.batch import Batch, States
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.randomness import WORD
from plmkit.data.samples import Place
from plmkit.inference.loading import Parts
from plmkit.language import tr
from plmkit.network import Network
from plmkit.schedules.schedule import Schedule
from plmkit.storage.tensors import WEIGHTS
from plmkit.tasks.batches import LabelledExamples, evaluate, labels_of
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.framing import TOKENS_AT_ONCE
from plmkit.tasks.gpt_finetuning import RowLM
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.settings import Settled
from plmkit.terminal.labels import label
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import put_weights, weights_of
from plmkit.training.loop import Budget, Report, train
from plmkit.training.memory import reported_out_of_memory
from plmkit.training.step import Step
from plmkit.training.threads import Threads
from plmkit.training.watch import Log, interruptible
from plmkit.training.world import World


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task with its examples, framed once for all seeds and epochs."""

    task: Task
    train: list[Example]
    dev: list[Example]
    test: list[Example]

    def rows(self, part: str) -> list[Row]:
        """The rows of `train`, `dev` or `test`."""
        return [example.row for example in vars(self)[part]]


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """A model, a task with its data, and settings: what every seed starts from."""

    parts: Parts
    data: TaskData
    settings: Settled
    machine: Machine
    out: Path
    device: torch.device
    dtype: torch.dtype
    threads: Threads


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """One seed's best epoch."""

    choice: float  # by which the best epoch and seed are chosen
    scores: dict[str, Any]
    weights: dict[str, Tensor]


class SeedRun:
    """The training of one seed."""

    def __init__(self, finetuning: Finetuning, seed: int, log: Log) -> None:
        settings, data = finetuning.settings, finetuning.data
        self.finetuning, self.data, self.seed, self.log = finetuning, data, seed, log
        self.device, self.vocabulary = finetuning.device, finetuning.parts.tokenizer.vocabulary
        self.network = build(settings, finetuning.parts, data.task, seed).to(self.device)
        self.head = cast(TaskHead, self.network.heads[data.task.name])
        self.epoch_steps = -(-len(data.train) // settings.batch)
        self.steps = max(1, round(settings.epochs * self.epoch_steps))
        self.best: SeedResult | None = None
        self.baseline = data.task.baseline(data.rows("train"), data.rows("dev")) if data.dev else None
        self.losses: list[float] = []  # since the last line in the log
        self.of_epoch: list[float] = []

    def run(self, name: str, screen: Screen, after: int = 0) -> SeedResult:
        """Train to the end, then score the best epoch; Ctrl-C is passed on at the end of the current step.

        `after` is the number of seeds that follow.
        """
        finetuning, settings, task = self.finetuning, self.finetuning.settings, self.data.task
        schedule = Schedule(
            steps=self.steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            warmup=settings.warmup,
            shape=settings.shape,
            clip=settings.clip,
        )
        optimizer = optimizer_of(self.network, settings)
        source = LabelledExamples(
            self.data.train, self.vocabulary, length=task.fixed_length, seed=self.seed,
            heads=frozenset(self.network.heads),
        )  # fmt: skip
        first = source.next(Place(), settings.batch, task.length)[0]
        self.head.fit(labels_of(self.data.train, self.vocabulary, task.length), lambda: self.look(first))
        with interruptible() as interrupted, screen.training(name, after) as bar:

            def watch(report: Report) -> bool:
                finetuning.threads.look()
                self.note(report, bar, screen.say)
                return not interrupted()

            lower = tr("task.batch or task.length")  # settings that make a step smaller
            with reported_out_of_memory(lower, lambda: tr("Finished seeds are saved.")):
                step = Step(
                    self.network, optimizer, clip=schedule.clip, world=World(device=self.device),
                    dtype=finetuning.dtype, rows_at_once=finetuning.machine.micro_batch,
                    tokens_at_once=TOKENS_AT_ONCE if self.device.type == "cpu" else None,
                )  # fmt: skip
                batches, budget = MixtureSource.of_one(source, task.length), Budget(steps=self.steps)
                train(step, batches, schedule, budget, watch, seed=self.seed, lower="task.learning_rate")
            if interrupted():
                raise KeyboardInterrupt
        return self.scored()

    @torch.no_grad()
    def look(self, batch: Batch) -> tuple[States, Batch]:
        """The states of a batch before training."""
        self.network.eval()
        batch = batch.to(self.device)
        return self.network.states(batch), batch

    def note(self, report: Report, bar: Any, say: Callable[[str], None]) -> None:
        """After a step: a line in the log every `log_steps`, a score after each epoch."""
        step = report.state.step
        self.losses.append(report.loss)
        self.of_epoch.append(report.loss)
        recent = sum(self.losses) / len(self.losses)
        speed = report.state.tokens / report.state.seconds
        bar(report, {"loss": recent}, speed, {}, tr("seed {seed}, {epoch}", seed=self.seed, epoch=self.epoch(step)))
        if step % self.finetuning.machine.log_steps == 0 or step == self.steps:
            self.log.write(step, {f"train/{self.seed}/loss": round(recent, 5), "learning_rate": report.learning_rate})
            self.losses.clear()
        if step % self.epoch_steps == 0 or step == self.steps:
            report.check()
            self.end_epoch(step, say)

    def end_epoch(self, step: int, say: Callable[[str], None]) -> None:
        report = [tr("train loss {loss:.3f}", loss=sum(self.of_epoch) / len(self.of_epoch))]
        found = self.keep_best(step)
        if self.baseline and found:
            names = dict.fromkeys((self.data.task.best, self.baseline.measure))
            report += [tr("dev {name} {score:.3f}", name=label(name), score=found[name]) for name in names]
            report[-1] += tr(" ({baseline})", baseline=self.baseline)
        say(tr("Seed {seed}, {epoch}: {report}.", seed=self.seed, epoch=self.epoch(step), report=tr(", ").join(report)))
        self.of_epoch.clear()
        self.network.train()

    def epoch(self, step: int) -> str:
        return tr(
            "epoch {epoch:.3g} of {epochs:g}", epoch=step / self.epoch_steps, epochs=self.finetuning.settings.epochs
        )

    def keep_best(self, step: int) -> dict[str, Any]:
        """Score on dev, and keep the weights if they are the best so far; without dev, the last are the best."""
        scores: dict[str, Any] = {}
        found: dict[str, Any] = {}
        choice = float(step)
        if self.data.dev:
            found = evaluate(self.network, self.data.task, self.data.dev, self.vocabulary, self.device)
            scores["dev"] = found
            choice = found[self.data.task.best]
            numbers = {name: value for name, value in found.items() if isinstance(value, float)}
            self.log.write(step, {f"dev/{self.seed}/{name}": value for name, value in numbers.items()})
        if self.best is None or choice > self.best.choice:
            weights = {name: tensor.cpu().clone() for name, tensor in weights_of(self.network).items()}
            weights = self.head.in_units(weights, f"heads.{self.data.task.name}")
            epoch = round(step / self.epoch_steps, 3)
            self.best = SeedResult(choice=choice, scores={**scores, "step": step, "epoch": epoch}, weights=weights)
        return found

    def scored(self) -> SeedResult:
        """The best epoch, with its scores on the test rows."""
        assert self.best is not None
        self.network.load_state_dict(self.best.weights)
        self.head.forget()
        scores = {"seed": self.seed, **self.best.scores}
        if self.data.test:
            scores["test"] = evaluate(self.network, self.data.task, self.data.test, self.vocabulary, self.device)
        return replace(self.best, scores=scores)


def build(settings: Settled, parts: Parts, task: Task, seed: int) -> Network:
    """The pretrained model, unchanged, with a new head; with `task.scratch`, all weights random."""
    torch.manual_seed(seed & WORD)
    architecture = parts.architecture.for_task(settings.dropout)
    model = architecture.build(parts.vocabulary)
    heads: dict[str, Any] = {task.name: task.head(architecture, settings.dropout)}
    embedding = model.token_embedding
    if settings.lm_weight and embedding is not None:
        heads[RowLM.name] = RowLM(embedding)
    network = Network(model, heads, {task.name: 1.0, RowLM.name: settings.lm_weight})
    if not settings.scratch:
        own = network.state_dict()
        tuned = [name for name in parts.weights if name.startswith("model.") and parts.architecture.is_tuned(name)]
        mine = {name: parts.weights[name] for name in tuned}
        put_weights(network, own | mine, parts.folder / WEIGHTS)
    return network


def optimizer_of(network: Network, task: Settled) -> torch.optim.Optimizer:
    """Over the trained parameters, with the learning rate of lower layers reduced by `task.layer_decay`."""
    architecture = cast(Architecture, network.model.settings)
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if task.frozen and architecture.is_pretrained(name):
            parameter.requires_grad_(False)
            continue
        steps = 0 if name.startswith("heads.") else architecture.decay_steps(name)
        key = task.layer_decay**steps, parameter.dim() > 1
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": members, "weight_decay": task.decay if decays else 0.0, "peak": task.learning_rate * factor}
        for (factor, decays), members in groups.items()
    ]
    return task.optimizer.build_groups(described, task.learning_rate)
