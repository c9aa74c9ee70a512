"""GPT-1, GPT-2 and GPT-3 by their papers: shapes, closed forms, rows, rates."""

from dataclasses import fields

import pytest

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.counting import parameters
from plmkit.schedules.schedule import Stage

SHAPES = {  # layers, width, heads, max_length
    "gpt1": (12, 768, 12, 512),
    "gpt2-small": (12, 768, 12, 1024),
    "gpt2-medium": (24, 1024, 16, 1024),
    "gpt2-large": (36, 1280, 20, 1024),
    "gpt2-xl": (48, 1600, 25, 1024),
    "gpt3-125m": (12, 768, 12, 2048),
    "gpt3-350m": (24, 1024, 16, 2048),
    "gpt3-760m": (24, 1536, 16, 2048),
    "gpt3-1.3b": (24, 2048, 16, 2048),
    "gpt3-2.7b": (32, 2560, 32, 2048),
    "gpt3-6.7b": (32, 4096, 32, 2048),
    "gpt3-13b": (40, 5120, 40, 2048),
    "gpt3-175b": (96, 12_288, 96, 2048),
}
GPTS = [name for name in CATALOGUE if name.startswith("gpt") and "lstm" not in name]
RATES = {"125m": 6e-4, "350m": 3e-4, "760m": 2.5e-4, "1.3b": 2e-4,
         "2.7b": 1.6e-4, "6.7b": 1.2e-4, "13b": 1e-4, "175b": 0.6e-4}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_the_papers(name):
    shape = find(name).architecture
    assert (shape.layers, shape.width, shape.heads, shape.max_length) == SHAPES[name]
    assert (shape.inner, shape.activation, shape.epsilon, shape.dropout) == (4 * shape.width, "gelu_tanh", 1e-5, 0.1)


@pytest.mark.parametrize("name", GPTS)
@pytest.mark.parametrize("vocabulary", [100, 8000])
def test_parameters_follow_the_closed_form_for_any_vocabulary(name, vocabulary):
    shape = find(name).architecture
    width = shape.width
    last = 0 if name.startswith("gpt1") else 2 * width  # GPT-1 has no norm at the end
    wanted = (vocabulary + shape.max_length) * width + shape.layers * (12 * width**2 + 13 * width) + last
    assert parameters(find(name), vocabulary) == wanted


@pytest.mark.parametrize("size", RATES)
def test_gpt3_spends_300_billion_tokens_at_the_papers_rates(size):
    schedule = find(f"gpt3-{size}").schedule
    assert schedule.learning_rate == RATES[size]
    assert schedule.steps * schedule.batch * 2048 == pytest.approx(300e9, rel=1e-4)
    assert schedule.factor(schedule.warmup) == pytest.approx(1.0)
    assert schedule.factor(260 / 300) == pytest.approx(0.1)
    assert schedule.factor(1.0) == pytest.approx(0.1)


@pytest.mark.parametrize("peak", [5e-4, 1e-3])
def test_a_rate_can_fall_to_a_tenth(peak):
    schedule = find("gpt3-125m").schedule
    assert peak * schedule.factor(1.0) == pytest.approx(peak / 10)


def test_gpt1_keeps_the_papers_settings():
    recipe = find("gpt1")
    schedule = recipe.schedule
    assert (schedule.batch, recipe.stages) == (64, (Stage(length=512),))
    assert (schedule.learning_rate, schedule.shape) == (2.5e-4, "cosine")
    assert schedule.warmup * schedule.steps == pytest.approx(2000)
    assert schedule.optimizer.decay == 0.01
    assert recipe.tokenizer.size == recipe.vocabulary == 40_478


def test_gpt2_differs_from_gpt1_in_more_than_its_size():
    """In norm, tokens, rows and batch: each by a choice of its own."""
    one, two = find("gpt1"), find("gpt2-small")
    changed = {field.name for field in fields(one) if getattr(one, field.name) != getattr(two, field.name)}
    assert {"vocabulary", "tokenizer", "architecture", "schedule"} <= changed
    assert [type(recipe.architecture).__name__ for recipe in (one, two)] == ["PostNormDecoder", "Decoder"]
    assert [recipe.architecture.max_length for recipe in (one, two)] == [512, 1024]
    assert [recipe.vocabulary for recipe in (one, two)] == [40_478, 50_257]
    assert [recipe.schedule.batch for recipe in (one, two)] == [64, 512]


@pytest.mark.parametrize("name", GPTS)
def test_all_of_them_predict_the_next_token_and_nothing_else(name):
    recipe = find(name)
    assert [type(step).__name__ for step in recipe.corruption] == ["Stream"]
    assert [objective.name for objective in recipe.objectives] == ["causal_lm"]
    assert recipe.architecture.generates == "causal"
