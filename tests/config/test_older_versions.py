"""What earlier versions wrote is read."""

import pytest
import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.machine import settle
from plmkit.config.older_versions import current_weight, current_weights, upgraded_run
from plmkit.config.settings import to_json
from plmkit.errors import SettingError
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM, CausalLM
from plmkit.objectives.replaced_token import GeneratorLM, ReplacedToken
from plmkit.recipe import recipe_from_json
from plmkit.tasks.settings import settle_task
from plmkit.training.record_fields import choice_of


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_recipe_is_what_its_json_says(name):
    assert recipe_from_json(to_json(find(name))) == find(name)


def test_an_objective_around_an_objective_has_a_learned_weight():
    data = to_json(find("electra-tiny-weighted"))
    data["objectives"] = [
        {"kind": "LearnedWeight", "objective": {"kind": "GeneratorLM", "weight": 1.0}},
        {"kind": "LearnedWeight", "objective": {"kind": "ReplacedToken", "weight": 20.0}},
    ]
    assert recipe_from_json(data).objectives == (
        GeneratorLM(learned_weight=True),
        ReplacedToken(weight=20.0, learned_weight=True),
    )


@pytest.mark.parametrize(
    ("old", "heads", "new"),
    [
        ("heads.generator_lm.log_variance", {"generator_lm"}, "log_variances.generator_lm"),
        ("heads.generator_lm.log_variance|exp_avg", {"generator_lm"}, "log_variances.generator_lm|exp_avg"),
        ("heads.replaced_token.inner.verdict.bias", {"replaced_token"}, "heads.replaced_token.verdict.bias"),
        ("heads.causal_lm.vocabulary.bias", {AdaptiveLM.name}, "heads.adaptive_lm.vocabulary.bias"),
        ("heads.causal_lm.after_next.0.weight|step", {AuxiliaryLM.name}, "heads.auxiliary_lm.after_next.0.weight|step"),
        ("heads.causal_lm.vocabulary.bias", {CausalLM.name}, "heads.causal_lm.vocabulary.bias"),
        ("heads.label.classify.bias", {AdaptiveLM.name}, "heads.label.classify.bias"),
        ("model.blocks.0.inner.weight", {AdaptiveLM.name}, "model.blocks.0.inner.weight"),
    ],
)
def test_a_weight_has_the_name_of_today(old, heads, new):
    assert current_weight(old, heads) == new


def test_weights_keep_their_values():
    bias = torch.ones(3)
    assert current_weights({"heads.causal_lm.vocabulary.bias": bias}, {"adaptive_lm"}) == {
        "heads.adaptive_lm.vocabulary.bias": bias
    }


OLD_NAMES = [
    ("bert-base", "architecture.longest", "600", lambda recipe: recipe.architecture.max_length),
    ("lstm-medium", "architecture.spread", "0.25", lambda recipe: recipe.architecture.initial_range),
    ("roberta-base", "architecture.start", "truncated", lambda recipe: recipe.architecture.initialiser),
    ("spanbert-base", "corruption.longest", "4", lambda recipe: recipe.corruption[1].max_length),
    ("spanbert-base", "corruption.span_masking.longest", "4", lambda recipe: recipe.corruption[1].max_length),
    ("spanbert-base", "streams.text.longest", "4", lambda recipe: recipe.corruption[1].max_length),
    ("spanbert-base", "streams.text.span_masking.longest", "4", lambda recipe: recipe.corruption[1].max_length),
    ("bert-base", "schedule.rate", "0.25", lambda recipe: recipe.schedule.learning_rate),
]


@pytest.mark.parametrize(("recipe", "name", "text", "found"), OLD_NAMES, ids=[case[1] for case in OLD_NAMES])
def test_an_old_name_of_a_setting_is_accepted(recipe, name, text, found):
    assert str(found(settle(find(recipe), [f"{name}={text}"]).recipe)) == text


def test_an_old_name_of_a_task_setting_is_accepted():
    assert settle_task(["task.rate=0.25"], None)[0].learning_rate == 0.25


def test_an_old_name_without_its_axis_is_answered_with_the_new_one():
    with pytest.raises(SettingError, match=r"There is no setting 'longest'. Did you mean 'architecture.max_length'\?"):
        settle(find("bert-base"), ["longest=3"])


def renamed(data: dict, **names: str) -> dict:
    return {names.get(name, name): value for name, value in data.items()}


@pytest.mark.parametrize("name", ["bert-base", "roberta-base", "lstm-medium", "spanbert-base", "xlnet-base"])
def test_a_recipe_of_before_the_renames_is_read(name):
    data = to_json(find(name))
    data["architecture"] = renamed(
        data["architecture"], max_length="longest", initial_range="spread", initialiser="start"
    )
    data["schedule"] = renamed(data["schedule"], learning_rate="rate")
    data["tuning"] = renamed(data["tuning"], learning_rate="rate")
    for stream in data["streams"]:
        stream["maskings"] = [renamed(masking, max_length="longest") for masking in stream["maskings"]]
    assert recipe_from_json(data) == find(name)


def test_a_fine_tuned_model_of_before_the_renames_is_read():
    recipe = find("roberta-base")
    architecture = renamed(to_json(recipe.architecture), max_length="longest", initialiser="start")
    assert choice_of("architecture")(architecture) == recipe.architecture
    assert choice_of("tuning")(renamed(to_json(recipe.tuning), learning_rate="rate")) == recipe.tuning
    assert upgraded_run({"task": {"rate": 0.25, "epochs": 2}}) == {"task": {"learning_rate": 0.25, "epochs": 2}}


def test_the_result_of_a_fine_tuning_of_before_the_renames_is_read():
    assert upgraded_run({"result": {"spread": {"dev": {}}, "step": 3}}) == {
        "result": {"over_seeds": {"dev": {}}, "step": 3}
    }
