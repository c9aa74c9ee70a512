"""ERNIE 1's stages: how many whole entities of held-out text are predicted after characters, phrases and entities.

python -m benchmarks.ernie_stages --corpus FILE... --out FOLDER [--recipe ernie-mini] [--steps 600]

The paper gives XNLI (test, 10 % of the data) for each kind of masking: 76.8, 77.3, 77.6; entity cloze is a sharper
measure of the same on a small budget. An entity counts if all of its tokens are predicted, all of them masked at once.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.shared import table
from plmkit.catalogue import find
from plmkit.config.machine import Settings, settle
from plmkit.corruption.mask.masking import units_of
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data.batch import IGNORE, as_batch
from plmkit.data.rows import Rows
from plmkit.data.samples import Samples
from plmkit.errors import PlmError
from plmkit.network import Network
from plmkit.preparation.counts import prepared
from plmkit.preparation.prepare import Material, prepare
from plmkit.recipe import Recipe
from plmkit.storage.files import write_json
from plmkit.terminal.screen import Screen
from plmkit.training.checkpoint import CHECKPOINTS, checkpoints, put_weights, read_checkpoint
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

ROWS_AT_ONCE = 32


def main() -> None:
    asked = parse()
    try:
        found = per_stage(asked)
    except PlmError as error:
        sys.exit(f"ernie_stages: {error}")
    write_json(asked.out / "ernie_stages.json", {"recipe": asked.recipe, "steps": asked.steps, "stages": found})
    rows = [
        (one["stage"], f"{one['step']:,}", f"{one['entities']:,}", f"{one['accuracy']:.1%}", f"{one['tokens']:.1%}")
        for one in found
    ]
    print(table(("after the stage", "step", "masked entities", "entity cloze", "of their tokens"), rows))


def per_stage(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Train with a checkpoint at the end of each stage, and score every one of them."""
    stages = len(find(asked.recipe).stages)
    if asked.steps % stages:
        sys.exit(f"ernie_stages: --steps must be a multiple of {stages}")
    each = asked.steps // stages
    kept = [f"run.checkpoint_steps={each}", f"run.kept_checkpoints={stages}"]
    settings = settle(find(asked.recipe), [*kept, *asked.set])
    corpora = tuple(map(str, asked.corpus))
    out = asked.out / "pretrained"
    order = PretrainRequest(
        settings=settings, corpora=corpora, out=out, budget=Budget(steps=asked.steps), seed=asked.seed
    )
    screen = Screen()
    pretrain(order, screen)
    material = prepare(settings, corpora, None, asked.seed, screen)
    rows = masked_entities(material, settings.recipe, asked.seed)
    return [
        {"stage": stage.streams[0], "step": number * each, **scored(out, number * each, settings, material, rows)}
        for number, stage in enumerate(settings.recipe.stages, start=1)
    ]


def masked_entities(material: Material, recipe: Recipe, seed: int) -> list[Rows]:
    """Held-out rows in which whole entities and single characters are masked."""
    stream = recipe.streams[-1]
    steps = [
        replace(step, mask_share=1.0, random_share=0.0) if isinstance(step, UnitMasking) else step.for_validation()
        for step in stream.steps
    ]
    vocabulary = material.tokenizer.vocabulary
    corruption = prepared(steps, material.store, material.samples.documents, len(vocabulary), seed)
    samples = Samples(material.valid_store, material.valid_documents, corruption, vocabulary, seed=seed)
    length = recipe.max_length
    count = len(samples.plan(0, length)[1])
    return [samples.rows(0, at, min(ROWS_AT_ONCE, count - at), length) for at in range(0, count, ROWS_AT_ONCE)]


@torch.inference_mode()
def scored(out: Path, step: int, settings: Settings, material: Material, rows: list[Rows]) -> dict[str, Any]:
    """Of the masked entities of several tokens, the share that is predicted as a whole, and of their tokens."""
    [folder] = [one.folder for one in checkpoints(out / CHECKPOINTS) if one.step == step]
    network: Network = settings.recipe.build(material.tokenizer.vocabulary)
    put_weights(network, read_checkpoint(folder)[1], folder)
    network.eval()
    whole, right = 0, []
    for some in rows:
        batch = as_batch(some)
        head = network.all_heads()["masked_lm"]
        logits = head.output(network.model(batch).hidden)[..., : len(material.tokenizer.vocabulary)]
        assert some.targets is not None
        hits = logits.argmax(-1).numpy() == some.targets
        for places in entities_of(some, material):
            right += hits[places].tolist()
            whole += bool(hits[places].all())
        del logits
    count = sum(len(list(entities_of(some, material))) for some in rows)
    return {"entities": count, "accuracy": whole / max(1, count), "tokens": float(np.mean(right)) if right else 0.0}


def entities_of(rows: Rows, material: Material) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and columns of each masked unit of at least two tokens."""
    assert rows.targets is not None
    masked = rows.targets != IGNORE
    original = replace(rows, tokens=np.where(masked, rows.targets, rows.tokens))
    begins = units_of(original, material.tokenizer.vocabulary, "entity").begins
    numbers = np.where(masked, np.cumsum(begins, axis=1), 0)
    found = []
    for row in range(len(numbers)):
        for unit in np.unique(numbers[row][numbers[row] > 0]):
            places = np.flatnonzero(numbers[row] == unit)
            if len(places) > 1:
                found.append((np.full(len(places), row), places))
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ernie_stages", description="Entity cloze after each stage of ERNIE 1."
    )
    parser.add_argument("--corpus", nargs="+", type=Path, required=True, help="text to pretrain on")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run, which is resumed if it is there")
    parser.add_argument("--recipe", default="ernie-mini")
    parser.add_argument("--steps", type=int, default=600, help="a multiple of the number of stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting of the pretraining, as for plm")
    return parser.parse_args()


if __name__ == "__main__":
    main()
