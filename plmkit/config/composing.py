"""Change the choices of a recipe by name: `corruption=[OrderedPairs,TokenMasking]`, `sentence_task=sop`."""

import re
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

from plmkit.choices import ARRANGEMENTS, CHOICES, OBJECTIVES
from plmkit.config.pretraining_tasks import TASKS, WITHOUT, tasks_of, with_order, without
from plmkit.config.settings import snake
from plmkit.corruption.contract import Arrangement, Masking
from plmkit.errors import SettingError, nearest
from plmkit.fit import check_steps
from plmkit.language import comma, tr
from plmkit.recipe import DataStream, Recipe

SENTENCE_TASK = "sentence_task"
SENTENCE_TASKS = tuple(dict.fromkeys(kind.sentence_task for kind in ARRANGEMENTS if kind.sentence_task))
LABELS = frozenset().union(*(kind.reads for kind in OBJECTIVES if kind.sentence_task)) - {"pooled"}  # of a batch
NAMES = re.compile(r"\[?\s*[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*\s*,?\s*\]?")

Named = tuple[str, str]  # a name and its value, as in --set
Axes = dict[str, Any]  # the choices of a recipe that were changed


def compose(recipe: Recipe, assignments: Sequence[Named]) -> tuple[Axes, list[Named]]:
    """The axes whose choices are replaced, and the remaining assignments, which set values."""
    axes: Axes = {}
    left = []
    firsts = (SENTENCE_TASK, TASKS, WITHOUT)
    for name, text in sorted(assignments, key=lambda named: (*firsts, named[0]).index(named[0])):
        axis, *path = name.split(".")
        if name == SENTENCE_TASK:
            axes |= with_sentence_task(recipe, text)
        elif name == TASKS:
            axes["stages"] = with_order(replace(recipe, **axes), text)
        elif name == WITHOUT:
            axes |= without(replace(recipe, **axes), re.findall(r"[^\s,\[\]]+", text))
        elif axis not in CHOICES or not NAMES.fullmatch(text):
            left.append((name, text))
        elif axis == "corruption" and names_kinds(steps_of(streams := axes.get("streams", recipe.streams)), path):
            axes["streams"] = tuple(with_kinds(recipe, stream, path, text) for stream in streams)
        elif axis != "corruption" and names_kinds(chosen := axes.get(axis, getattr(recipe, axis)), path):
            axes[axis] = replaced(chosen, axis, path, text)
        else:
            left.append((name, text))
    if axes:
        axes["architecture"] = fitted(recipe, axes)
    return axes, left


def names_kinds(chosen: Any, path: list[str]) -> bool:
    """Whether the name denotes a whole choice: an axis, or one member of a list."""
    return not path or (isinstance(chosen, tuple) and path in ([called(member)] for member in chosen))


def steps_of(streams: Sequence[DataStream]) -> tuple[Any, ...]:
    return tuple(step for stream in streams for step in stream.steps)


def called(choice: Any) -> str:
    """The name of a choice in `--set`."""
    return snake(type(choice).__name__)


def replaced(chosen: Any, axis: str, path: list[str], text: str) -> Any:
    """The choice with all members replaced, or one of them."""
    if not path:
        return chosen_by_names(chosen, axis, text)
    kind = kind_called(text, axis)
    return tuple(take_over(kind, member) if [called(member)] == path else member for member in chosen)


def with_kinds(recipe: Recipe, stream: DataStream, path: list[str], text: str) -> DataStream:
    """The stream with other steps; those that stay keep their settings."""
    steps = replaced(stream.steps, "corruption", path, text)
    check_steps(recipe.name, steps)
    return stream.with_steps(steps)


def with_sentence_task(recipe: Recipe, task: str) -> Axes:
    """The recipe's streams and objectives with another sentence task; settings that both have are kept."""
    if tasks_of(recipe):
        raise SettingError(
            tr(
                "{name} has pretraining tasks of its own, so sentence_task has no effect. Leave it out.",
                name=recipe.name,
            )
        )
    if task not in SENTENCE_TASKS:
        known = comma().join(SENTENCE_TASKS)
        raise SettingError(
            tr(
                "There is no sentence_task '{task}'.{hint} Known: {known}.",
                task=task,
                hint=nearest(task, SENTENCE_TASKS),
                known=known,
            )
        )
    rows = next(kind for kind in ARRANGEMENTS if kind.sentence_task == task)
    objective_kind = next((kind for kind in OBJECTIVES if kind.sentence_task == task), None)
    if any("targets" in stream.arrangement.writes for stream in recipe.streams):
        raise SettingError(
            tr(
                "{name} is a causal language model, so sentence_task has no effect. Leave it out.",
                name=recipe.name,
            )
        )
    if objective_kind and not has_pooler(recipe):
        raise SettingError(
            tr(
                "{name}: {type} has no pooler, which a sentence_task needs. Leave it out.",
                name=recipe.name,
                type=type(recipe.architecture).__name__,
            )
        )
    streams = tuple(arranged(stream, rows, bool(objective_kind)) for stream in recipe.streams)
    removed = [objective for objective in recipe.objectives if objective.sentence_task]
    others = [objective for objective in recipe.objectives if not objective.sentence_task]
    added = [take_over(objective_kind, *removed[:1])] if objective_kind else []
    return {"streams": streams, "objectives": (*others, *added)}


def arranged(stream: DataStream, rows: type, is_labelled: bool) -> DataStream:
    """The stream with rows of this kind; rows without a label already suit a recipe without a sentence task."""
    if isinstance(stream.arrangement, rows) or not (is_labelled or stream.arrangement.writes & LABELS):
        return stream
    return replace(stream, arrangement=take_over(rows, stream.arrangement))


def has_pooler(recipe: Recipe) -> bool:
    """Whether its architecture has a pooler, or can have one."""
    return recipe.architecture.optional_pooler or "pooled" in recipe.architecture.writes


def sentence_task(recipe: Recipe) -> str | None:
    """The name of a recipe's sentence task; None if it has an unnamed one, or cannot have any."""
    tasks = {objective.sentence_task for objective in recipe.objectives if objective.sentence_task}
    arrangements = [stream.arrangement for stream in recipe.streams]
    causal = any("targets" in arrangement.writes for arrangement in arrangements)
    if causal or tasks_of(recipe) or not has_pooler(recipe):
        return None
    if not tasks:
        return "none"
    return next((task for task in tasks if {arrangement.sentence_task for arrangement in arrangements} == tasks), None)


def chosen_by_names(old: Any, axis: str, text: str) -> Any:
    """The choices named in the text; kinds that were chosen before keep their settings."""
    kinds = [kind_called(name, axis) for name in re.findall(r"\w+", text)]
    if not isinstance(old, tuple):
        if len(kinds) > 1:
            raise SettingError(tr("'{axis}' takes one choice; found {text}.", axis=axis, text=text))
        return take_over(kinds[0], old)
    kept = {type(member): member for member in old}
    gone = [member for member in old if type(member) not in kinds]
    return tuple(kept[kind] if kind in kept else newcomer(kind, axis, gone) for kind in kinds)


def newcomer(kind: type, axis: str, gone: Sequence[Any]) -> Any:
    """A new choice; in a corruption it replaces a step of the same role and takes over their common settings."""
    same = Arrangement if issubclass(kind, Arrangement) else Masking
    before = [step for step in gone if axis == "corruption" and isinstance(step, same)]
    return take_over(kind, *before[:1])


def kind_called(name: str, axis: str) -> type:
    kinds = {kind.__name__: kind for kind in CHOICES[axis]}
    if name not in kinds:
        raise SettingError(
            tr(
                "'{name}' is not a choice of {axis}.{hint} Known: {kinds}.",
                name=name,
                axis=axis,
                hint=nearest(name, kinds),
                kinds=comma().join(kinds),
            )
        )
    return kinds[name]


def take_over(kind: type, old: Any = None) -> Any:
    """A choice of this kind, with the settings that it shares with the old one."""
    known = {} if old is None else {field.name: getattr(old, field.name) for field in fields(old)}
    own = fields(kind)
    wanted = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING and f.name not in known]
    if wanted:
        raise SettingError(
            tr(
                "{kind} needs {wanted}, which {type} does not have. Choose another, or write a recipe with it.",
                kind=kind.__name__,
                wanted=comma().join(wanted),
                type=type(old).__name__,
            )
        )
    return kind(**{field.name: known[field.name] for field in own if field.name in known})


def fitted(recipe: Recipe, axes: Axes) -> Any:
    """The architecture with the pooler and segments that rows and objectives need, if it has such settings."""
    architecture: Any = axes.get("architecture", recipe.architecture)
    segments = max(stream.arrangement.segments for stream in axes.get("streams", recipe.streams))
    objectives = axes.get("objectives", recipe.objectives)
    if architecture.optional_pooler and "objectives" in axes:
        architecture = replace(architecture, pooler=any("pooled" in objective.reads for objective in objectives))
    if architecture.segment_count is not None and segments > architecture.segment_count:
        architecture = replace(architecture, segments=segments)
    return architecture
