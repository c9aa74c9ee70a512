"""What earlier versions wrote is read."""

import pytest
import torch

from plmkit.catalogue import CATALOGUE, find
from plmkit.config.renamed import current_weight, current_weights
from plmkit.config.settings import to_json
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM, CausalLM
from plmkit.objectives.replaced_token import GeneratorLM, ReplacedToken
from plmkit.recipe import recipe_from_json


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
