"""Other choices for a recipe, by their names: `corruption=[OrderedPairs,TokenMasking]`, `sentence_task=sop`."""

import re
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from plmkit.choices import CHOICES
from plmkit.config.settings import snake
from plmkit.corruption.arrange.packing import FullSentences
from plmkit.corruption.arrange.pairs import OrderedPairs, SentencePairs
from plmkit.corruption.contract import Arrangement, Masking
from plmkit.errors import SettingError, nearest
from plmkit.objectives.sentence_pair import NextSentence, RealDialogue, SentenceOrder
from plmkit.recipe import Recipe

SENTENCE_TASK = "sentence_task"
SENTENCE_TASKS: dict[str, tuple[type, type | None]] = {  # how rows are made, and what is asked about them
    "nsp": (SentencePairs, NextSentence),
    "sop": (OrderedPairs, SentenceOrder),
    "none": (FullSentences, None),  # as RoBERTa does without a sentence task (Liu et al., 2019, 4.2)
}
JUDGES = (NextSentence, SentenceOrder, RealDialogue)
LABELS = frozenset().union(*(judge.reads for judge in JUDGES)) - {"pooled"}  # fields of the batch
NAMES = re.compile(r"\[?\s*[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*\s*,?\s*\]?")

Named = tuple[str, str]  # a name and its value, as in --set
Axes = dict[str, Any]  # the choices of a recipe that were changed


def compose(recipe: Recipe, assignments: Sequence[Named]) -> tuple[Axes, list[Named]]:
    """The axes on which other kinds are chosen, and the assignments that are left: values."""
    axes: Axes = {}
    left = []
    for name, text in sorted(assignments, key=lambda named: named[0] != SENTENCE_TASK):
        axis, *path = name.split(".")
        chosen = axes.get(axis, getattr(recipe, axis, None))
        if name == SENTENCE_TASK:
            axes |= with_sentence_task(recipe, text)
        elif axis not in CHOICES or not NAMES.fullmatch(text):
            left.append((name, text))
        elif not path:
            axes[axis] = chosen_by_names(chosen, axis, text)
        elif isinstance(chosen, tuple) and path in ([snake(type(member).__name__)] for member in chosen):
            kind = kind_called(text, axis)
            axes[axis] = tuple(take_over(kind, m) if [snake(type(m).__name__)] == path else m for m in chosen)
        else:
            left.append((name, text))
    if axes:
        axes["architecture"] = fitted(recipe, axes)
    return axes, left


def with_sentence_task(recipe: Recipe, task: str) -> Axes:
    """The recipe's rows and objectives with another sentence task; what both tasks have stays as it was."""
    if task not in SENTENCE_TASKS:
        known = ", ".join(SENTENCE_TASKS)
        raise SettingError(f"There is no sentence_task '{task}'.{nearest(task, SENTENCE_TASKS)} There are {known}.")
    rows, judge = SENTENCE_TASKS[task]
    arrangement: Any = recipe.arrangement
    if "targets" in arrangement.writes:
        raise SettingError(
            f"{recipe.name} reads one stream of text from left to right, so there is no sentence_task to set."
        )
    if judge and not has_pooler(recipe):
        raise SettingError(
            f"{recipe.name}: a {type(recipe.architecture).__name__} makes no vector of a row as a whole, so there is "
            "no sentence_task to set."
        )
    if (judge or arrangement.writes & LABELS) and not isinstance(
        arrangement, rows
    ):  # rows without a label suit no task
        arrangement = take_over(rows, arrangement)
    judges = [objective for objective in recipe.objectives if isinstance(objective, JUDGES)]
    others = [objective for objective in recipe.objectives if not isinstance(objective, JUDGES)]
    asked = [take_over(judge, *judges[:1])] if judge else []
    return {"corruption": (arrangement, *recipe.maskings), "objectives": (*others, *asked)}


def has_pooler(recipe: Recipe) -> bool:
    """Does its network judge whole rows, or would it if asked to?"""
    return recipe.architecture.optional_pooler or "pooled" in recipe.architecture.writes


def sentence_task(recipe: Recipe) -> str | None:
    """The name of the task that a recipe has; None where it has another, or can have none."""
    judges = {type(objective) for objective in recipe.objectives if isinstance(objective, JUDGES)}
    if "targets" in recipe.arrangement.writes or not has_pooler(recipe):
        return None
    if not judges:
        return "none"
    arrangement = recipe.arrangement
    named = ((task, rows) for task, (rows, judge) in SENTENCE_TASKS.items() if judges == {judge})
    return next((task for task, rows in named if isinstance(arrangement, rows)), None)


def chosen_by_names(old: Any, axis: str, text: str) -> Any:
    """One choice for another, or a list of them: kinds that were there keep their settings."""
    kinds = [kind_called(name, axis) for name in re.findall(r"\w+", text)]
    if not isinstance(old, tuple):
        if len(kinds) > 1:
            raise SettingError(f"'{axis}' takes one choice; found {text}.")
        return take_over(kinds[0], old)
    kept = {type(member): member for member in old}
    gone = [member for member in old if type(member) not in kinds]
    return tuple(kept[kind] if kind in kept else newcomer(kind, axis, gone) for kind in kinds)


def newcomer(kind: type, axis: str, gone: Sequence[Any]) -> Any:
    """In a corruption it takes the place of a step that left, and what both have stays as it was."""
    same = Arrangement if issubclass(kind, Arrangement) else Masking
    before = [step for step in gone if axis == "corruption" and isinstance(step, same)]
    return take_over(kind, *before[:1])


def kind_called(name: str, axis: str) -> type:
    kinds = {kind.__name__: kind for kind in CHOICES[axis]}
    if name not in kinds:
        raise SettingError(
            f"There is no '{name}' to choose as {axis}.{nearest(name, kinds)} There are {', '.join(kinds)}."
        )
    return kinds[name]


def take_over(kind: type, old: Any = None) -> Any:
    """A choice of this kind, with the settings that it shares with the old one."""
    known = {} if old is None else {field.name: getattr(old, field.name) for field in fields(old)}
    own = fields(kind)
    wanted = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING and f.name not in known]
    if wanted:
        raise SettingError(
            f"{kind.__name__} needs {', '.join(wanted)}, which {type(old).__name__} has not. "
            "Choose another, or write a recipe with it."
        )
    return kind(**{field.name: known[field.name] for field in own if field.name in known})


def fitted(recipe: Recipe, axes: Axes) -> Any:
    """The architecture with the pooler and the segments that rows and objectives need, where it has such settings."""
    architecture: Any = axes.get("architecture", recipe.architecture)
    arrangement = axes.get("corruption", recipe.corruption)[0]
    objectives = axes.get("objectives", recipe.objectives)
    if architecture.optional_pooler and "objectives" in axes:
        architecture = replace(architecture, pooler=any("pooled" in objective.reads for objective in objectives))
    segments = arrangement.segments if isinstance(arrangement, Arrangement) else 1
    if architecture.segment_count is not None and segments > architecture.segment_count:
        architecture = replace(architecture, segments=arrangement.segments)
    return architecture
