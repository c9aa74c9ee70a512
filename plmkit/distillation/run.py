"""A request for a distillation, general or of a task: train, compare, report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.data.reading.columns import ignore
from plmkit.distillation.general import is_causal
from plmkit.distillation.report import (
    ALONE,
    NETWORK,
    STUDENT,
    TEACHER,
    Score,
    general_lines,
    rows_of_dev,
    task_lines,
    teacher_score,
    without_ngrams,
    written,
)
from plmkit.distillation.task import Teaching
from plmkit.inference.loading import Parts, read_parts
from plmkit.language import tr
from plmkit.tasks.finetune import FinetuneRequest, finetune
from plmkit.tasks.settings import EPOCHS
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.run_record import FinetuneRecord, PretrainRecord


@dataclass(frozen=True, kw_only=True)
class Distilled:
    """A distillation as it ended, or was interrupted."""

    record: PretrainRecord | FinetuneRecord
    compared: Sequence[dict[str, Any]] = ()


def distill_text(
    request: PretrainRequest, lone: PretrainRequest, teacher: Parts, screen: Screen, *, alone: bool
) -> Distilled:  # fmt: skip
    """The general stage; then, if asked for, the same student without its teacher for as many steps."""
    record = pretrain(request, screen)
    if not record.is_finished:
        return Distilled(record=record)
    folders = {TEACHER: teacher.folder, STUDENT: request.out}
    if alone:
        screen.say(tr("The same student without its teacher:"))
        ended = pretrain(replace(lone, budget=Budget(steps=record.result["steps"]), by_default=False), screen)
        if not ended.is_finished:
            return Distilled(record=ended)
        folders[ALONE] = lone.out
    lm = "causal_lm" if is_causal(lone.settings.recipe) else "masked_lm"
    return Distilled(record=record, compared=written(request.out, general_lines(lone, request.out, folders, lm)))


def distill_task(
    request: FinetuneRequest, lone: FinetuneRequest, teacher: Parts, screen: Screen, *, alone: bool
) -> Distilled:
    """The task stage; then, if asked for, the same student on labels only for as many steps."""
    record = finetune(request, screen)
    task, rows = rows_of_dev(request, teacher)
    models = {TEACHER: teacher}
    if task.ngrams is not None:
        models[NETWORK] = without_ngrams(teacher, rows)
    scores: dict[str, Score] = {name: teacher_score(parts, rows) for name, parts in models.items()}
    models[STUDENT], scores[STUDENT] = read_parts(request.out, ignore), over_seeds(record, task.measure)
    if alone:
        screen.say(tr("The same student without its teacher:"))
        ended = finetune(as_long(lone, request), screen)
        models[ALONE], scores[ALONE] = read_parts(lone.out, ignore), over_seeds(ended, task.measure)
    return Distilled(record=record, compared=written(request.out, task_lines(models, scores, task, rows)))


def as_long(lone: FinetuneRequest, request: FinetuneRequest) -> FinetuneRequest:
    """With more epochs where the student was trained on more rows than those with labels."""
    counts = request.guide.counts if isinstance(request.guide, Teaching) else {}
    if not counts or counts["all"] == counts["labelled"]:
        return lone
    epochs = (lone.settings.epochs or EPOCHS) * counts["all"] / counts["labelled"]
    return replace(lone, settings=replace(lone.settings, epochs=epochs))


def over_seeds(record: FinetuneRecord, measure: str) -> Score:
    """The mean on dev and its standard deviation."""
    found = record.result["over_seeds"].get("dev", {}).get(measure)
    return (found["mean"], found["std"]) if found else None
