"""Whole words, SpanBERT and ERNIE from text to weights, at a tiny size."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.corruption.arrange.pairs import MixedPairs
from plmkit.corruption.mask.span import NOWHERE, SpanMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.corruption.mask.word import WordMasking
from plmkit.data.batch import IGNORE
from plmkit.errors import RecipeError
from plmkit.inference.loading import load
from plmkit.objectives.span_boundary import SpanBoundary
from plmkit.preparation.prepare import prepare
from plmkit.recipe import Recipe, one_stream
from plmkit.schedules.schedule import Stage
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

NAMES = ["bert-wwm-mini", "spanbert-mini", "ernie-mini"]
LOSSES = {
    "bert-wwm-mini": ["masked_lm", "next_sentence"],
    "spanbert-mini": ["masked_lm", "span_boundary"],
    "ernie-mini": ["masked_lm", "next_sentence"],
}


def tiny(name: str, length: int = 32):
    """The recipe with a network of width 32 on rows of 32 tokens, stages as they are."""
    recipe = find(name)
    lengths = json.dumps([[stage.until, length] for stage in recipe.stages])
    return settle(
        recipe,
        (
            f"stages={lengths}", "architecture.max_length=64", "architecture.layers=2", "architecture.heads=2",
            "architecture.width=32", "architecture.inner=64", "tokenizer.size=120", "run.threads=1",
            "run.log_steps=30", "schedule.learning_rate=5e-3",
        ),
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_run_learns_and_can_be_used(name, corpus, tmp_path):
    out = tmp_path / "run"
    order = PretrainRequest(settings=tiny(name), corpora=(str(corpus),), out=out, budget=Budget(steps=150))
    record = pretrain(order, Screen())
    assert sorted(loss for loss in record.result if loss.startswith("valid/")) == [f"valid/{n}" for n in LOSSES[name]]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for loss in set(LOSSES[name]) - {"next_sentence"}:
        course = [line[f"train/{loss}"] for line in lines if f"train/{loss}" in line]
        assert len(course) == 5
        assert course[-1] < course[0] - 0.2
    model = load(out, device="cpu")
    assert sorted(model.network.heads) == LOSSES[name]
    assert model.fill("the [MASK] sees a house.")


def test_a_boundary_head_of_another_size_is_read_as_it_was_written(corpus, tmp_path):
    settings = tiny("spanbert-mini")
    settings = replace(
        settings,
        recipe=replace(settings.recipe, objectives=(*settings.recipe.objectives[:1], SpanBoundary(positions=4))),
    )
    pretrain(
        PretrainRequest(settings=settings, corpora=(str(corpus),), out=tmp_path / "run", budget=Budget(steps=2)),
        Screen(),
    )
    head = load(tmp_path / "run", device="cpu").network.heads["span_boundary"]
    assert head.positions.weight.shape == (4, 200)


def test_held_out_text_has_spans_with_edges(corpus):
    settings = tiny("spanbert-mini", length=30)
    material = prepare(settings, (str(corpus),), None, 0, Screen())
    counts = set()
    for batch in material.valid_batches(settings.recipe, 0)["text"]:
        for hidden, edges, visible in zip(batch.targets != IGNORE, batch.edges, batch.source.visible, strict=True):
            length, places = int(visible.sum()), hidden.nonzero().flatten().tolist()
            counts.add((length, len(places)))
            for place in range(len(hidden)):
                if place not in places:
                    assert edges[place].tolist() == [NOWHERE, NOWHERE]
                    continue
                before = next(n for n in range(place, -1, -1) if n not in places)  # [CLS] and [SEP] are never hidden
                after = next(n for n in range(place, length) if n not in places)
                assert edges[place].tolist() == [before, after]
    assert all(count == max(1, round(0.15 * length)) for length, count in counts)  # as BERT counts, not as spans do
    assert any(count != math.ceil(0.15 * (length - 2)) for length, count in counts)


def test_spanbert_has_no_sentence_task_and_says_so_in_its_objectives():
    for name in ("spanbert-base", "spanbert-large", "spanbert-mini"):
        recipe = find(name)
        assert [type(objective).__name__ for objective in recipe.objectives] == ["MaskedLM", "SpanBoundary"]
        assert [objective.weight for objective in recipe.objectives] == [1.0, 1.0]
        assert recipe.architecture.activation == "gelu"
        assert not recipe.architecture.pooler


def test_the_papers_numbers_are_in_the_recipes():
    span = find("spanbert-base").corruption[1]
    assert span == SpanMasking(rate=0.15, geometric=0.2, max_length=10, mask_share=0.8, random_share=0.1)
    word = find("bert-wwm-base").corruption[1]
    assert word == WordMasking(rate=0.15, mask_share=0.8, random_share=0.1, max_masked=80, static_masks=10)
    assert [type(find(name).corruption[0]) for name in ("ernie-1.0", "ernie-mini")] == [MixedPairs, MixedPairs]
    unit = find("ernie-1.0").corruption[1]
    assert replace(unit, segmenter=None) == UnitMasking(rate=0.15, mask_share=0.8, random_share=0.1)
    ernie = find("ernie-1.0").architecture
    assert (ernie.layers, ernie.width, ernie.heads, ernie.max_length) == (12, 768, 12, 513)
    assert (ernie.activation, ernie.epsilon) == ("relu", 1e-5)


def test_a_boundary_objective_without_spans_is_refused():
    plain = find("bert-mini")
    with pytest.raises(
        RecipeError, match=r"SpanBoundary reads edges, but none of SentencePairs, TokenMasking, Encoder"
    ):
        replace(plain, objectives=(*plain.objectives, SpanBoundary()))


def test_spans_and_their_boundaries_are_five_lines_on_any_paired_recipe():
    plain = find("bert-mini")
    both: Recipe = replace(
        plain,
        streams=one_stream(plain.corruption[0], SpanMasking()),
        objectives=(*plain.objectives, SpanBoundary()),
    )
    assert [objective.name for objective in both.objectives] == ["masked_lm", "next_sentence", "span_boundary"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("corruption.rate=1.5", "corruption.rate must be the share of tokens to mask, above 0 and below 1; found 1.5"),
        ("corruption.levels=[\"sentence\"]", "unknown level 'sentence'"),
        ("stages=[[1.0, 64]]", "'stages' has 1 stage, but the recipe has 3, with the streams character, phrase"),
    ],
)  # fmt: skip
def test_bad_settings_on_the_command_line_end_with_code_2_and_their_name(plm, corpus, tmp_path, setting, said):
    ran = plm("pretrain", "ernie-mini", corpus, "--out", tmp_path / "run", "--set", setting)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not (tmp_path / "run").exists()


def test_stages_can_be_made_a_mixture_on_the_command_line():
    made = settle(find("ernie-mini"), ("corruption.shares=[[0.2, 0.4, 0.4]]",)).recipe
    assert [stream.name for stream in made.streams] == ["text"]
    assert made.corruption[1].shares == (0.2, 0.4, 0.4)
    assert all(earlier.until < later.until for earlier, later in pairwise(made.stages))
    assert settle(find("ernie-mini"), ("corruption.shares=[[0.2, 0.4, 0.4]]", "stages=[[1.0, 32]]")).recipe.stages == (
        Stage(length=32),
    )
