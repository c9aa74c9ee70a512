"""The heads of tasks in Hugging Face folders: the one table that says which task a head is read as and written for.

A family states the weights of a head (HEADS) and the class of transformers that has it (CLASSES).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from plmkit.interop.families.family import Family
from plmkit.tasks.contract import Task
from plmkit.tasks.kinds.choose import Choose
from plmkit.tasks.kinds.classify import ClassifyAny
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.qa import QA
from plmkit.tasks.kinds.regress import Regress
from plmkit.tasks.kinds.tag import Tag
from plmkit.tasks.registry import LABEL

MULTILABEL = "multi_label_classification"
Weights = Mapping[str, Tensor]  # of one head, without the stem of their names


@dataclass(frozen=True, kw_only=True)
class TaskHead:
    """A head of the families that answers for a task."""

    problems: tuple[str, ...]  # `Task.problem` of the tasks that are exported with it
    choices: bool = False  # theirs reads all choices of a row at once: (rows, choices, length)
    pooled: bool  # it reads the pooled state of a row, not the states of its tokens
    task: Callable[[dict[str, Any], Weights, int], Task]  # config.json, the weights and the length: the task
    config: Callable[[Task], dict[str, Any]]  # settings of a task for config.json


def read_label(config: dict[str, Any], weights: Weights, length: int) -> Task:
    """A text classifier or regressor."""
    outputs, labels = len(weights["classify.weight"]), config.get("id2label") or {}
    if config.get("problem_type") == "regression" or (outputs == 1 and config.get("problem_type") != MULTILABEL):
        return Regress(length=length)
    classes = tuple(str(labels.get(str(i), f"LABEL_{i}")) for i in range(outputs))
    if config.get("problem_type") == MULTILABEL:
        chosen = tuple(map(float, config.get("thresholds") or ()))
        return MultiLabel(classes=classes, length=length, chosen=chosen if len(chosen) == outputs else ())
    return ClassifyAny(classes=classes, length=length)


def write_label(task: Task) -> dict[str, Any]:
    if task.problem == "regression":
        return {"num_labels": 1, "problem_type": "regression"}
    own: dict[str, Any] = {}
    if isinstance(task, MultiLabel):
        own = {"problem_type": MULTILABEL, "thresholds": list(task.chosen)}  # the latter is ours: transformers has none
    return own | {
        "id2label": {str(number): name for number, name in enumerate(task.classes)},
        "label2id": {name: number for number, name in enumerate(task.classes)},
    }


def read_choices(config: dict[str, Any], weights: Weights, length: int) -> Task:
    return Choose(length=length)


def write_choices(task: Task) -> dict[str, Any]:
    """The head gives one number per choice, whatever `num_labels` is."""
    return {}


def read_span(config: dict[str, Any], weights: Weights, length: int) -> Task:
    return QA(length=min(length, QA.usual_length or length), conditional=False, threshold=read_threshold(config))


def read_conditional_span(config: dict[str, Any], weights: Weights, length: int) -> Task:
    beams = max(config.get(f"{side}_n_top") or QA().beams for side in ("start", "end"))
    return QA(
        length=min(length, QA.usual_length or length), conditional=True, beams=beams, threshold=read_threshold(config)
    )


def read_threshold(config: dict[str, Any]) -> float | None:
    found = config.get("null_threshold")
    return None if found is None else float(found)


def write_span(task: Task) -> dict[str, Any]:
    assert isinstance(task, QA)
    return {"num_labels": 2, "null_threshold": task.threshold}  # the latter is ours: transformers has none


def write_conditional_span(task: Task) -> dict[str, Any]:
    assert isinstance(task, QA)
    return {"start_n_top": task.beams, "end_n_top": task.beams, "null_threshold": task.threshold}


def read_tags(config: dict[str, Any], weights: Weights, length: int) -> Task:
    labels = config.get("id2label") or {}
    outputs = len(weights["classify.weight"])
    return Tag.of_classes(tuple(str(labels.get(str(i), f"LABEL_{i}")) for i in range(outputs)), length=length)


TASK_HEADS = {
    LABEL: TaskHead(
        problems=("classification", "regression", "multilabel"), pooled=True, task=read_label, config=write_label
    ),
    "choice": TaskHead(problems=("choice",), pooled=True, choices=True, task=read_choices, config=write_choices),
    "tag": TaskHead(problems=("tagging",), pooled=False, task=read_tags, config=write_label),
    "span": TaskHead(problems=("span",), pooled=False, task=read_span, config=write_span),
    "conditional_span": TaskHead(
        problems=("span",), pooled=False, task=read_conditional_span, config=write_conditional_span
    ),
}


def head_for(task: Task, weights: Iterable[str], family: Family) -> str | None:
    """The family's head with the weights of this task; None if it has none such."""
    stem = f"heads.{task.name}."
    own = {name.removeprefix(stem) for name in weights if name.startswith(stem)}
    fitting = (name for name, head in TASK_HEADS.items() if task.problem in head.problems)
    return next((name for name in fitting if name in family.HEADS and own <= family.HEADS[name].keys()), None)


def head_in(weights: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]] | None:
    """The head of a task that an imported network has, with its weights; None if it has none."""
    for name in TASK_HEADS:
        stem = f"heads.{name}."
        if own := {key.removeprefix(stem): weight for key, weight in weights.items() if key.startswith(stem)}:
            return name, own
    return None
