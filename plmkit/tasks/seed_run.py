"""One seed of a fine-tuning: train, keep the best epoch, score it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import torch

from plmkit.architectures.contract import Architecture
from plmkit.config.machine import Machine
from plmkit.data.mixture_source import MixtureSource
from plmkit.data.randomness import WORD
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts
from plmkit.language import several, tr
from plmkit.network import Network
from plmkit.schedules.schedule import Schedule
from plmkit.storage.tensors import WEIGHTS
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.contract import Task, learned_by
from plmkit.tasks.floor import Mix
from plmkit.tasks.framing import TOKENS_AT_ONCE
from plmkit.tasks.gpt_finetuning import RowLM
from plmkit.tasks.mixing import JointExamples, Mixing
from plmkit.tasks.seed_result import SEEDS, SeedResult
from plmkit.tasks.seed_saves import SeedSaves
from plmkit.tasks.settings import Settled
from plmkit.tasks.taking_up import TaskGuide
from plmkit.tasks.task_run import TaskData, TaskRun
from plmkit.terminal.labels import label
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import CHECKPOINTS, put_weights, weights_of
from plmkit.training.loop import Budget, Report, State, train
from plmkit.training.memory import reported_out_of_memory
from plmkit.training.step import Step
from plmkit.training.threads import Threads
from plmkit.training.watch import Log, interruptible
from plmkit.training.world import World

MOST_EVALUATIONS = 20  # on dev; so many epochs that there would be more are short
NGRAM_RATE = 0.01  # learning rate of the weights of n-grams, which begin at 0
NOTED = ("waited", "stopped", "history", "losses", "of_epoch")  # of a seed, in its checkpoints
TUNED_ON = 2000  # training examples that choose a threshold, where there is no dev


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """A model, tasks with their data, and settings: what every seed starts from."""

    parts: Parts
    data: tuple[TaskData, ...]
    settings: Settled
    machine: Machine
    out: Path
    device: torch.device
    dtype: torch.dtype
    threads: Threads
    mixing: Mixing = Mixing()  # of several tasks
    guide: TaskGuide | None = None  # in distillation


class SeedRun:
    """The training of one seed."""

    def __init__(self, finetuning: Finetuning, seed: int, log: Log) -> None:
        settings, vocabulary = finetuning.settings, finetuning.parts.tokenizer.vocabulary
        self.finetuning, self.seed, self.log = finetuning, seed, log
        self.device = finetuning.device
        tasks = tuple(data.task for data in finetuning.data)
        self.network = build(settings, finetuning.parts, tasks, seed, finetuning.guide).to(self.device)
        if finetuning.guide:
            finetuning.guide.ready(self.network, self.device)
        self.runs = [TaskRun(data, self.network, vocabulary, self.device) for data in finetuning.data]
        self.compares = any(run.head.compares for run in self.runs)
        if self.compares and finetuning.machine.micro_batch:
            raise SettingError(
                tr(
                    "The loss of this task compares all pairs of a batch, which run.micro_batch would divide. Leave it "
                    "out, and lower task.batch if memory is short."
                )
            )
        shared = frozenset(self.network.heads) - {task.name for task in tasks}
        self.sources = [
            LabelledExamples(data.task, data.train, vocabulary, seed=seed, heads=shared | {data.task.name})
            for data in finetuning.data
        ]
        self.feed = (
            self.sources[0]
            if len(self.sources) == 1
            else JointExamples(self.sources, finetuning.mixing, seed=seed, epochs=settings.epochs)
        )
        self.epoch_steps = self.feed.batches(settings.batch)
        self.steps = max(1, round(settings.epochs * self.epoch_steps))
        apart = math.ceil(settings.epochs * settings.evaluations / MOST_EVALUATIONS)  # of a run of many short epochs
        marks = (
            round(n * apart * self.epoch_steps / settings.evaluations)
            for n in range(1, self.steps * settings.evaluations)
        )
        self.ends = {*takewhile(lambda mark: mark < self.steps, filter(None, marks)), self.steps}  # dev is scored after
        if isinstance(self.feed, JointExamples) and finetuning.mixing.is_sequential:
            self.ends = {*self.feed.ends(settings.batch), self.steps}
        self.best: SeedResult | None = None
        self.waited = 0  # evaluations since the best one
        self.stopped: int | None = None  # the step after which it stopped early
        self.saved = 0  # the step from which the same command would continue
        self.history: list[dict[str, float]] = []  # of every epoch, the score of each task by which it is chosen
        self.losses: list[float] = []  # since the last line in the log
        self.of_epoch: list[float] = []

    def run(self, name: str, screen: Screen, after: int = 0) -> SeedResult:
        """Train to the end, then score the best epoch; Ctrl-C is passed on once the current step is saved.

        `after` is the number of seeds that follow.
        """
        finetuning, settings = self.finetuning, self.finetuning.settings
        schedule = Schedule(
            steps=self.steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            warmup=settings.warmup,
            shape=settings.shape,
            clip=settings.clip,
        )
        optimizer = optimizer_of(self.network, settings)
        for run, source in zip(self.runs, self.sources, strict=True):
            run.fit(source, settings.batch)
        with interruptible() as interrupted, screen.training(name, after) as bar:
            lower = tr("task.batch or task.length")  # settings that make a step smaller
            with reported_out_of_memory(lower, lambda: tr("Finished seeds are saved.")):
                step = Step(
                    self.network, optimizer, clip=schedule.clip, world=World(device=self.device),
                    dtype=finetuning.dtype, rows_at_once=finetuning.machine.micro_batch,
                    tokens_at_once=TOKENS_AT_ONCE if self.device.type == "cpu" and not self.compares else None,
                )  # fmt: skip
                length = max(run.task.length for run in self.runs)
                batches, budget = MixtureSource.of_one(self.feed, length), Budget(steps=self.steps)
                saves = SeedSaves(self.folder, step, self.runs[0].task)
                state = self.resumed(saves, screen.say)

                def watch(report: Report) -> bool:
                    finetuning.threads.look()
                    self.note(report, bar, screen.say)
                    if interrupted() or saves.is_due:
                        report.check()
                        self.save(saves, report.state)
                    return not (interrupted() or self.is_over)

                if not self.is_over:
                    state = train(
                        step, batches, schedule, budget, watch, seed=self.seed, state=state, lower="task.learning_rate"
                    )
            if interrupted():
                raise KeyboardInterrupt
        started = time.perf_counter()
        result = self.scored()
        return replace(result, seconds=state.seconds + time.perf_counter() - started)

    @property
    def folder(self) -> Path:
        """Where it is saved while it trains."""
        return self.finetuning.out / SEEDS / f"{self.seed}-{CHECKPOINTS}"

    @property
    def is_over(self) -> bool:
        """Whether so many evaluations were no better than the best that training stops early."""
        patience = self.finetuning.settings.patience
        return patience is not None and self.waited >= patience

    def resumed(self, saves: SeedSaves, say: Callable[[str], None]) -> State:
        """The seed as it was last saved; a new one otherwise."""
        state, self.best = saves.load(say)
        if state.step:
            say(tr("Seed {seed} continues from step {step:,}.", seed=self.seed, step=state.step))
            self.saved = state.step
            vars(self).update({name: state.notes[name] for name in NOTED})
        return state

    def save(self, saves: SeedSaves, state: State) -> None:
        saves.save(state, self.best, {name: vars(self)[name] for name in NOTED})
        self.saved = state.step

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
        if step in self.ends:
            report.check()
            self.end_epoch(step, say)

    def end_epoch(self, step: int, say: Callable[[str], None]) -> None:
        report = [tr("train loss {loss:.3f}", loss=sum(self.of_epoch) / len(self.of_epoch))]
        found = self.keep_best(step)
        for run in self.runs:
            if run.baseline and found:
                own = self.own_scores(run, found)
                names = dict.fromkeys((run.task.chosen_by(own), run.baseline.measure))
                report += [tr("dev {name} {score:.3f}", name=self.label(run, name), score=own[name]) for name in names]
                report[-1] += tr(" ({baseline})", baseline=run.baseline)
        say(tr("Seed {seed}, {epoch}: {report}.", seed=self.seed, epoch=self.epoch(step), report=tr(", ").join(report)))
        if self.is_over and step < self.steps:
            self.stopped = step
            say(
                tr(
                    "Seed {seed} stops here: no better on dev in {evaluations} (task.patience={patience}).",
                    seed=self.seed,
                    evaluations=several(self.waited, "evaluation"),
                    patience=self.finetuning.settings.patience,
                )
            )
        self.of_epoch.clear()
        self.network.train()

    def own_scores(self, run: TaskRun, found: Mapping[str, Any]) -> dict[str, Any]:
        """The scores of one task by their plain names."""
        stem = self.key(run, "")
        return {name.removeprefix(stem): value for name, value in found.items() if name.startswith(stem)}

    def key(self, run: TaskRun, measure: str) -> str:
        """The name of a score: with that of its task, if there are several."""
        return measure if len(self.runs) == 1 else f"{run.task.name}.{measure}"

    def label(self, run: TaskRun, measure: str) -> str:
        return label(measure) if len(self.runs) == 1 else f"{run.task.name} {label(measure)}"

    def epoch(self, step: int) -> str:
        return tr(
            "epoch {epoch:.3g} of {epochs:g}", epoch=step / self.epoch_steps, epochs=self.finetuning.settings.epochs
        )

    def keep_best(self, step: int) -> dict[str, Any]:
        """Score on dev, and keep the weights if they are the best so far; without dev, the last are the best."""
        found: dict[str, Any] = {}
        mixes: dict[str, Mix] = {run.task.name: Mix() for run in self.runs if run.data.floor}
        chosen: dict[str, float] = {}
        learned: dict[str, dict[str, Any]] = {}
        for run in self.runs:
            if run.data.dev:
                task, scores, mix = run.dev_scores()
                found |= {self.key(run, name): value for name, value in scores.items()}
                mixes |= {run.task.name: mix} if mix else {}
                learned |= {run.task.name: own} if (own := learned_by(task)) else {}
                chosen[run.task.name] = scores[run.task.chosen_by(scores)]
        self.history.append(chosen)
        numbers = {name: value for name, value in found.items() if isinstance(value, float)}
        if numbers:
            self.log.write(step, {f"dev/{self.seed}/{name}": value for name, value in numbers.items()})
        if len(self.runs) > 1 and chosen:
            found["mean"] = sum(chosen.values()) / len(chosen)
        last = not chosen or (self.finetuning.mixing.is_sequential and len(self.runs) > 1)
        choice = float(step) if last else sum(chosen.values()) / len(chosen)
        best = None if self.best is None else self.best.choice
        is_better = best is None or choice > best
        self.waited = 0 if is_better else self.waited + 1
        if is_better or choice == best == 0:  # as long as nothing is right, the later epoch knows more
            weights = {name: tensor.cpu().clone() for name, tensor in weights_of(self.network).items()}
            for run in self.runs:
                weights = run.finished(weights, mixes.get(run.task.name))
            self.best = SeedResult(
                choice=choice, scores=self.noted(step, found, mixes), weights=weights, learned=learned
            )
        return found

    def noted(self, step: int, found: dict[str, Any], mixes: Mapping[str, Mix]) -> dict[str, Any]:
        """What scores.json keeps of an epoch."""
        scores: dict[str, Any] = {"dev": found} if found else {}
        scores |= {"step": step, "epoch": round(step / self.epoch_steps, 3)}
        return scores | ({"mix": {name: vars(mix) for name, mix in mixes.items()}} if mixes else {})

    def scored(self) -> SeedResult:
        """The best epoch, with its scores on the test rows."""
        assert self.best is not None
        self.network.load_state_dict(self.best.weights)
        scores: dict[str, Any] = {"seed": self.seed, **self.best.scores}
        learned = dict(self.best.learned)
        for run in self.runs:
            run.head.forget()
        for run in self.runs:
            if run.task.tunes and not run.data.dev:
                learned[run.task.name] = learned_by(run.tuned_on(run.data.train[:TUNED_ON])[0])
            task = replace(run.task, **learned.get(run.task.name, {}))
            for part, examples in (("train", run.data.sample), ("test", run.data.test)):
                if examples:
                    found = {self.key(run, name): value for name, value in run.scores(task, examples).items()}
                    scores[part] = scores.get(part, {}) | found
        if len(self.runs) > 1:
            scores |= {"history": self.history}
        if isinstance(self.feed, JointExamples) and self.finetuning.mixing.is_sequential:
            scores["forgetting"] = self.forgetting(self.feed.ends(self.finetuning.settings.batch))
        if self.stopped is not None:
            scores |= {"stopped": round(self.stopped / self.epoch_steps, 3)}
        return replace(self.best, scores=scores, learned=learned)

    def forgetting(self, ends: Sequence[int]) -> dict[str, dict[str, float]]:
        """The score of each task on dev right after its own training, and after that of all tasks."""
        moments = sorted(self.ends)
        after = {
            run.task.name: self.history[moments.index(min(end, self.steps))]
            for run, end in zip(self.runs, ends, strict=True)
        }
        last = self.history[-1]
        return {name: {"own": scores[name], "end": last[name]} for name, scores in after.items() if name in last}


def build(
    settings: Settled, parts: Parts, tasks: Sequence[Task], seed: int, guide: TaskGuide | None = None
) -> Network:  # fmt: skip
    """The pretrained model, unchanged, with new heads; with `task.scratch`, all weights random."""
    torch.manual_seed(seed & WORD)
    architecture = parts.architecture.for_task(settings.dropout)
    model = architecture.build(parts.vocabulary)
    heads: dict[str, Any] = {
        task.name: task.head(architecture, settings.before_head if task.dropout is None else task.dropout)
        for task in tasks
    }
    embedding = model.token_embedding
    if settings.lm_weight and embedding is not None:
        heads[RowLM.name] = RowLM(embedding)
    weights = dict.fromkeys(heads, 1.0) | {RowLM.name: settings.lm_weight}
    if guide:
        heads |= guide.heads(tasks[0], model)
        weights |= guide.weights(tasks[0])
    network = Network(model, heads, weights)
    if not settings.scratch:
        own = network.state_dict()
        tuned = [name for name in parts.weights if name.startswith("model.") and parts.architecture.is_tuned(name)]
        mine = {name: parts.weights[name] for name in tuned}
        put_weights(network, own | mine, parts.folder / WEIGHTS)
    return network


def optimizer_of(network: Network, task: Settled) -> torch.optim.Optimizer:
    """Over the trained parameters, with the learning rate of lower layers reduced by `task.layer_decay`."""
    architecture = cast(Architecture, network.model.settings)
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}  # by peak learning rate and decay
    for name, parameter in network.named_parameters():
        if task.frozen and architecture.is_pretrained(name):
            parameter.requires_grad_(False)
            continue
        steps = 0 if name.startswith("heads.") else architecture.decay_steps(name)
        key = task.learning_rate * task.layer_decay**steps, parameter.dim() > 1
        if name.endswith(".ngrams.weight"):
            key = NGRAM_RATE, False
        groups.setdefault(key, []).append(parameter)
    if not groups:
        raise SettingError(
            tr("task.frozen leaves nothing to train: this task has no weights of its own. Leave it out.")
        )
    described = [
        {"params": members, "weight_decay": task.decay if decays else 0.0, "peak": peak}
        for (peak, decays), members in groups.items()
    ]
    return task.optimizer.build_groups(described, task.learning_rate)
