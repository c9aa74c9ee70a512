"""Size, speed and score of a model before and after it was compressed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.compression.texts import SAMPLE
from plmkit.data.reading.columns import Columns, Say
from plmkit.errors import InputError, SettingError
from plmkit.inference.embedding import embed_texts
from plmkit.inference.model import Model
from plmkit.inference.predicting import predict_rows
from plmkit.language import comma, tr
from plmkit.tasks.contract import Row, Task
from plmkit.tasks.rows import plain_rows, read_labelled
from plmkit.tasks.tables import input_table
from plmkit.tasks.use import search_for, search_of

WEIGHTS = ("*.safetensors", "*.onnx", "*.weights")
ONE_BY_ONE = 32  # texts
TOGETHER = 128
BATCHES = (4, 16, 64)
SECONDS = 2.0  # that one measurement takes, at most; the first texts are not counted
TEXT = "text"  # in place of the name of a task
COSINE = "cosine"  # the mean of those between the vectors of texts before and after


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Texts per second."""

    alone: float
    together: float
    batch: int


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What models are measured on: rows of each task, or texts."""

    tasks: Mapping[str, tuple[Path, list[Row]]]
    texts: Sequence[Any] = ()


def size_of(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(file.stat().st_size for pattern in WEIGHTS for file in folder.glob(pattern))


def rows_for(model: Model, dev: Sequence[str], before: Mapping[str, str | None], say: Say) -> Rows:
    """The labelled rows of each task of a model; `before` names the dev files that it was fine-tuned with.

    A model without tasks is measured on texts.
    """
    files = files_of(model, dev, before)
    if not model.tasks:
        return Rows(tasks={}, texts=texts_in(model, files[""], say) if "" in files else SAMPLE)
    found = {}
    for name, task in model.tasks.items():
        if name not in files:
            continue
        rows = read_labelled(files[name], task, search_for(task, Columns()), say).rows
        task.check(rows, files[name], say)
        found[name] = files[name], rows
    return Rows(tasks=found)


def files_of(model: Model, dev: Sequence[str], before: Mapping[str, str | None]) -> dict[str, Path]:
    """The file of each task, by its name; of a model without tasks, by the empty name."""
    names = list(model.tasks) or [""]
    if not dev:
        return {name: Path(file) for name, file in before.items() if name in names and file and Path(file).is_file()}
    if len(names) == 1 and len(dev) == 1:
        return {names[0]: Path(dev[0])}
    pairs = [one.partition("=") for one in dev]
    if wrong := [one for one, (name, _, file) in zip(dev, pairs, strict=True) if name not in names or not file]:
        raise SettingError(
            tr(
                "--dev {wrong}: {folder} has the tasks {names}. Give the file of each: --dev NAME=FILE.",
                wrong=wrong[0],
                folder=model.folder,
                names=comma().join(names),
            )
        )
    return {name: Path(file) for name, _, file in pairs}


def texts_in(model: Model, file: Path, say: Say) -> list[Any]:
    search = search_of(model, Columns())
    rows = [row for row in plain_rows(input_table(str(file), search, say), search, say) if not row.blank]
    if not rows:
        raise InputError(tr("{file} has no text.", file=file))
    return [row.text if row.other is None else (row.text, row.other) for row in rows]


def scores_of(model: Model, rows: Rows) -> dict[str, tuple[str, float]]:
    """Of each task the measure by which its best epoch was chosen, and its score."""
    return {name: score_of(model, model.tasks[name], own) for name, (_, own) in rows.tasks.items()}


def score_of(model: Model, task: Task, rows: Sequence[Row]) -> tuple[str, float]:
    scores = task.score(predict_rows(model, {task.name: rows})[task.name].predictions, rows)
    measure = task.chosen_by(scores)
    return measure, float(scores[measure])


def closeness(before: Model, after: Model, texts: Sequence[Any]) -> float:
    """The mean cosine of the vectors of texts before and after."""
    found = []
    for one, other in zip(embed_texts(before, texts, "sentence")[0], embed_texts(after, texts, "sentence")[0],
                          strict=True):  # fmt: skip
        found.append(float(one @ other / max(1e-12, float(np.linalg.norm(one) * np.linalg.norm(other)))))
    return float(np.mean(found))


def speeds_of(models: Sequence[Model], rows: Rows) -> list[Speed]:
    """Texts per second of models, measured in turns: one by one, and in batches of the best size."""
    found: list[dict[int, float]] = [{} for _ in models]
    for batch in (1, *BATCHES):
        runs = [run_of(model, rows, batch) for model in models]
        for made, seconds in zip(found, fastest(runs), strict=True):
            made[batch] = (ONE_BY_ONE if batch == 1 else TOGETHER) / seconds
    best = [max(BATCHES, key=made.__getitem__) for made in found]
    return [Speed(alone=made[1], together=made[size], batch=size) for made, size in zip(found, best, strict=True)]


def run_of(model: Model, rows: Rows, batch: int) -> Callable[[], object]:
    """One pass over some texts in batches of a size, from text to answer."""
    count = ONE_BY_ONE if batch == 1 else TOGETHER
    if rows.tasks:
        name, (_, own) = next(iter(rows.tasks.items()))
        some = list(islice(cycle(own), count))
        return lambda: predict_rows(model, {name: some}, batch)
    texts = list(islice(cycle(rows.texts or SAMPLE), count))
    return lambda: embed_texts(model, texts, "sentence", batch)


def fastest(runs: Sequence[Callable[[], object]]) -> list[float]:
    """The shortest time of each, in turns: whatever else the machine does, it does to all of them."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    for _ in turns(SECONDS * len(runs)):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def turns(seconds: float) -> Iterator[int]:
    """Three at least, if they do not take longer than that in all; one in any case."""
    start = time.perf_counter()
    for number in range(10):
        yield number
        if time.perf_counter() - start > seconds:
            return
