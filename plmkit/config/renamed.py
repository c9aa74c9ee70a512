"""Names of settings, objectives and saved weights in earlier versions, which are still accepted."""

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

RENAMED = {  # settings: old → new
    "architecture.longest": "architecture.max_length",
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
HEADS = {"causal_lm": ("adaptive_lm", "auxiliary_lm")}  # heads: old → objectives that shared the name
Some = TypeVar("Some")


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
