"""From a pretrained model and labelled rows to a fine-tuned run folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.errors import FolderError, SettingError
from plmkit.files import write_json
from plmkit.loading import Parts, Task, read_parts, without_generator
from plmkit.run import FINETUNE, Machine, claim, read_run, write_run
from plmkit.settings import to_json
from plmkit.tasks.framing import Framed, frame_all
from plmkit.tasks.judging import spreads
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import Row, check_classes, check_trainable, classes_of, read_rows
from plmkit.tasks.settings import TaskSettings
from plmkit.tasks.trial import Exercise, Trial
from plmkit.training.checkpoint import WEIGHTS, checksum
from plmkit.training.device import choose_device, choose_dtype, set_threads
from plmkit.training.log import Log
from plmkit.training.pretrain import save_final
from plmkit.training.progress import Screen

LENGTH_STEP = 8


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


def finetune(order: Order, screen: Screen) -> dict[str, Any]:
    """Train once for each seed, keep the model that was best on dev, and score it."""
    parts = without_generator(read_parts(order.model))
    train_rows, dev_rows, test_rows = read_files(order)
    classes = () if order.kind.numeric else classes_of(train_rows)
    for rows, path in ((dev_rows, order.dev), (test_rows, order.test)):
        if path and classes:
            check_classes(rows, classes, path)
    device = choose_device(order.machine.device)
    choose_dtype(device, order.machine.dtype)  # refuses what this machine has not
    set_threads(order.machine.threads)
    framed = frame_all([(row.text, row.other) for row in train_rows], parts.tokenizer, parts.architecture.longest)
    task = settle_task(order, classes, framed, parts)
    framed = frame_all([(row.text, row.other) for row in train_rows], parts.tokenizer, task.length)
    tell_cut(framed, task.length, screen)
    ready_folder(order.out)  # everything that can be wrong with the order has been looked at
    about = describe(order, parts, task)
    write_run(order.out, FINETUNE, {**about, "state": "unfinished"})
    parts.tokenizer.save(order.out)
    exercise = Exercise(
        parts=parts, task=task, settings=order.task, machine=order.machine, framed=framed,
        train=train_rows, dev=dev_rows, test=test_rows, out=order.out,
    )  # fmt: skip
    outcomes = []
    with Log(order.out) as log:
        for seed in range(order.seed, order.seed + order.seeds):
            name = f"seed {seed}" if order.seeds > 1 else "fine-tuning"
            outcomes.append(Trial(exercise, seed, log).run(name, screen))
    best = max(outcomes, key=lambda outcome: outcome.choice)
    runs = [outcome.scores for outcome in outcomes]
    result = {**best.scores, "seeds": runs, "spread": spreads(runs)}
    save_final(order.out, best.weights)
    write_json(order.out / "scores.json", result)
    about |= {"state": "finished", "result": result, "checksum": checksum(order.out / WEIGHTS)}
    write_run(order.out, FINETUNE, about)
    return about


def read_files(order: Order) -> tuple[list[Row], list[Row], list[Row]]:
    kind = order.kind
    rows = [
        read_rows(path, paired=kind.paired, numeric=kind.numeric) if path else []
        for path in (order.train, order.dev, order.test)
    ]
    check_trainable(rows[0], order.train)
    return rows[0], rows[1], rows[2]


def ready_folder(out: Path) -> None:
    """A fine-tuning that was stopped is begun again; anything else in the folder is left alone."""
    about = read_run(out)
    if about is None:
        claim(out)
    elif about["kind"] != FINETUNE or about["state"] == "finished":
        raise FolderError(f"--out {out} holds a finished {about['kind']} run. Name another folder.")


def settle_task(order: Order, classes: tuple[str, ...], framed: list[Framed], parts: Parts) -> Task:
    """Rows as long as the training rows need, unless a length is set."""
    longest = parts.architecture.longest
    if order.task.length and order.task.length > longest:
        raise SettingError(f"task.length={order.task.length}, but {order.model} reads {longest} tokens at most.")
    needed = -(-max(len(row.tokens) for row in framed) // LENGTH_STEP) * LENGTH_STEP
    length = order.task.length or min(needed, longest)
    return Task(kind=order.kind, classes=classes, pooling=order.task.pooling, length=length)


def tell_cut(framed: Sequence[Framed], length: int, screen: Screen) -> None:
    if cut := sum(row.cut > 0 for row in framed):
        screen.say(
            f"{cut:,} of {len(framed):,} texts are longer than {length} tokens and lose their tail "
            "(of a pair, the longer text loses first)."
        )


def describe(order: Order, parts: Parts, task: Task) -> dict[str, Any]:
    return {
        "model": str(order.model),
        "task_kind": order.kind.name,
        "task": to_json(order.task),
        "run": to_json(order.machine),
        "architecture": to_json(parts.architecture.for_task(order.task.dropout)),
        "classes": list(task.classes),
        "length": task.length,
        "files": {name: str(path) if (path := getattr(order, name)) else None for name in ("train", "dev", "test")},
        "seed": order.seed,
    }
