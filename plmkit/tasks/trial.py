"""One seed of a fine-tuning: train, keep the best epoch, score it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.data.randomness import WORD, generator
from plmkit.data.samples import Position
from plmkit.loading import Parts, Task, label_head
from plmkit.model import Model
from plmkit.network import Network
from plmkit.run import WEIGHTS, Machine
from plmkit.schedules.optimizers import AdamW
from plmkit.schedules.schedule import Schedule
from plmkit.tasks.framing import Framed, batch_of
from plmkit.tasks.going_on import RowLM, next_tokens
from plmkit.tasks.judging import evaluate_rows
from plmkit.tasks.rows import Row
from plmkit.tasks.settings import TaskSettings
from plmkit.training.checkpoint import put_weights, weights_of
from plmkit.training.log import Log
from plmkit.training.loop import Budget, Report, train
from plmkit.training.progress import Screen
from plmkit.training.room import memory_explained
from plmkit.training.stopping import interruptible
from plmkit.training.threads import Threads

LOWER = "task.batch or task.length"  # what makes a step smaller
ORDER = 5  # the purpose of these random numbers
LAYER = re.compile(r"model\.(?:blocks\.|cells\.\w+_l)(\d+)")


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A model, a task and its rows: what every seed begins with."""

    parts: Parts
    task: Task
    settings: TaskSettings  # settled for the architecture
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


class LabelledRows:
    """Batches of labelled rows; their order is a pure function of (seed, epoch)."""

    def __init__(self, rows: list[Framed], labels: Tensor, parts: Parts, length: int | None, seed: int) -> None:
        self.rows, self.labels, self.vocabulary = rows, labels, parts.tokenizer.vocabulary
        self.length, self.seed = length, seed

    def next(self, position: Position, rows: int, length: int) -> tuple[Batch, Position]:
        if position.index >= len(self.rows):
            position = Position(epoch=position.epoch + 1)
        order = generator(self.seed, ORDER, position.epoch).permutation(len(self.rows))
        chosen = order[position.index : position.index + rows]
        batch = batch_of([self.rows[number] for number in chosen], self.vocabulary, self.length)
        after = replace(position, index=position.index + len(chosen))
        labels = self.labels[torch.from_numpy(chosen)]
        return replace(batch, labels=labels, targets=next_tokens(batch)), after


class Trial:
    """One seed."""

    def __init__(self, exercise: Exercise, seed: int, log: Log) -> None:
        settings, task, parts = exercise.settings, exercise.task, exercise.parts
        self.exercise, self.seed, self.log = exercise, seed, log
        self.device = exercise.device
        self.network = build(settings, parts, task, seed).to(self.device)
        self.epoch_steps = -(-len(exercise.framed) // settings.batch)
        self.steps = max(1, round(settings.epochs * self.epoch_steps))
        self.model = Model(
            network=self.network, architecture=parts.architecture, tokenizer=parts.tokenizer, folder=exercise.out,
            kind=task.kind, classes=task.classes, longest=task.length, device=self.device,
        )  # fmt: skip
        self.best: Outcome | None = None
        self.losses: list[float] = []

    def run(self, name: str, screen: Screen) -> Outcome:
        """Train to the end, then score the best epoch; Ctrl-C is passed on once the step under way has ended."""
        exercise, settings, task = self.exercise, self.exercise.settings, self.exercise.task
        assert settings.rate is not None and settings.warmup is not None
        schedule = Schedule(
            steps=self.steps,
            batch=settings.batch,
            lengths=((1.0, task.length),),
            rate=settings.rate,
            warmup=settings.warmup,
            shape="linear_after_warmup",
            clip=settings.clip,
        )
        optimizer = optimizer_of(self.network, settings, schedule.rate, layers_of(self.network))
        fixed = task.length if task.pooling == "concat" else None
        source = LabelledRows(exercise.framed, labels_of(exercise.train, task), exercise.parts, fixed, self.seed)
        with interruptible() as interrupted, screen.training(name) as bar:

            def watch(report: Report) -> bool:
                exercise.threads.look()
                self.note(report, bar)
                return not interrupted()

            with memory_explained(LOWER, lambda: "Seeds that are finished are saved."):
                train(
                    self.network, source, optimizer, schedule, Budget(steps=self.steps), watch,
                    seed=self.seed, device=self.device, dtype=exercise.dtype,
                    rows_at_once=exercise.machine.rows_at_once, lower="task.rate",
                )  # fmt: skip
            if interrupted():
                raise KeyboardInterrupt
        return self.scored()

    def note(self, report: Report, bar: Any) -> None:
        """After a step: a line in the log now and then, a score after each epoch."""
        step = report.state.step
        self.losses.append(report.loss)
        if step % self.exercise.machine.log_steps == 0 or step == self.steps:
            recent = sum(self.losses) / len(self.losses)
            self.log.write(step, {f"train/{self.seed}/loss": round(recent, 5), "rate": report.rate})
            bar(report, {"loss": recent}, report.state.tokens / report.state.seconds, {})
            self.losses.clear()
        if step % self.epoch_steps == 0 or step == self.steps:
            report.check()
            self.keep_best(step)
            self.network.train()

    def keep_best(self, step: int) -> None:
        """Score on dev, and remember the weights if they are the best so far; without dev, the last are."""
        scores: dict[str, Any] = {}
        choice = float(step)
        if self.exercise.dev:
            found = evaluate_rows(self.model, self.exercise.dev)
            scores["dev"] = found
            choice = found[self.exercise.task.kind.score]
            numbers = {name: value for name, value in found.items() if isinstance(value, float)}
            self.log.write(step, {f"dev/{self.seed}/{name}": value for name, value in numbers.items()})
        if self.best is None or choice > self.best.choice:
            weights = {name: tensor.cpu().clone() for name, tensor in weights_of(self.network).items()}
            self.best = Outcome(choice=choice, scores={**scores, "step": step}, weights=weights)

    def scored(self) -> Outcome:
        """The best epoch, with its scores on the test rows."""
        assert self.best is not None
        self.network.load_state_dict(self.best.weights)
        scores = {"seed": self.seed, **self.best.scores}
        if self.exercise.test:
            scores["test"] = evaluate_rows(self.model, self.exercise.test)
        return replace(self.best, scores=scores)


def build(settings: TaskSettings, parts: Parts, task: Task, seed: int) -> Network:
    """The pretrained encoder, bit for bit, under a new head; or all of it random."""
    settings = settings.settled(parts.architecture)
    torch.manual_seed(seed & WORD)
    architecture = parts.architecture.for_task(settings.dropout)
    model = architecture.build(range(parts.vocabulary_size))
    heads: dict[str, Any] = {"label": label_head(architecture, task, settings.dropout)}
    if settings.lm_weight:
        heads[RowLM.name] = RowLM(model.embed.tokens)
    network = Network(model, heads, {"label": 1.0, RowLM.name: settings.lm_weight or 0.0})
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


def optimizer_of(network: Network, task: TaskSettings, rate: float, layers: int) -> torch.optim.Optimizer:
    """AdamW over what may learn, lower layers slower where asked, by the factors of the model's own paper."""
    depth = depth_in_blocks if getattr(network.model, "slows_blocks_only", False) else depth_below
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if task.frozen and not name.startswith("heads."):
            parameter.requires_grad_(False)
            continue
        key = task.layer_decay ** depth(name, layers), parameter.dim() > 1
        groups.setdefault(key, []).append(parameter)
    described = [
        {"params": members, "weight_decay": task.decay if decays else 0.0, "peak": rate * factor}
        for (factor, decays), members in groups.items()
    ]
    return AdamW().build_groups(described, rate)


def layers_of(network: Network) -> int:
    """Layers with weights of their own; one that all share counts once."""
    return len({layer_of(name) for name, _ in network.named_parameters()} - {None})


def layer_of(name: str) -> int | None:
    """The layer that a weight belongs to, from 0: a block, or an LSTM's cells."""
    found = LAYER.match(name)
    return int(found[1]) if found else None


def depth_below(name: str, layers: int) -> int:
    """0 for the head, 2 for the last layer, layers + 2 for the embeddings (google-research/electra): 1 is unused."""
    if name.startswith(("heads.", "model.pooler")):
        return 0
    if name.startswith(("model.embed", "model.project")):
        return layers + 2
    layer = layer_of(name)
    return 2 if layer is None else layers + 1 - layer  # a norm behind the last block goes with it


def depth_in_blocks(name: str, layers: int) -> int:
    """0 for the last layer and for all that is in no layer, layers - 1 for the first (zihangdai/xlnet)."""
    layer = layer_of(name)
    return 0 if layer is None else layers - 1 - layer
