"""What benchmarks of fine-tuning share: files with fewer rows, and a fine-tuning in this process."""

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plmkit.compare.task_ways import finetune_and_compare
from plmkit.tasks.finetune import FinetuneRequest
from plmkit.tasks.settings import settle_task
from plmkit.tasks.task_list import TaskList
from plmkit.terminal.screen import Screen

STEPS, BATCH = 60, 16  # of a fine-tuning, at least; rows per step
KINDS = {
    "rte": "pair", "mrpc": "pair", "qnli": "pair", "snli": "nli", "mnli": "nli", "stsb": "regress", "sst2": "classify",
    "cola": "classify", "ocnli": "nli", "cmnli": "nli", "lcqmc": "pair", "afqmc": "pair", "stsb_zh": "regress",
    "chnsenticorp": "classify", "book_review": "classify",
}  # fmt: skip


def result_of(
    given: TaskList, model: Path, out: Path, *, sets: Sequence[str] = (), epochs: float | None = None, seed: int = 0,
    seeds: int = 1, alone: bool = False, then_each: bool = False, gaps: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The scores of a fine-tuning; one that is in the folder is not repeated."""
    settings, machine = settle_task(["run.threads=1", *sets], epochs)
    request = FinetuneRequest.of(
        given, model=model, out=out, settings=settings, machine=machine, seed=seed, seeds=seeds, gaps=gaps
    )
    return finetune_and_compare(request, Screen(quiet=True), alone=alone, then_each=then_each).result


def take_rows(name: str, data: Path, out: Path, *, train: int, dev: int, test: int) -> dict[str, Path]:
    """At most so many rows of a set. Dev is taken from its training rows, so that its own dev or test is unseen."""
    found = {part: out / f"{name}-{part}.tsv" for part in ("train", "dev", "test")}
    head, *rows = lines_of(data / name / "train.tsv")
    unseen = next(path for part in ("test", "dev") if (path := data / name / f"{part}.tsv").is_file())
    _, *others = lines_of(unseen)
    random.Random(0).shuffle(rows)
    random.Random(0).shuffle(others)
    kept = {"dev": rows[:dev], "train": rows[dev : dev + train], "test": others[:test]}
    out.mkdir(parents=True, exist_ok=True)
    for part, path in found.items():
        path.write_text("\n".join([head, *kept[part]]) + "\n", encoding="utf-8")
    return found


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def epochs_for(rows: int, epochs: float) -> float:
    """So many epochs, or more if few rows would give fewer steps than are needed to learn anything."""
    return max(epochs, round(STEPS * BATCH / rows, 3))


def with_deviation(scores: Sequence[float]) -> str:
    deviation = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return f"{100 * statistics.mean(scores):.1f} ± {100 * deviation:.1f}"


@contextmanager
def processor_minutes() -> Iterator[None]:
    """Print the minutes that this process computed, whatever else the machine did."""
    started = time.process_time()
    yield
    print(f"\n{(time.process_time() - started) / 60:.1f} processor minutes in this call.")
