"""Size, speed and score of a model before and after it was compressed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.compression.texts import TEXTS
from plmkit.data.reading.columns import Columns, Say
from plmkit.errors import InputError, SettingError
from plmkit.inference.embedding import embed_texts
from plmkit.inference.evaluation import can_evaluate_text, evaluate_text
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
MANY_TEXTS = (4, 8)  # that are generated together
SECONDS = 1.0  # that one measurement takes, at most; the first texts are not counted
TEXT = "text"  # in place of the name of a task
COSINE = "cosine"  # the mean of those between the vectors of texts before and after
LOSS = "loss"  # of a model that generates, in nats per token of a plain text; the lower, the better
TOKENS = 32  # that are generated for each text


Run = Callable[[], int]


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
    plain: Path | None = None  # a text that a model which generates is scored on


def size_of(folder: Path) -> int:
    """Bytes of the weights in a folder."""
    return sum(file.stat().st_size for pattern in WEIGHTS for file in folder.glob(pattern))


def rows_for(model: Model, dev: Sequence[str], before: Mapping[str, str | None], say: Say) -> Rows:
    """The labelled rows of each task of a model; `before` names the dev files that it was fine-tuned with.

    A model without tasks is measured on texts.
    """
    files = files_of(model, dev, before)
    if can_evaluate_text(model):
        return Rows(tasks={}, texts=TEXTS, plain=files.get(""))
    if not model.tasks:
        return Rows(tasks={}, texts=texts_in(model, files[""], say) if "" in files else TEXTS)
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


def compared_scores(before: Model, after: Model, rows: Rows) -> tuple[dict[str, str], list[dict[str, float]]]:
    """The measure of each score, and the scores before and after."""
    if can_evaluate_text(before):
        if rows.plain is None:
            return {}, [{}, {}]
        return {TEXT: LOSS}, [{TEXT: evaluate_text(model, rows.plain).loss} for model in (before, after)]
    if not before.tasks:
        return {TEXT: COSINE}, [{TEXT: 1.0}, {TEXT: closeness(before, after, rows.texts)}]
    found = [scores_of(model, rows) for model in (before, after)]
    measures = {name: measure for name, (measure, _) in found[0].items()}
    return measures, [{name: score for name, (_, score) in one.items()} for one in found]


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
    sizes, run_of = (MANY_TEXTS, generation) if can_evaluate_text(models[0]) else (BATCHES, reading)
    for batch in (1, *sizes):
        runs = [run_of(model, rows, batch) for model in models]
        for made, (count, seconds) in zip(found, fastest(runs), strict=True):
            made[batch] = count / seconds
    best = [max(sizes, key=made.__getitem__) for made in found]
    return [Speed(alone=made[1], together=made[size], batch=size) for made, size in zip(found, best, strict=True)]


def reading(model: Model, rows: Rows, batch: int) -> Run:
    """One pass over some texts in batches of a size, from text to answer; returns their number."""
    count = ONE_BY_ONE if batch == 1 else TOGETHER
    texts = list(islice(cycle(rows.texts or TEXTS), count))
    name, (_, own) = next(iter(rows.tasks.items()), ("", (Path(), [])))
    some = list(islice(cycle(own), count)) if own else []

    def run() -> int:
        if own:
            predict_rows(model, {name: some}, batch)
        else:
            embed_texts(model, texts, "sentence", batch)
        return count

    return run


def generation(model: Model, rows: Rows, batch: int) -> Run:
    """The continuations of some texts; returns the number of new tokens."""
    room = max(1, model.max_length - TOKENS)
    prompts = [model.tokenizer.decode(model.tokenizer.encode_plain(text)[: min(16, room)]) for text in rows.texts]

    def run() -> int:
        return sum(made.tokens for made in model.generate(list(islice(cycle(prompts), batch)), tokens=TOKENS))

    return run


def fastest(runs: Sequence[Run]) -> list[tuple[int, float]]:
    """What each run counted and the seconds of its fastest turn: what else the machine does, it does to all."""
    counts, best = [run() for run in runs], [float("inf")] * len(runs)
    for _ in turns(SECONDS * len(runs)):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[number] = min(best[number], time.perf_counter() - start)
    return list(zip(counts, best, strict=True))


def turns(seconds: float) -> Iterator[int]:
    """Three at least, if they do not take longer than that in all; one in any case."""
    start = time.perf_counter()
    for number in range(10):
        yield number
        if time.perf_counter() - start > seconds:
            return
