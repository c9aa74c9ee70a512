"""What distillation was worth: teacher, student and the same student alone side by side."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from plmkit.data.reading.columns import Search, ignore
from plmkit.distillation.general import TeacherGuide
from plmkit.distillation.initial import RANDOM
from plmkit.distillation.teacher import size_of, teacher_network
from plmkit.inference.loading import Parts, read_parts
from plmkit.language import tr
from plmkit.network import Network
from plmkit.preparation.prepare import prepare
from plmkit.storage.files import write_json
from plmkit.tasks.batches import answers_of, evaluate, tune
from plmkit.tasks.contract import Row, Task
from plmkit.tasks.finetune import FinetuneRequest
from plmkit.tasks.floor import Mix, as_used
from plmkit.tasks.holding_out import hold_out
from plmkit.tasks.rows import read_labelled
from plmkit.tasks.settings import DEV_SHARE
from plmkit.terminal.screen import Screen
from plmkit.training.request import PretrainRequest
from plmkit.training.step import validate

TEACHER, NETWORK, STUDENT, ALONE = "teacher", "teacher_network", "student", "alone"
TIMED = 20  # texts, one at a time
FILE = "distillation.json"
Score = tuple[float, float] | None  # and its standard deviation over seeds


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One line of the table."""

    name: str  # teacher, teacher_network (without its n-grams), student or alone
    folder: str
    parameters: int  # of the network, without heads
    bytes: int  # of the file of its weights
    milliseconds: float | None  # of processor time per text, one at a time
    score: float | None  # on dev, or the validation loss
    deviation: float | None = None  # over seeds
    measure: str


def title(name: str) -> str:
    names = {
        TEACHER: tr("teacher"), NETWORK: tr("teacher without n-grams"), STUDENT: tr("student, distilled"),
        ALONE: tr("student alone"),
    }  # fmt: skip
    return names[name]


def milliseconds_of(once: Callable[[int], Any], texts: int) -> float | None:
    """Processor time per text, the lowest of three passes."""
    if not texts:
        return None
    once(0)
    passes = []
    for _ in range(3):
        started = time.process_time()
        for number in range(min(texts, TIMED)):
            once(number)
        passes.append((time.process_time() - started) / min(texts, TIMED))
    return round(1000 * min(passes), 3)


def line(name: str, parts: Parts, network: Network, **found: Any) -> Compared:
    return Compared(
        name=name, folder=str(parts.folder), parameters=sum(one.numel() for one in network.model.parameters()),
        bytes=size_of(parts.folder), **found,
    )  # fmt: skip


def general_lines(request: PretrainRequest, out: Path, folders: Mapping[str, Path], lm: str) -> list[Compared]:
    """Validation losses of the LM heads on the same held-out rows; None without such a head, or with other tokens."""
    silent = Screen.silent()
    own = request.settings
    material = prepare(own, request.corpora, request.valid, request.seed, silent, tokenizer=out)
    batches = [batch for every in material.valid_batches(own.recipe, request.seed).values() for batch in every]
    batches = [replace(batch, heads=frozenset({lm})) for batch in batches]
    made = []
    own_parts = read_parts(folders[STUDENT], ignore)
    for name, folder in folders.items():
        parts = read_parts(folder, ignore)
        network = teacher_network(parts, torch.device("cpu"))
        alignment = TeacherGuide(parts, False, RANDOM, False).alignment(own_parts.tokenizer)
        score = None  # a loss per token cannot be compared with that of other tokens
        if lm in network.heads and batches and alignment is None:
            score = round(validate(network, batches, torch.device("cpu"), torch.float32)[lm], 5)
            network.eval()
        rows = [batch.part(number, number + 1) for batch in batches[:1] for number in range(min(TIMED, batch.examples))]
        if alignment is not None:
            rows = [alignment.rows(row, masked=lm == "masked_lm").batch for row in rows]
        with torch.inference_mode():
            spent = milliseconds_of(lambda n, net=network, given=rows: net.model(given[n]), len(rows))  # type: ignore[misc]
        made.append(line(name, parts, network, milliseconds=spent, score=score, measure=f"valid/{lm}"))
    return made


def rows_of_dev(request: FinetuneRequest, teacher: Parts) -> tuple[Task, list[Row]]:
    """The rows that the best epoch was chosen on: those of --dev, or those that were held out."""
    task = teacher.tasks[0]
    search = Search(named=request.columns, trained=task.columns)
    if request.dev:
        return task, read_labelled(request.dev, request.task, search, ignore).rows
    train = read_labelled(request.train, request.task, search, ignore)
    share = DEV_SHARE if request.settings.dev_share is None else request.settings.dev_share
    if not share:
        return task, []
    files, _ = hold_out({"train": train}, replace(request.task, classes=task.classes), share)
    return task, files["dev"].rows if "dev" in files else []


def teacher_score(teacher: Parts, rows: Sequence[Row]) -> Score:
    if not rows:
        return None
    task, vocabulary, device = teacher.tasks[0], teacher.tokenizer.vocabulary, torch.device("cpu")
    examples = task.frame(rows, teacher.tokenizer, task.length)
    return float(evaluate(teacher_network(teacher, device), task, examples, vocabulary, device)[task.measure]), 0.0


def without_ngrams(teacher: Parts, rows: Sequence[Row]) -> Parts:
    """The teacher as its network alone, which a student is; what dev determines is determined for the network."""
    device, vocabulary = torch.device("cpu"), teacher.tokenizer.vocabulary
    task, weights = as_used(teacher.tasks[0], teacher.weights, Mix(ngrams=0.0))
    parts = replace(teacher, tasks=(task,), weights=weights)
    if rows:
        examples = task.frame(rows, teacher.tokenizer, task.length)
        task, _ = tune(teacher_network(parts, device), task, examples, vocabulary, device)
    return replace(parts, tasks=(task,))


def task_lines(
    models: Mapping[str, Parts], scores: Mapping[str, Score], task: Task, rows: Sequence[Row]
) -> list[Compared]:  # fmt: skip
    """Scores on dev, and the time that a text takes from its tokens on."""
    device = torch.device("cpu")
    made = []
    for name, parts in models.items():
        network = teacher_network(parts, device)
        own = parts.tasks[0]
        bare = [replace(row, label=None) for row in rows[:TIMED]]
        examples = own.frame(bare, parts.tokenizer, own.length) if bare else []

        def once(
            number: int, net: Network = network, given: Any = examples, kind: Task = own, of: Parts = parts
        ) -> Any:
            with torch.inference_mode():
                return answers_of(net, kind, [given[number]], of.tokenizer.vocabulary, device)

        mean, deviation = scores[name] or (None, None)
        made.append(
            line(
                name,
                parts,
                network,
                milliseconds=milliseconds_of(once, len(examples)),
                score=mean,
                deviation=deviation,
                measure=task.measure,
            )
        )
    return made


def written(out: Path, lines: list[Compared]) -> list[dict[str, Any]]:
    """The table in distillation.json of the run folder."""
    found = [asdict(one) for one in lines]
    write_json(out / FILE, {"compared": found})
    return found
