"""What needs no network, for every set of task_table: a linear model over n-grams where the kind has one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.task_trainer import read_parts
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.floor import Floor, with_ngrams


def floor_scores(kind: str, files: dict[str, Path]) -> dict[str, Any]:
    """Test scores of the simple answers, and of the linear model with its strength chosen on dev."""
    task, rows = read_parts(kind, files)
    found: dict[str, Any] = {"baselines": [vars(one) for one in task.baselines(rows["train"], rows["test"])]}
    if task.has_linear_model:
        task = with_ngrams(task, rows["train"])
        train, dev, test = (examples_of(task, rows[part]) for part in ("train", "dev", "test"))
        found["linear"] = Floor(task, train, dev).summary({"dev": dev, "test": test})
    return found


def examples_of(task: Task, rows: Sequence[Row]) -> list[Example]:
    """Without the tokens, which no linear model reads."""
    assert task.ngrams is not None
    target = task.target  # type: ignore[attr-defined]
    return [
        Example(row=row, inputs=(), label=target(row), ngrams=task.ngrams.vector((row.text, row.other))) for row in rows
    ]
