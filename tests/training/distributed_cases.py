"""The runs that are the same with one process and with two: 20 steps of small networks without dropout."""

from pathlib import Path

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.training.loop import Budget
from plmkit.training.request import PretrainRequest

STEPS, HALF = 20, 10
RECIPES = ("bert-tiny", "electra-tiny", "gpt2-tiny", "transformer-xl-tiny")
SHRUNK = {
    "layers": 1,
    "heads": 2,
    "width": 32,
    "inner": 64,
    "embedding": 16,
    "max_length": 64,
    "memory": 24,
}
GIVEN = {
    "tokenizer.size": 300, "schedule.batch": 5, "schedule.learning_rate": 3e-3, "run.threads": 1, "run.device": "cpu",
    "run.dtype": "float32", "run.log_steps": 1, "run.checkpoint_steps": HALF, "run.valid_share": 0.05,
    "architecture.dropout": 0, "architecture.attention_dropout": 0,
}  # fmt: skip


def settings_of(name: str) -> list[str]:
    """A batch of five rows: three of the first process, two of the second."""
    recipe = find(name)
    has = {key for key, value in vars(recipe.architecture).items() if value is not None}
    given = {f"architecture.{key}": value for key, value in SHRUNK.items() if key in has}
    kept = {key: value for key, value in GIVEN.items() if not key.startswith("architecture.") or key[13:] in has}
    given |= kept | {"stages": "[[1.0, 32]]"}
    if any(vars(objective).get("near_vectors") for objective in recipe.objectives):
        given["objectives.near_vectors"] = "false"  # of counts, whose last bits vary
    return [f"{key}={value}" for key, value in given.items()]


def order_of(name: str, corpus: Path, out: Path) -> PretrainRequest:
    settings = settle(find(name), settings_of(name))
    return PretrainRequest(settings=settings, corpora=(str(corpus),), out=out, budget=Budget(steps=STEPS))
