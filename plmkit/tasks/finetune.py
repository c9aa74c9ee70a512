"""From a pretrained model and labelled rows to a fine-tuned run folder."""

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from plmkit.architectures.features import FeatureModel
from plmkit.config.machine import Machine
from plmkit.config.settings import to_json
from plmkit.data.reading.columns import Columns, Search
from plmkit.errors import FolderError, SettingError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.inference.reader import check_reads_text
from plmkit.language import tr
from plmkit.storage.files import new_folder, sweep, write_json
from plmkit.storage.tensors import WEIGHTS, checksum, load_tensors, save_tensors
from plmkit.tasks.contract import Example, Labelled, Task, stored
from plmkit.tasks.features import FILE, precompute, with_features
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.registry import LABEL, with_named_head
from plmkit.tasks.remarks import check_tokens, remark_files, report_examples
from plmkit.tasks.rows import read_labelled
from plmkit.tasks.scores import over_seeds
from plmkit.tasks.seed_run import Finetuning, SeedResult, SeedRun, TaskData, build
from plmkit.tasks.settings import Settled, TaskSettings
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_device, computing, keep_dtype, name_of
from plmkit.training.processes import check_alone
from plmkit.training.run_folder import RunFolder
from plmkit.training.run_record import FINISHED, FinetuneRecord
from plmkit.training.threads import Threads
from plmkit.training.watch import Log

LENGTH_STEP = 8
FILES = ("train", "dev", "test")
SEEDS, OUTCOME = "seeds", "outcome.json"  # results of finished seeds, until all are


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


def finetune(request: FinetuneRequest, screen: Screen) -> FinetuneRecord:
    """Train once per seed, keep the model that was best on dev, and score it."""
    check_alone("plm finetune")
    parts = with_task_tokens(without_generator(read_parts(request.model, screen.say)))
    check_reads_text(parts.architecture, request.model, tr("be fine-tuned on texts"))
    settings = request.settings.settled(parts.architecture, parts.tuning)
    parts = with_features(parts, settings.features)
    files = read_files(request, screen)
    task = task_from(request, files)
    device = choose_device(request.machine.device)
    threads = Threads(request.machine.threads, screen.say)
    found, width = RunFolder(request.out).record, parts.architecture.width
    dtype = keep_dtype(device, request.machine.dtype, found.dtype if found else None, screen.say, width)
    train = task.frame(files["train"].rows, parts.tokenizer, length_of(request, parts.architecture.max_length))
    task = replace(task, length=settled_length(request, train, parts.architecture.max_length))
    record = replace(record_of(request, settings, parts, task), dtype=name_of(dtype))
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
    remark_files(list(files.values()), task, screen.say)
    check_tokens(train, files["train"], parts.tokenizer.vocabulary, screen.say)
    report_examples(train, task, parts.tokenizer.vocabulary, screen)
    dev, test = (
        task.frame(files[name].rows, parts.tokenizer, task.length) if name in files else [] for name in FILES[1:]
    )
    finetuning = Finetuning(
        parts=parts, data=TaskData(task=task, train=train, dev=dev, test=test), settings=settings,
        machine=request.machine, out=request.out, device=device, dtype=dtype, threads=threads,
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
        return carry_out(request, finetuning, folder, record, screen)


def carry_out(
    request: FinetuneRequest, finetuning: Finetuning, folder: RunFolder, record: FinetuneRecord, screen: Screen
) -> FinetuneRecord:
    """Train each seed that an earlier call has not finished; the folder says when it is complete."""
    folder.write(record)
    sweep(request.out)
    finetuning.parts.tokenizer.save(request.out)
    folder.seal()
    results: list[SeedResult] = []
    kept = request.out / SEEDS
    started = time.perf_counter()
    finetuning = with_precomputed(finetuning, request.seed, kept)
    data = finetuning.data
    with Log(request.out) as log:
        for number, seed in enumerate(range(request.seed, request.seed + request.seeds), start=1):
            name = (
                tr("seed {seed}, {number} of {seeds}", seed=seed, number=number, seeds=request.seeds)
                if request.seeds > 1
                else tr("fine-tuning")
            )
            result = load_result(kept / str(seed), data.task)
            if result is None:
                try:
                    result = SeedRun(finetuning, seed, log).run(name, screen, request.seeds - number)
                    save_result(kept / str(seed), result)
                except KeyboardInterrupt:
                    screen.say(
                        tr(
                            "Seed {seed} was interrupted; the same command starts it again and keeps finished seeds.",
                            seed=seed,
                        )
                        if results
                        else tr("Seed {seed} was interrupted; the same command starts it again.", seed=seed)
                    )
                    raise
            results.append(result)
    best = max(results, key=lambda result: result.choice)
    runs = [result.scores for result in results]
    summary = {**best.scores, "seeds": runs, "over_seeds": over_seeds(runs), "baseline": baselines(data)}
    saved = folder.save_weights(best.weights)
    write_json(request.out / "scores.json", summary)
    seconds = round(time.perf_counter() - started, 1)
    record = replace(record, state=FINISHED, result=summary, checksum=saved, seconds=seconds)
    folder.write(record)
    shutil.rmtree(kept, ignore_errors=True)
    folder.seal()
    return record


def with_precomputed(finetuning: Finetuning, seed: int, folder: Path) -> Finetuning:
    """With the layers of the frozen network for all examples, if the settings ask for them, once for all epochs."""
    features, data, parts = finetuning.settings.features, finetuning.data, finetuning.parts
    if features is None or features.place == "none" or not features.precomputed:
        return finetuning
    folder.mkdir(exist_ok=True)
    model = build(finetuning.settings, parts, data.task, seed).model
    train, dev, test = precompute(
        cast(FeatureModel, model), parts.tokenizer.vocabulary, (data.train, data.dev, data.test), folder / FILE,
        finetuning.device,
    )  # fmt: skip
    return replace(finetuning, data=replace(data, train=train, dev=dev, test=test))


def task_from(request: FinetuneRequest, files: dict[str, Labelled]) -> Task:
    """The task with what its training rows determine; the other files must fit it."""
    train = files["train"]
    task = replace(request.task, pooling=request.settings.pooling, columns=train.columns)
    task = task.learn(train.rows, request.train)
    for name in FILES[1:]:
        if name in files:
            task.check(files[name].rows, files[name].path)
    return task


def baselines(data: TaskData) -> dict[str, Any]:
    """For dev and test the score of an answer that does not depend on the text."""
    found = {part: data.task.baseline(data.rows("train"), data.rows(part)) for part in FILES[1:] if data.rows(part)}
    return {part: vars(baseline) for part, baseline in found.items() if baseline}


def save_result(folder: Path, result: SeedResult) -> None:
    with new_folder(folder) as partial:
        save_tensors(partial / WEIGHTS, result.weights)
        record = {"choice": result.choice, "scores": result.scores, "checksum": checksum(partial / WEIGHTS)}
        write_json(partial / OUTCOME, record)


def load_result(folder: Path, task: Task) -> SeedResult | None:
    """The result of a seed that an interrupted call finished; None if it is incomplete."""
    try:
        record = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        if checksum(folder / WEIGHTS) != record["checksum"]:
            return None
        weights = with_named_head(load_tensors(folder / WEIGHTS), LABEL, task.name)
        return SeedResult(choice=record["choice"], scores=record["scores"], weights=weights)
    except (OSError, ValueError, KeyError):
        return None


def read_files(request: FinetuneRequest, screen: Screen) -> dict[str, Labelled]:
    """The given files; the columns of the training rows are preferred in the others."""
    train = read_labelled(request.train, request.task, Search(named=request.columns), screen.say)
    search = Search(named=request.columns, trained=train.columns, reported=True)
    paths = {"dev": request.dev, "test": request.test}
    return {"train": train} | {
        name: read_labelled(path, request.task, search, screen.say) for name, path in paths.items() if path
    }


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
                differences="; ".join(map(str, changed[:3])),
            )
        )
    return record if record.is_finished else None


def length_of(request: FinetuneRequest, max_length: int) -> int:
    """The set length, or the model's maximum: later texts may be longer than the training rows."""
    if request.settings.length and request.settings.length > max_length:
        raise SettingError(
            tr(
                "task.length={length}, but the maximum length of {model} is {max_length} tokens.",
                length=request.settings.length,
                model=request.model,
                max_length=max_length,
            )
        )
    return request.settings.length or max_length


def settled_length(request: FinetuneRequest, train: list[Example], max_length: int) -> int:
    """Tokens per row; with concat pooling, no more than the training rows need."""
    if request.settings.pooling == "concat" and not request.settings.length:
        return min(-(-max(example.length for example in train) // LENGTH_STEP) * LENGTH_STEP, max_length)
    return length_of(request, max_length)


def record_of(request: FinetuneRequest, settings: Settled, parts: Parts, task: Task) -> FinetuneRecord:
    """What run.json says while the fine-tuning is under way."""
    paths = {"train": request.train, "dev": request.dev, "test": request.test}
    return FinetuneRecord(
        model=str(request.model),
        step=parts.step,
        tasks=(stored(task),),
        task=to_json(settings),
        tuning=parts.tuning,
        run=request.machine,
        architecture=parts.architecture.for_task(settings.dropout),
        files={name: str(path) if path else None for name, path in paths.items()},
        contents={name: checksum(path) if path else None for name, path in paths.items()},
        seed=request.seed,
        seeds=request.seeds,
    )
