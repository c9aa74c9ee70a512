import pytest

from plmkit.catalogue import CATALOGUE, find
from plmkit.counting import encoder_parameters, parameters
from plmkit.errors import RecipeError
from plmkit.recipe import OBJECTIVES, WEIGHTINGS, recipe_from_json
from plmkit.settings import to_json

COUNTS = {
    "bert-tiny": (4_385_920, 4_433_468),
    "bert-mini": (11_170_560, 11_267_900),
    "bert-small": (28_763_648, 29_058_876),
    "bert-medium": (41_373_184, 41_668_412),
    "bert-base": (109_482_240, 110_106_428),
    "bert-large": (335_141_888, 336_226_108),
    "bert-base-cased": (108_310_272, 108_932_934),
    "bert-large-cased": (333_579_264, 334_661_958),
    "bert-base-chinese": (102_267_648, 102_882_442),
    # the two networks together, what they share counted once; tests/recipes/test_electra.py has each
    "electra-tiny": (4_516_730, 4_533_371),
    "electra-tiny-adversarial": (4_516_730, 4_533_371),
    "electra-tiny-weighted": (4_516_730, 4_533_373),
    "electra-mini": (8_005_306, 8_071_355),
    "electra-small": (14_130_170, 14_196_219),
    "electra-base": (118_795_066, 119_386_427),
    "electra-large": (353_604_666, 354_655_291),
}
STATED = {"hidden", "pooled", "targets", "follows", "guesses", "sampled", "replaced", "verdicts"}
WEIGHTS = {"replaced_token": 50.0}
SHAPES = {
    "bert-tiny": (2, 128, 2, 512),
    "bert-mini": (4, 256, 4, 1024),
    "bert-small": (4, 512, 8, 2048),
    "bert-medium": (8, 512, 8, 2048),
    "bert-base": (12, 768, 12, 3072),
    "bert-large": (24, 1024, 16, 4096),
}


def closed_form(recipe, vocabulary: int) -> tuple[int, int]:
    shape = recipe.architecture
    layers, width, inner = shape.layers, shape.width, shape.inner
    block = 4 * (width**2 + width) + 2 * width + (width * inner + inner) + (inner * width + width) + 2 * width
    encoder = (vocabulary + shape.longest + 2) * width + 2 * width + layers * block + width**2 + width
    return encoder, encoder + (width**2 + width) + 2 * width + vocabulary + (2 * width + 2)


@pytest.mark.parametrize("name", CATALOGUE)
def test_parameters_are_exactly_the_papers(name):
    assert (encoder_parameters(find(name)), parameters(find(name))) == COUNTS[name]


@pytest.mark.parametrize("name", ["bert-tiny", "bert-mini"])
@pytest.mark.parametrize("vocabulary", [100, 8000])
def test_parameters_follow_the_closed_form_for_any_vocabulary(name, vocabulary):
    recipe = find(name)
    found = encoder_parameters(recipe, vocabulary), parameters(recipe, vocabulary)
    assert found == closed_form(recipe, vocabulary)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_the_papers(name):
    shape = find(name).architecture
    assert (shape.layers, shape.width, shape.heads, shape.inner) == SHAPES[name]
    assert (shape.longest, shape.segments) == (512, 2)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_recipe_bears_its_name_and_survives_json(name):
    recipe = find(name)
    assert recipe.name == name
    assert recipe_from_json(to_json(recipe)) == recipe


@pytest.mark.parametrize("name", ["bert-base", "bert-large", "bert-base-cased", "bert-base-chinese"])
def test_base_and_large_keep_the_papers_settings(name):
    recipe = find(name)
    schedule, (_, masking) = recipe.schedule, recipe.corruption
    assert not recipe.notes
    assert (schedule.steps, schedule.batch, schedule.rate, schedule.warmup) == (1_000_000, 256, 1e-4, 0.01)
    assert schedule.lengths == ((0.9, 128), (1.0, 512))
    assert (masking.rate, masking.masked, masking.swapped, masking.copies) == (0.15, 0.8, 0.1, 10)
    assert recipe.architecture.dropout == recipe.architecture.attention_dropout == 0.1


@pytest.mark.parametrize("name", ["bert-tiny", "bert-mini"])
def test_sizes_for_minutes_say_that_they_leave_the_paper(name):
    assert "minutes" in find(name).notes


def test_an_unknown_recipe_is_refused_with_the_nearest_name():
    with pytest.raises(RecipeError, match=r"'bert-bse'\. Did you mean 'bert-base'"):
        find("bert-bse")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_says_its_name_what_it_reads_and_what_it_is_for(objective):
    assert objective.name.isidentifier()
    assert objective.reads <= STATED
    assert objective().weight == WEIGHTS.get(objective.name, 1.0)
    assert objective.__doc__.endswith(").")  # one sentence and its source


def test_every_objective_is_in_some_recipe_and_is_shown_with_it(plm):
    used = {type(objective) for make in CATALOGUE.values() for objective in make().objectives}
    assert used == {*OBJECTIVES, *WEIGHTINGS}
    for name in ("bert-base", "electra-base", "electra-tiny-adversarial"):
        shown = plm("recipes", name).out
        for objective in find(name).objectives:
            assert f"objectives: {type(objective).__name__}: {objective.__doc__}" in shown
