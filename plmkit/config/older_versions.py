"""What older versions wrote: settings, recipes, runs and weights, under the current names and in the current format."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

RENAMED = {  # settings: old → new
    "architecture.longest": "architecture.max_length",
    "architecture.neighbours": "architecture.local_heads",
    "architecture.spread": "architecture.initial_range",
    "architecture.start": "architecture.initialiser",
    "corruption.longest": "corruption.max_length",
    "corruption.masked": "corruption.mask_share",
    "corruption.swapped": "corruption.random_share",
    "corruption.most": "corruption.max_masked",
    "corruption.copies": "corruption.static_masks",
    "schedule.lengths": "stages",
    "schedule.rate": "schedule.learning_rate",
    "task.rate": "task.learning_rate",
    "tuning.rate": "tuning.learning_rate",
    "objectives.frequency_bias": "initialisation.frequency_bias",
    "objectives.near_vectors": "initialisation.cooccurrence_embeddings",
    "run.processes": "run.reader_workers",
    "run.rows_at_once": "run.micro_batch",
}
RESULTS = {"spread": "over_seeds"}  # keys of a result: old → new
HEADS = {"causal_lm": ("adaptive_lm", "auxiliary_lm")}  # heads: old → objectives that shared the name
Some = TypeVar("Some")
ONLY = "text"  # the place of the only stream that older recipes had


def set_name(path: str) -> str:
    """The `--set` name of the setting at a path of a recipe's JSON: steps of a stream are those of the corruption."""
    return re.sub(r"\bstreams\.(arrangement|maskings)\.", "corruption.", path)


def current(name: str) -> str:
    """The current name of a setting; it may include the choice, as in corruption.token_masking.copies."""
    axis, *path = name.split(".")
    if axis == "streams" and len(path) > 1:  # a setting of a step, in one stream
        return f"streams.{path[0]}.{current('.'.join(('corruption', *path[1:]))).removeprefix('corruption.')}"
    if name not in RENAMED and len(path) == 2 and f"{axis}.{path[1]}" in RENAMED:
        home, _, own = RENAMED[f"{axis}.{path[1]}"].partition(".")
        return f"{axis}.{path[0]}.{own}" if home == axis else f"{home}.{own}"
    return RENAMED.get(name, name)


def current_recipe(data: Any) -> Any:
    """A recipe's JSON with the current choices."""
    if isinstance(data, list):
        return [current_recipe(item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.get("kind") == "LearnedWeight":  # an objective around an objective, now a setting of it
        return {**current_recipe(data["objective"]), "learned_weight": True}
    made = {name: current_recipe(item) for name, item in data.items()}
    return with_initialisation(made) if data.get("kind") == "Recipe" and "initialisation" not in data else made


def with_initialisation(recipe: dict[str, Any]) -> dict[str, Any]:
    """Move initialisation out of the objectives; their `frequency_bias` also restricted the vocabulary."""
    old = [dict(objective) for objective in recipe["objectives"]]
    near = [objective.pop("near_vectors", False) for objective in old]
    biased = [objective.pop("frequency_bias", False) for objective in old]
    objectives = [{**one, "corpus_vocabulary": True} if bias else one for one, bias in zip(old, biased, strict=True)]
    chosen = {"kind": "Initialisation", "frequency_bias": any(biased), "cooccurrence_embeddings": any(near)}
    return {**recipe, "objectives": objectives, "initialisation": chosen}


def current_weights(tensors: Mapping[str, Some], heads: Collection[str]) -> dict[str, Some]:
    """Weights, or the optimizer's state of them, under the names that they have in a network with these heads."""
    return {current_weight(name, heads): tensor for name, tensor in tensors.items()}


def current_weight(name: str, heads: Collection[str]) -> str:
    name = re.sub(r"^heads\.(\w+)\.log_variance\b", r"log_variances.\1", name)
    name = re.sub(r"^heads\.(\w+)\.inner\.", r"heads.\1.", name)
    root, _, rest = name.partition(".")
    head, dot, rest = rest.partition(".")
    if root != "heads" or head in heads:
        return name
    return f"heads.{next((new for new in HEADS.get(head, ()) if new in heads), head)}{dot}{rest}"


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
    if isinstance(data.get("task"), dict):  # its settings are kept as they were given
        data = {**data, "task": {current(f"task.{name}").removeprefix("task."): v for name, v in data["task"].items()}}
    if isinstance(data.get("result"), dict):
        data = {**data, "result": {RESULTS.get(name, name): value for name, value in data["result"].items()}}
    if "task_kind" not in data:
        return dict(data)
    task = {
        "kind": data["task_kind"], "name": data["task_kind"], "classes": data["classes"],
        "pooling": data["task"]["pooling"], "length": data["length"], "columns": data.get("columns"),
    }  # fmt: skip
    kept = {name: value for name, value in data.items() if name not in ("task_kind", "classes", "length", "columns")}
    return {**kept, "tasks": [task]}
