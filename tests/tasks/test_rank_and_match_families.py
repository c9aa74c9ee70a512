"""Every architecture that reads texts can rank candidates, and make vectors that match."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import settle
from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import read_table
from plmkit.data.samples import Place
from plmkit.inference.loading import Parts, model_of, pooling_of, without_generator
from plmkit.network import Network
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.features import with_features
from plmkit.tasks.gpt_finetuning import with_task_tokens
from plmkit.tasks.kinds.match import Match
from plmkit.tasks.kinds.rank import Rank
from plmkit.tasks.seed_run import build, optimizer_of
from plmkit.tasks.settings import TaskSettings
from plmkit.training.checkpoint import weights_of
from plmkit.training.step import Step

NAMES = sorted({name.rpartition("-")[0] for name in CATALOGUE if name.endswith(("-tiny", "-mini"))})
SMALLEST = [next(name for name in (f"{family}-tiny", f"{family}-mini") if name in CATALOGUE) for family in NAMES]
READING = [name for name in SMALLEST if find(name).architecture.image_pixels is None]
SHRUNK = {
    "architecture.max_length": 32, "architecture.layers": 1, "architecture.heads": 2, "architecture.width": 16,
    "architecture.inner": 32, "architecture.embedding": 8, "tokenizer.size": 300,
}  # fmt: skip
LINES = ["the cat sees a house.", "a dog hears the sea.", "the king reads a book.", "a bird finds the moon."]
ROWS = {
    "rank": [{"query": "the cat", "candidates": LINES[:3], "labels": [1, 0, 0]},
             {"query": "a bird", "candidates": LINES[2:], "label": 1}],
    "match": [{"text_a": LINES[0], "text_b": LINES[1], "label": 0.5},
              {"text_a": LINES[2], "text_b": LINES[3], "label": 2}],
}  # fmt: skip


def untrained(name: str, folder) -> Parts:
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


@pytest.mark.parametrize("kind", ["rank", "match"])
@pytest.mark.parametrize("name", READING)
def test_two_steps_and_predictions(name, kind, tmp_path):
    parts = untrained(name, tmp_path)
    settings = TaskSettings().settled(parts.architecture, parts.tuning)
    parts = with_features(parts, settings.features)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind]), encoding="utf-8")
    task = {"rank": Rank, "match": Match}[kind](length=parts.architecture.max_length)
    rows, _ = task.read(read_table(path), Search(), ignore)
    task = task.learn(rows, path)
    examples = task.frame(rows, parts.tokenizer, task.length)
    network = build(settings, parts, [task], seed=0)
    source = LabelledExamples(task, examples, parts.tokenizer.vocabulary, seed=0, heads=frozenset(network.heads))
    step, place, before = Step(network, optimizer_of(network, settings)), Place(), weights_of(network)
    before = {weight: tensor.clone() for weight, tensor in before.items()}
    for _ in range(2):
        batch, place = source.next(place, 2, task.length)
        assert np.isfinite(step.gradients(batch).loss)
        step.update(1.0)
    weights = weights_of(network)
    assert any(not torch.equal(weights[weight], before[weight]) for weight in before if weight.startswith("model."))

    architecture = parts.architecture.for_task(0.1)
    model = model_of(
        replace(
            parts, architecture=architecture, weights=weights, tasks=(task,), pooling=pooling_of([task], architecture)
        ),
        device="cpu",
    )
    if kind == "rank":
        found = model.predict({"query": "the cat", "candidates": LINES})
        assert sorted(found.ranks) == [1, 2, 3, 4]
        assert np.isfinite(found.scores).all()
    else:  # by the vectors that it embeds
        (found,) = model.predict([(LINES[0], LINES[1])])
        first, second = model.embed(LINES[:2])
        assert found.cosine == pytest.approx(float(first @ second), abs=1e-4)
