"""The smallest network of every family that reads texts, as fine-tuning finds it, with random weights."""

import json
from pathlib import Path

import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import settle
from plmkit.inference.loading import Parts, without_generator
from plmkit.network import Network
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.training.checkpoint import weights_of

NAMES = sorted({name.rpartition("-")[0] for name in CATALOGUE if name.endswith(("-tiny", "-mini"))})
SMALLEST = [next(name for name in (f"{family}-tiny", f"{family}-mini") if name in CATALOGUE) for family in NAMES]
READING = [name for name in SMALLEST if not find(name).architecture.describes_images]
SHRUNK = {
    "architecture.max_length": 32, "architecture.layers": 1, "architecture.heads": 2, "architecture.width": 16,
    "architecture.inner": 32, "architecture.embedding": 8, "tokenizer.size": 300,
}  # fmt: skip
LINES = ["the cat sees a house.", "a dog hears the sea.", "the king reads a book.", "a bird finds the moon."]


def untrained(name: str, folder: Path) -> Parts:
    """The smallest network of a family as fine-tuning finds it, with random weights."""
    recipe = find(name)
    stages = json.dumps([[stage.until, 32] for stage in recipe.stages])
    own = [f"stages={stages}"]
    for setting, value in SHRUNK.items():
        axis, _, part = setting.partition(".")
        if getattr(getattr(recipe, axis), part, None) is not None:
            own.append(f"{setting}={value}")
    recipe = settle(recipe, own).recipe
    tokenizer = recipe.tokenizer.train(LINES * 20)
    torch.manual_seed(0)
    model = recipe.architecture.build(tokenizer.vocabulary)
    parts = Parts(
        folder=folder, architecture=recipe.architecture, tokenizer=tokenizer, tuning=recipe.tuning,
        weights=weights_of(Network(model, {}, {})),
    )  # fmt: skip
    return with_task_tokens(without_generator(parts))
