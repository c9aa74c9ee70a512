"""Several small sets at once against each alone, with few labels and all, and what a new task gains from it (MT-DNN).

python -m benchmarks.multitask --data FOLDER --model runs/mine --unseen snli --out FOLDER

The data folder has a folder per set, with train.tsv and test.tsv or dev.tsv.
The same command resumes where an earlier one stopped.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.finetuned import (
    BATCH,
    KINDS,
    epochs_for,
    processor_minutes,
    result_of,
    take_rows,
    with_deviation,
)
from benchmarks.low_label import SHARES, curve_table, curves, draw
from benchmarks.shared import table
from plmkit.compare.task_ways import ALONE, JOINT, THEN, mean_of_tasks
from plmkit.errors import PlmError
from plmkit.tasks.registry import find_kind
from plmkit.tasks.taking_up import TaskFiles
from plmkit.tasks.task_list import TaskList

ENGLISH = ("rte", "mrpc", "stsb", "sst2")
WAYS = {ALONE: "alone", JOINT: "joint", THEN: "joint, then alone"}


def main() -> None:
    asked = parse()
    try:
        with processor_minutes():
            compare(asked)
    except PlmError as error:
        sys.exit(f"multitask: {error}")


def compare(asked: argparse.Namespace) -> None:
    tasks = [files_of(name, asked) for name in asked.sets]
    for share in sorted(asked.shares):
        rows = round(share * asked.rows)
        sets = [f"task.batch={BATCH}", "task.ngrams=false", f"task.train_share={share}", *asked.set]
        result = result_of(
            TaskList(tasks=tuple(tasks)), asked.model, asked.out / f"joint-{share:g}", sets=sets,
            epochs=epochs_for(rows, asked.epochs), seeds=asked.seeds, alone=True, then_each=True,
        )  # fmt: skip
        print(f"\n{share:.0%} of at most {asked.rows:,} training rows per task, {asked.seeds} seeds:\n")
        print(ways_table(result["comparison"]), flush=True)
    if asked.unseen:
        new = files_of(asked.unseen, asked)
        models = {"alone": asked.model, "from the joint model": asked.out / f"joint-{max(asked.shares):g}"}
        found = curves(
            models, new, asked.out / "unseen", shares=sorted(asked.shares), seeds=asked.seeds, epochs=asked.epochs,
            sets=asked.set,
        )  # fmt: skip
        print(f"\n{asked.unseen}, a task that the joint model has not seen:\n\n{curve_table(found, new.task.measure)}")
        draw(found, new.task.measure, asked.out)


def files_of(name: str, asked: argparse.Namespace) -> TaskFiles:
    sizes = {"train": asked.rows, "dev": asked.dev_rows, "test": asked.test_rows}
    return TaskFiles(task=find_kind(KINDS[name])(name=name), **take_rows(name, asked.data, asked.out / "rows", **sizes))


def ways_table(compared: Sequence[dict[str, Any]]) -> str:
    """A line per task: test scores and gaps between training rows and dev, in points."""
    head = ("task", *WAYS.values(), "joint − alone", *(f"gap, {title}" for title in WAYS.values()))
    mean = {"task": "mean", **{way: mean_of_tasks(compared, way) for way in WAYS}}
    return table(head, [ways_row(one) for one in (*compared, mean)])


def ways_row(one: dict[str, Any]) -> tuple[str, ...]:
    scores, gaps = ([with_deviation(one[way][shown]) for way in WAYS] for shown in ("seeds", "gaps"))
    means = {way: sum(one[way]["seeds"]) / len(one[way]["seeds"]) for way in WAYS}
    return one["task"], *scores, f"{100 * (means[JOINT] - means[ALONE]):+.1f}", *gaps


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multitask", description="Several small sets at once against each alone."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--model", type=Path, required=True, help="pretrained model to start from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=KINDS, default=ENGLISH, help="sets to train on together")
    parser.add_argument("--unseen", choices=KINDS, help="a set that only the adaptation sees")
    parser.add_argument("--rows", type=int, default=2500, help="training rows per set, at most")
    parser.add_argument(
        "--dev-rows", type=int, default=300, help="rows that choose the epoch, taken from training rows"
    )
    parser.add_argument("--test-rows", type=int, default=1000, help="rows that are scored, at most")
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of the training rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE; repeatable")
    return parser.parse_args()


if __name__ == "__main__":
    main()
