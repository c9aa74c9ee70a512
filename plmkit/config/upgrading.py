"""Recipes written by older versions, in the current format."""

from collections.abc import Mapping, Sequence
from typing import Any

from plmkit.config.renamed import current

ONLY = "text"  # the place of the only stream that older recipes had


def upgraded_recipe(data: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a recipe; older ones have one corruption, and lengths in the schedule, for streams and stages."""
    if "corruption" not in data:
        return dict(data)
    schedule = {name: value for name, value in data["schedule"].items() if name != "lengths"}
    steps = staged(data["corruption"])
    names = names_of(data["corruption"], len(steps))
    streams = [stream(name, *own) for name, own in zip(names, steps, strict=True)]
    stages = [
        {"kind": "Stage", "until": until, "length": length, "streams": [names[number]] if len(names) > 1 else []}
        for number, (until, length) in enumerate(data["schedule"]["lengths"])
    ]
    kept = {name: value for name, value in data.items() if name != "corruption"}
    return {**kept, "streams": streams, "stages": stages, "schedule": schedule}


def names_of(corruption: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """Names of the streams, one per stage: those of ERNIE are the units that they mask."""
    levels: list[str] = next((step["levels"] for step in corruption if "levels" in step), [])
    return levels if 1 < count == len(levels) else stage_names(count)


def stage_names(count: int) -> list[str]:
    """Names of streams that have one stage each."""
    return [ONLY] if count == 1 else [f"stage-{number}" for number in range(1, count + 1)]


def stream(name: str, arrangement: dict[str, Any], *maskings: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "DataStream", "name": name, "arrangement": arrangement, "maskings": list(maskings), "heads": None,
        "weight": 1.0, "place": None if name == ONLY else ONLY,
    }  # fmt: skip


def staged(corruption: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """The steps of each stage: UnitMasking had the shares of all stages in one list."""
    count = max((len(step["shares"]) for step in corruption if "shares" in step), default=1)
    return [[at_stage(step, number) for step in corruption] for number in range(count)]


def at_stage(step: Mapping[str, Any], number: int) -> dict[str, Any]:
    if "shares" not in step:
        return dict(step)
    return {**step, "shares": step["shares"][min(number, len(step["shares"]) - 1)]}


def upgraded_run(data: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says, as format 2 has it: in format 1, a fine-tuning had one task without a name."""
    if "task" in data:  # its settings are kept as they were given
        data = {**data, "task": {current(f"task.{name}").removeprefix("task."): v for name, v in data["task"].items()}}
    if "task_kind" not in data:
        return dict(data)
    task = {
        "kind": data["task_kind"], "name": data["task_kind"], "classes": data["classes"],
        "pooling": data["task"]["pooling"], "length": data["length"], "columns": data.get("columns"),
    }  # fmt: skip
    kept = {name: value for name, value in data.items() if name not in ("task_kind", "classes", "length", "columns")}
    return {**kept, "tasks": [task]}
