"""From a pretrained model and labelled rows to a fine-tuned run folder."""

import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.features import FeatureModel
from plmkit.config.machine import Machine
from plmkit.config.settings import to_json
from plmkit.data.reading.columns import Columns
from plmkit.errors import FolderError, PlmError, SettingError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.language import tr
from plmkit.storage.files import sweep, write_json
from plmkit.storage.tensors import WEIGHTS, checksum
from plmkit.tasks.contract import Baseline, Task, stored
from plmkit.tasks.features import FILE, precompute, with_features
from plmkit.tasks.floor import Mix, as_used
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.mixing import Mixing
from plmkit.tasks.ngrams import Ngrams, save_ngrams
from plmkit.tasks.remarks import check_tokens, remark_files, report_examples
from plmkit.tasks.scores import over_seeds
from plmkit.tasks.seed_result import SEEDS, SeedResult, load_result, save_result
from plmkit.tasks.seed_run import Finetuning, SeedRun, build
from plmkit.tasks.settings import Settled, TaskSettings, few_steps, for_several, with_task_embedding
from plmkit.tasks.taking_up import Taken, TaskFiles, TaskGuide, taken_up
from plmkit.tasks.task_list import TaskList
from plmkit.tasks.task_run import TaskData
from plmkit.tasks.trials import Search, grid
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_device, computing, keep_dtype, name_of
from plmkit.training.processes import check_alone
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FINISHED, FinetuneRecord
from plmkit.training.threads import Threads
from plmkit.training.watch import Log

FILES = ("train", "dev", "test")


@dataclass(frozen=True, kw_only=True)
class Searching:
    """`--search`, and how long it may take."""

    minutes: float | None = None  # in total; None: all trials

    @classmethod
    def given(cls, search: bool, minutes: float | None) -> Self | None:
        """From the two options; None: no search."""
        if minutes is None:
            return cls() if search else None
        if not search:
            raise SettingError(
                tr(
                    "--minutes is the time for --search, which tries several settings. Add it, or leave --minutes out: "
                    "--epochs says how long to fine-tune."
                )
            )
        if not 0 < minutes < math.inf:
            raise SettingError(
                tr("{name} must be a finite number above 0; found {value:g}.", name="--minutes", value=minutes)
            )
        return cls(minutes=minutes)


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest:
    """The arguments of `plm finetune`."""

    model: Path
    task: Task
    train: Path
    dev: Path | None
    test: Path | None
    out: Path
    settings: TaskSettings
    machine: Machine
    seed: int = 0
    seeds: int = 1
    columns: Columns = Columns()  # where to read text and label
    search: Searching | None = None  # try several settings
    others: tuple[TaskFiles, ...] = ()  # tasks that are trained with it
    mixing: Mixing = Mixing()  # of the batches of all tasks
    contrast: bool = False  # one task, with the head and optimizer of a joint fine-tuning, to compare with it
    guide: TaskGuide | None = None  # in distillation
    gaps: bool = False  # score a sample of the training rows too, to compare with dev; several tasks always do

    @classmethod
    def of(cls, given: TaskList, **others: Any) -> Self:
        """A request for one task, or for several that are trained together."""
        first = given.tasks[0]
        return cls(
            task=first.task, train=first.train, dev=first.dev, test=first.test, columns=first.columns,
            others=given.tasks[1:], mixing=given.mixing, **others,
        )  # fmt: skip

    @property
    def tasks(self) -> tuple[TaskFiles, ...]:
        own = TaskFiles(task=self.task, train=self.train, dev=self.dev, test=self.test, columns=self.columns)
        return (own, *self.others)

    @property
    def is_joint(self) -> bool:
        return bool(self.others) or self.contrast

    @property
    def scores_train(self) -> bool:
        return self.gaps or self.is_joint


def finetune(request: FinetuneRequest, screen: Screen) -> FinetuneRecord:
    """Train once per seed, keep the model that was best on dev, and score it."""
    started = time.monotonic()
    check_alone("plm finetune")
    parts = request.guide.student if request.guide else read_parts(request.model, screen.say)
    parts = with_task_tokens(without_generator(parts))
    chosen = with_task_embedding(parts.architecture, request.settings.task_embedding)
    parts = replace(parts, architecture=chosen)
    for files in request.tasks:
        check_supported(files.task, parts.architecture, request.model)
    pooling = request.task.pooling if not request.others else "first"
    tuning = for_several(parts.tuning) if request.is_joint else parts.tuning
    settings = request.settings.settled(parts.architecture, tuning, pooling)
    if request.mixing.is_sequential and request.settings.ngrams is None:
        settings = replace(settings, ngrams=False)  # a linear model forgets nothing, and would hide what a network does
    parts = with_features(parts, settings.features)
    taken = [taken_up(files, request, settings, parts, screen) for files in request.tasks]
    settings = checked_with_dev(request, settings, taken)
    settings = with_dropout(request, settings, taken, few_steps(parts.architecture.width))
    trials = grid(request.settings, settings.learning_rate, taken) if request.search else []
    device = choose_device(request.machine.device)
    threads = Threads(request.machine.threads, screen.say)
    found, width = RunFolder(request.out).record, parts.architecture.width
    dtype = keep_dtype(device, request.machine.dtype, found.dtype if found else None, screen.say, width)
    record = replace(record_of(request, settings, parts, [each.task for each in taken]), dtype=name_of(dtype))
    folder = RunFolder(request.out)
    earlier = finished_run(folder, record)  # all checks of the request come before this
    if earlier and folder.has_weights:
        screen.say(tr("{out} holds this fine-tuning, finished. Name another --out to run it again.", out=request.out))
        return earlier
    if earlier:
        screen.say(
            tr(
                "{out} holds this fine-tuning, but {weights} is missing, so it runs again.",
                out=request.out,
                weights=WEIGHTS,
            )
        )
    screen.say(computing(device, dtype, width))
    for each in taken:
        if len(taken) > 1:
            screen.say(tr("{task}:", task=each.task.name))
        if each.said:
            screen.say(each.said)
        remark_files(list(each.files.values()), each.task, screen.say)
        check_tokens(each.train, each.files["train"], parts.tokenizer.vocabulary, screen.say)
        report_examples(each.train, each.task, parts.tokenizer.vocabulary, screen)
    finetuning = Finetuning(
        parts=parts, data=tuple(each.data(parts.tokenizer) for each in taken), settings=settings,
        machine=request.machine, out=request.out, device=device, dtype=dtype, threads=threads, mixing=request.mixing,
        guide=request.guide,
    )  # fmt: skip
    with folder.lock():
        if finished_run(RunFolder(request.out), record) != earlier:  # now that nobody else can write
            raise FolderError(
                tr(
                    "Another process has written to {out} since this one started.\n"
                    "Run the same command again to continue from there.",
                    out=request.out,
                )
            )
        if request.search is None:
            return carry_out(finetuning, folder, record, screen)
        return Search(
            finetuning=finetuning, taken=taken, trials=trials, minutes=request.search.minutes, folder=folder,
            record=record, started=started, carry_out=carry_out, screen=screen,
        ).run()  # fmt: skip


def check_supported(task: Task, architecture: Architecture, model: Path) -> None:
    if why := task.unsupported(architecture):
        raise PlmError(
            tr(
                "{model} cannot be fine-tuned on --task {kind}: {why}.\n"
                "`plm recipes NAME` lists the tasks of a recipe.",
                model=model,
                kind=task.kind,
                why=why,
            )
        )


def checked_with_dev(request: FinetuneRequest, settings: Settled, taken: Sequence[Taken]) -> Settled:
    """Refuse settings that would have no effect; what is held out is a setting of the run only if something is."""
    if request.search and not all("dev" in each.files for each in taken):
        raise SettingError(tr("--search compares settings on dev rows, and a task has none: give --dev FILE."))
    given = [name for name in ("patience", "evaluations") if vars(settings)[name] != vars(TaskSettings())[name]]
    sequential = request.mixing.is_sequential and len(taken) > 1
    if given and (sequential or not all("dev" in each.files for each in taken)):
        raise SettingError(
            tr("task.{name} has no effect with order = sequential, which keeps the last epoch.", name=given[0])
            if sequential
            else tr("task.{name} needs dev rows for every task: give --dev FILE, or leave it out.", name=given[0])
        )
    if request.settings.dev_share is not None and all(files.dev for files in request.tasks):
        raise SettingError(
            tr("{name} has no effect with {choice}. Leave one of them out.", name="task.dev_share", choice="--dev")
        )
    held = any("dev" in each.files and not files.dev for each, files in zip(taken, request.tasks, strict=True))
    return replace(settings, dev_share=settings.dev_share if held else None)


def with_dropout(request: FinetuneRequest, settings: Settled, taken: Sequence[Taken], few: int) -> Settled:
    """Without dropout, unless it was asked for, if a single task has rows for few steps only."""
    if request.settings.dropout is not None or request.is_joint:
        return settings
    rows = (settings.train_share or 1.0) * len(taken[0].train)
    steps = settings.epochs * math.ceil(rows / settings.batch)
    return replace(settings, dropout=0.0, head_dropout=request.settings.head_dropout) if steps < few else settings


def carry_out(finetuning: Finetuning, folder: RunFolder, record: FinetuneRecord, screen: Screen) -> FinetuneRecord:
    """Train each seed that an earlier call has not finished; the folder says when it is complete."""
    out, seeds = finetuning.out, record.seeds
    folder.write(record)
    sweep(out)
    finetuning.parts.tokenizer.save(out)
    folder.seal()
    results: list[SeedResult] = []
    kept = out / SEEDS
    started = time.perf_counter()
    finetuning = with_precomputed(finetuning, record.seed, kept)
    preparing = time.perf_counter() - started
    data = finetuning.data
    with Log(out, None) as log:
        for number, seed in enumerate(range(record.seed, record.seed + seeds), start=1):
            name = (
                tr("seed {seed}, {number} of {seeds}", seed=seed, number=number, seeds=seeds)
                if seeds > 1
                else tr("fine-tuning")
            )
            result = load_result(kept / str(seed), data[0].task)
            if result is None:
                run = SeedRun(finetuning, seed, log)
                try:
                    result = run.run(name, screen, seeds - number)
                    save_result(kept / str(seed), result)
                except KeyboardInterrupt:
                    screen.say(interruption(run, bool(results)))
                    raise
                shutil.rmtree(run.folder, ignore_errors=True)
            else:
                screen.say(tr("Seed {seed} was finished by an earlier call and is kept.", seed=seed))
            results.append(result)
    best = max(results, key=lambda result: result.choice)
    runs = [result.scores for result in results]
    summary = {**best.scores, "seeds": runs, "over_seeds": over_seeds(runs), **baselines(data)}
    if floors := {one.task.name: one.floor.summary(one.scored) for one in data if one.floor}:
        summary["linear"] = floors
    weights = with_used_ngrams(out, data, best)
    if finetuning.guide:  # what only the teacher needed
        stems = tuple(f"heads.{task.task.name}." for task in data)
        weights = {name: own for name, own in weights.items() if name.startswith(("model.", *stems))}
    saved = folder.save_weights(weights)
    write_json(out / "scores.json", summary)
    seconds = round(preparing + sum(result.seconds for result in results), 1)
    record = replace(record, state=FINISHED, result=summary, checksum=saved, seconds=seconds, learned=best.learned)
    folder.write(record)
    shutil.rmtree(kept, ignore_errors=True)
    folder.seal()
    return record


def interruption(run: SeedRun, others: bool) -> str:
    """What the same command would do; `others`: there are finished seeds."""
    if run.saved:
        return tr(
            "Seed {seed} was interrupted; the same command continues it from step {step:,}.",
            seed=run.seed,
            step=run.saved,
        )
    if others:
        return tr(
            "Seed {seed} was interrupted; the same command starts it again and keeps finished seeds.", seed=run.seed
        )
    return tr("Seed {seed} was interrupted; the same command starts it again.", seed=run.seed)


def with_used_ngrams(out: Path, data: Sequence[TaskData], best: SeedResult) -> dict[str, Tensor]:
    """The weights to keep: n-grams that did not help are left out, the others are written to a file of their own."""
    weights, kept = best.weights, dict[str, Ngrams]()
    for one in data:
        if one.task.ngrams:
            task, weights = as_used(one.task, weights, Mix(**best.scores["mix"][one.task.name]))
            kept |= {task.name: task.ngrams} if task.ngrams else {}
    save_ngrams(out, kept)
    return weights


def with_precomputed(finetuning: Finetuning, seed: int, folder: Path) -> Finetuning:
    """With the layers of the frozen network for all examples, if the settings ask for them, once for all epochs."""
    features, data, parts = finetuning.settings.features, finetuning.data, finetuning.parts
    if features is None or features.place == "none" or not features.precomputed:
        return finetuning
    folder.mkdir(exist_ok=True)
    model = build(finetuning.settings, parts, [one.task for one in data], seed).model
    made = []
    for number, one in enumerate(data):
        train, dev, test, sample = precompute(
            cast(FeatureModel, model), parts.tokenizer.vocabulary, (one.train, one.dev, one.test, one.sample),
            folder / f"{number}-{FILE}", finetuning.device,
        )  # fmt: skip
        made.append(replace(one, train=train, dev=dev, test=test, sample=sample))
    return replace(finetuning, data=tuple(made))


def baselines(data: Sequence[TaskData]) -> dict[str, Any]:
    """For dev and test the scores of answers that need no network: the one to beat, and all where there are several."""
    found: dict[str, tuple[Baseline, ...]] = {}
    for one in data:
        stem = f"{one.task.name}." if len(data) > 1 else ""
        found |= {f"{stem}{part}": one.task.baselines(one.rows("train"), one.rows(part)) for part in one.scored}
    several = {place: [vars(one) for one in every] for place, every in found.items() if len(every) > 1}
    first = {place: vars(every[0]) for place, every in found.items() if every}
    return {"baseline": first, **({"baselines": several} if several else {})}


def finished_run(folder: RunFolder, wanted: FinetuneRecord) -> FinetuneRecord | None:
    """The fine-tuning that the folder holds, if it is this one and finished; another one is left alone."""
    folder.check()
    record = folder.record
    if record is None:
        folder.claim()
        return None
    if not isinstance(record, FinetuneRecord):
        raise FolderError(tr("--out {out} holds a {kind} run. Name another folder.", out=folder.path, kind=record.kind))
    if changed := folder.differences(wanted):
        raise FolderError(
            tr(
                "--out {out} holds another fine-tuning: {differences}.\n"
                "Run the same command to continue it, or name another --out.",
                out=folder.path,
                differences=tr("; ").join(map(str, changed[:3])),
            )
        )
    return record if record.is_finished else None


def record_of(request: FinetuneRequest, settings: Settled, parts: Parts, tasks: Sequence[Task]) -> FinetuneRecord:
    """What run.json says while the fine-tuning is under way."""
    stems = [f"{task.name}." if len(tasks) > 1 else "" for task in tasks]
    asked = to_json(settings) | ({"mixing": to_json(request.mixing)} if len(tasks) > 1 else {})
    kinds = tuple(stored(task) for task in tasks)
    search = request.search and {"minutes": request.search.minutes, "task": asked, "tasks": list(kinds)}
    paths = {
        f"{stem}{name}": path
        for stem, files in zip(stems, request.tasks, strict=True)
        for name, path in files.paths.items()
    }
    return FinetuneRecord(
        model=str(request.model),
        step=parts.step,
        tasks=kinds,
        task=asked,
        search=search or None,
        tuning=parts.tuning,
        run=request.machine,
        architecture=parts.architecture.for_task(settings.dropout),
        files={name: str(path) if path else None for name, path in paths.items()},
        contents={name: checksum(path) if path else None for name, path in paths.items()},
        seed=request.seed,
        seeds=request.seeds,
        teacher=request.guide.as_json if request.guide else None,
    )
