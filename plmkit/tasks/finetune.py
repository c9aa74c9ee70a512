"""From a pretrained model and labelled rows to a fine-tuned run folder."""

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.config.machine import Machine
from plmkit.config.settings import to_json
from plmkit.data.reading.columns import Columns, Search
from plmkit.errors import FolderError, SettingError
from plmkit.inference.loading import Parts, Task, read_parts, without_generator
from plmkit.storage.files import alone, new_folder, sweep, write_json
from plmkit.storage.manifest import check
from plmkit.storage.tensors import checksum, load_tensors, save_tensors
from plmkit.tasks.checking import check_tokens, tell_files
from plmkit.tasks.framing import Framed, frame_readings, readings_of
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.judging import baseline, spreads
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import Labelled, check_classes, check_trainable, classes_of, read_labelled
from plmkit.tasks.settings import Settled, TaskSettings
from plmkit.tasks.telling import tell_rows
from plmkit.tasks.trial import Exercise, Outcome, Trial
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_device, computing, keep_dtype, name_of
from plmkit.training.log import Log
from plmkit.training.pretrain import save_final
from plmkit.training.run_folder import FINETUNE, WEIGHTS, claim, differences, read_run, seal_run, write_run
from plmkit.training.threads import Threads

LENGTH_STEP = 8
FILES = ("train", "dev", "test")
SEEDS, OUTCOME = "seeds", "outcome.json"  # what finished seeds came to, until all are


@dataclass(frozen=True, kw_only=True)
class Order:
    """What `plm finetune` was asked for."""

    model: Path
    kind: Kind
    train: Path
    dev: Path | None
    test: Path | None
    out: Path
    task: TaskSettings
    machine: Machine
    seed: int = 0
    seeds: int = 1
    columns: Columns = Columns()  # where to read text and label


def finetune(order: Order, screen: Screen) -> dict[str, Any]:
    """Train once for each seed, keep the model that was best on dev, and score it."""
    parts = with_task_tokens(without_generator(read_parts(order.model)))
    settings = order.task.settled(parts.architecture, parts.tuning)
    files = read_files(order, screen)
    train_rows, dev_rows, test_rows = (files[name].rows if name in files else [] for name in FILES)
    classes = () if order.kind.numeric or order.kind.readings == "each" else classes_of(train_rows)
    for rows, path in ((dev_rows, order.dev), (test_rows, order.test)):
        if path and classes:
            check_classes(rows, classes, path)
    device = choose_device(order.machine.device)
    threads = Threads(order.machine.threads, screen.say)
    dtype = keep_dtype(device, order.machine.dtype, (read_run(order.out) or {}).get("dtype"), screen.say)
    asked = [readings_of(row.text, row.other, row.choices, order.kind) for row in train_rows]
    choosing = order.kind.readings == "each"
    framed = frame_readings(asked, parts.tokenizer, length_of(order, parts.architecture.longest), choosing)
    task = settle_task(order, classes, framed, parts.architecture.longest)
    about = {**describe(order, settings, parts, task, files["train"].columns), "dtype": name_of(dtype)}
    earlier = ready_folder(order.out, about)  # everything that can be wrong with the order has been looked at
    if earlier and (order.out / WEIGHTS).is_file():
        screen.say(f"{order.out} holds this fine-tuning, finished. Name another --out to do it again.")
        return earlier
    if earlier:
        screen.say(f"{order.out} holds this fine-tuning, but {WEIGHTS} is missing: it is done again.")
    screen.say(computing(device, dtype))
    tell_files(list(files.values()), order.kind, screen.say)
    check_tokens(framed, files["train"], parts.tokenizer.vocabulary, screen.say)
    tell_rows(train_rows, framed, order.kind, task.length, parts.tokenizer.vocabulary, screen)
    exercise = Exercise(
        parts=parts, task=task, settings=settings, machine=order.machine, framed=framed,
        train=train_rows, dev=dev_rows, test=test_rows, out=order.out, device=device, dtype=dtype, threads=threads,
    )  # fmt: skip
    with alone(order.out):
        if ready_folder(order.out, about) != earlier:  # now that nobody else can write
            raise FolderError(
                f"Another process has trained into {order.out} since this one began.\n"
                "Run the same command again: it continues from what is there now."
            )
        return carry_out(order, exercise, about, screen)


def carry_out(order: Order, exercise: Exercise, about: dict[str, Any], screen: Screen) -> dict[str, Any]:
    """One trial for each seed, but for those that an earlier call finished; the folder says when it is complete."""
    write_run(order.out, FINETUNE, {**about, "state": "unfinished"})
    sweep(order.out)
    exercise.parts.tokenizer.save(order.out)
    seal_run(order.out, {**about, "state": "unfinished"})
    outcomes: list[Outcome] = []
    kept = order.out / SEEDS
    begun = time.perf_counter()
    with Log(order.out) as log:
        for number, seed in enumerate(range(order.seed, order.seed + order.seeds), start=1):
            name = f"seed {seed}, {number} of {order.seeds}" if order.seeds > 1 else "fine-tuning"
            outcome = load_outcome(kept / str(seed))
            if outcome is None:
                try:
                    outcome = Trial(exercise, seed, log).run(name, screen, order.seeds - number)
                    save_outcome(kept / str(seed), outcome)
                except KeyboardInterrupt:
                    before = "; the seeds before it are kept" if outcomes else ""
                    screen.say(f"What seed {seed} has learnt is lost, and the same command begins it again{before}.")
                    raise
            outcomes.append(outcome)
    best = max(outcomes, key=lambda outcome: outcome.choice)
    runs = [outcome.scores for outcome in outcomes]
    beside = {
        part: vars(baseline(exercise.train, rows, order.kind))
        for part, rows in (("dev", exercise.dev), ("test", exercise.test))
        if rows
    }
    result = {**best.scores, "seeds": runs, "spread": spreads(runs), "baseline": beside}
    save_final(order.out, best.weights)
    write_json(order.out / "scores.json", result)
    about |= {"state": "finished", "result": result, "checksum": checksum(order.out / WEIGHTS)}
    about |= {"seconds": round(time.perf_counter() - begun, 1)}
    write_run(order.out, FINETUNE, about)
    shutil.rmtree(kept, ignore_errors=True)
    seal_run(order.out, about)
    return about


def save_outcome(folder: Path, outcome: Outcome) -> None:
    with new_folder(folder) as partial:
        save_tensors(partial / WEIGHTS, outcome.weights)
        told = {"choice": outcome.choice, "scores": outcome.scores, "checksum": checksum(partial / WEIGHTS)}
        write_json(partial / OUTCOME, told)


def load_outcome(folder: Path) -> Outcome | None:
    """What a seed came to in a call that was stopped later; nothing where it is not whole."""
    try:
        told = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        if checksum(folder / WEIGHTS) != told["checksum"]:
            return None
        return Outcome(choice=told["choice"], scores=told["scores"], weights=load_tensors(folder / WEIGHTS))
    except (OSError, ValueError, KeyError):
        return None


def read_files(order: Order, screen: Screen) -> dict[str, Labelled]:
    """Each file that is given; columns of the training rows are looked for in the others too."""
    train = read_labelled(order.train, order.kind, Search(named=order.columns), screen.say)
    search = Search(named=order.columns, learnt=train.columns, said=True)
    paths = {name: getattr(order, name) for name in FILES[1:]}
    files = {"train": train} | {
        name: read_labelled(path, order.kind, search, screen.say) for name, path in paths.items() if path
    }
    if order.kind.readings != "each":
        check_trainable(train.rows, order.train)
    return files


def ready_folder(out: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The fine-tuning that the folder holds, if it is this one and finished; another one is left alone."""
    check(out, optional=(WEIGHTS,))
    about = read_run(out)
    if about is None:
        claim(out)
        return None
    if about["kind"] != FINETUNE:
        raise FolderError(f"--out {out} holds a {about['kind']} run. Name another folder.")
    # the machine decides nothing that is learnt; of contents, whether they changed is told, not their checksums
    compared = [name for name in wanted if name not in ("run", "contents", "dtype")]
    about.setdefault("columns", wanted["columns"])  # an older version did not keep them
    changed = differences({name: about.get(name) for name in compared}, {name: wanted[name] for name in compared})
    changed += rewritten(about, wanted)
    if changed:
        raise FolderError(
            f"--out {out} holds another fine-tuning: {'; '.join(changed[:3])}.\n"
            "Give the same command to go on with it, or name another --out."
        )
    return about if about["state"] == "finished" else None


def rewritten(about: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Files of the same name with other contents; where the name is another, that has been told."""
    old = about.get("contents") or {}
    return [
        f"{path} has changed since"
        for name, path in wanted["files"].items()
        if path == (about.get("files") or {}).get(name) and old.get(name) != wanted["contents"][name]
    ]


def length_of(order: Order, longest: int) -> int:
    """Rows as long as the model reads, unless a length is set: what is asked later may be longer than what taught."""
    if order.task.length and order.task.length > longest:
        raise SettingError(f"task.length={order.task.length}, but {order.model} reads {longest} tokens at most.")
    return order.task.length or longest


def settle_task(order: Order, classes: tuple[str, ...], framed: list[Framed], longest: int) -> Task:
    length = length_of(order, longest)
    if order.task.pooling == "concat" and not order.task.length:  # joins all positions: no more than the rows need
        length = min(-(-max(row.longest for row in framed) // LENGTH_STEP) * LENGTH_STEP, longest)
    return Task(kind=order.kind, classes=classes, pooling=order.task.pooling, length=length)


def describe(order: Order, settings: Settled, parts: Parts, task: Task, columns: Columns) -> dict[str, Any]:
    return {
        "model": str(order.model),
        "step": parts.step,
        "task_kind": order.kind.name,
        "task": to_json(settings),
        "tuning": to_json(parts.tuning),
        "run": to_json(order.machine),
        "architecture": to_json(parts.architecture.for_task(settings.dropout)),
        "classes": list(task.classes),
        "length": task.length,
        "columns": to_json(columns),
        "files": {name: str(path) if (path := getattr(order, name)) else None for name in FILES},
        "contents": {name: checksum(path) if (path := getattr(order, name)) else None for name in FILES},
        "seed": order.seed,
        "seeds": order.seeds,
    }
