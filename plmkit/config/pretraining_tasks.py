"""The pretraining tasks of a recipe: `tasks=joint` sets when they are trained, `without=capitals` leaves one out."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from plmkit.errors import SettingError, nearest
from plmkit.language import comma, tr
from plmkit.recipe import DataStream, Recipe
from plmkit.schedules.schedule import Stage
from plmkit.schedules.task_stages import TASK_STAGES

TASKS, WITHOUT = "tasks", "without"  # names of these settings
Axes = dict[str, Any]  # the choices of a recipe that were changed


def tasks_of(recipe: Recipe) -> tuple[str, ...]:
    """The names of its pretraining tasks, in the order in which they are added; () if it has no tasks by name."""
    return tuple(stream.name for stream in recipe.streams if stream.task is not None)


def task_order(recipe: Recipe) -> str | None:
    """How its stages order its tasks; None if it has none, or orders them in another way."""
    names, length = tasks_of(recipe), recipe.max_length
    return next((kind for kind, make in TASK_STAGES.items() if names and make(names, length) == recipe.stages), None)


def with_order(recipe: Recipe, kind: str) -> tuple[Stage, ...]:
    """The stages of a recipe that orders its tasks in another way."""
    if kind not in TASK_STAGES:
        raise SettingError(
            tr(
                "tasks takes {kinds}; found '{kind}'.{hint}",
                kinds=comma().join(TASK_STAGES),
                kind=kind,
                hint=nearest(kind, TASK_STAGES),
            )
        )
    check_has_tasks(recipe, TASKS)
    return TASK_STAGES[kind](tasks_of(recipe), recipe.max_length)


def without(recipe: Recipe, left_out: Collection[str]) -> Axes:
    """The streams, objectives and stages of a recipe without some of its tasks; the others are ordered as before."""
    check_has_tasks(recipe, WITHOUT)
    names = tasks_of(recipe)
    if unknown := [name for name in left_out if name not in names]:
        raise SettingError(
            tr(
                "without={name}: {recipe} has no such pretraining task.{hint} Its tasks: {names}.",
                name=unknown[0],
                recipe=recipe.name,
                hint=nearest(unknown[0], names),
                names=comma().join(names),
            )
        )
    kept = tuple(stream for stream in recipe.streams if stream.name not in left_out)
    if not kept:
        raise SettingError(tr("{recipe} without all of its tasks has nothing to train. Keep one.", recipe=recipe.name))
    trained = objectives_of(kept)
    objectives = tuple(one for one in recipe.objectives if trained is None or one.name in trained)
    predicts = any("targets" in objective.reads for objective in objectives)
    initialisation = recipe.initialisation if predicts else replace(recipe.initialisation, frequency_bias=False)
    return {
        "streams": kept,
        "objectives": objectives,
        "initialisation": initialisation,  # without a head that predicts tokens, nothing has a bias for their frequency
        "stages": stages_without(recipe, left_out),
    }


def stages_without(recipe: Recipe, left_out: Collection[str]) -> tuple[Stage, ...]:
    """The stages of a recipe without some of its streams: made again for the other tasks, or what is left of each."""
    order = task_order(recipe)
    if order is not None:
        return TASK_STAGES[order]([name for name in tasks_of(recipe) if name not in left_out], recipe.max_length)
    stages = []
    for stage in recipe.stages:
        kept = [number for number, name in enumerate(stage.streams) if name not in left_out]
        streams = tuple(stage.streams[number] for number in kept)
        shares = tuple(stage.shares[number] for number in kept if stage.shares)
        if streams or not stage.streams:
            stages.append(replace(stage, streams=streams, shares=shares))
    return (*stages[:-1], replace(stages[-1], until=1.0))


def objectives_of(streams: Sequence[DataStream]) -> frozenset[str] | None:
    """The names of the objectives that they train; None: all."""
    if any(stream.heads is None for stream in streams):
        return None
    return frozenset(name for stream in streams for name in stream.heads or ())


def check_has_tasks(recipe: Recipe, setting: str) -> None:
    if not tasks_of(recipe):
        raise SettingError(
            tr(
                "{recipe} has no pretraining tasks by name, as ERNIE 2 has, so {setting} has no effect. Leave it out.",
                recipe=recipe.name,
                setting=setting,
            )
        )
