"""The named ways to distil: what the student is trained on in place of its recipe's objectives."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from plmkit.errors import SettingError, nearest
from plmkit.language import comma, tr
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.contract import Objective
from plmkit.objectives.distillation import EVERY, SoftTargets
from plmkit.objectives.distillation_states import AttentionMatching, CosineStates, HiddenMatching, RelationMatching
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.recipe import Recipe

Shape = dict[str, Any]  # of the teacher, as the fields of `Matching`
Way = Callable[[Objective, Shape], tuple[Objective, ...]]  # the student's LM objective → what it is trained on

METHODS: dict[str, Way] = {
    "distilbert": lambda lm, shape: (  # Sanh et al., 2019, with the loss weights of their code
        replace(lm, weight=2.0), SoftTargets(weight=5.0, temperature=2.0, positions=EVERY), CosineStates(**shape),
    ),
    "tinybert": lambda lm, shape: (HiddenMatching(**shape), AttentionMatching(**shape)),  # Jiao et al., 2020, 3.1
    "minilm": lambda lm, shape: (RelationMatching(**shape),),  # Wang et al., 2020, 3.1 and 3.2
    "soft": lambda lm, shape: (lm, SoftTargets()),  # Hinton et al., 2015
}  # fmt: skip
DEFAULT = "distilbert"
FROZEN_POSITIONS = frozenset({"distilbert"})  # released code: position embeddings of the teacher are not trained


def find_method(name: str) -> Way:
    if name not in METHODS:
        raise SettingError(
            tr(
                "There is no --method '{name}'.{hint} Methods: {known}.",
                name=name,
                hint=nearest(name, METHODS),
                known=comma().join(METHODS),
            )
        )
    return METHODS[name]


def lm_of(recipe: Recipe) -> Objective:
    """The objective of a recipe that predicts tokens."""
    found = next((one for one in recipe.objectives if isinstance(one, MaskedLM | CausalLM)), None)
    if found is None:
        raise SettingError(
            tr(
                "{recipe} predicts no tokens as a teacher does: the student is a recipe with masked LM, such as "
                "bert-mini or roberta-mini, or with causal LM, such as gpt2-mini.",
                recipe=recipe.name,
            )
        )
    return found


def alone(recipe: Recipe) -> Recipe:
    """The recipe with its LM objective alone: the same student without a teacher."""
    return with_objectives(recipe, (lm_of(recipe),))


def distilled(recipe: Recipe, method: str, shape: Shape) -> Recipe:
    """The recipe as a student's, trained by a method on a teacher of this shape."""
    return with_objectives(recipe, find_method(method)(lm_of(recipe), shape))


def with_objectives(recipe: Recipe, objectives: tuple[Objective, ...]) -> Recipe:
    """The recipe with other objectives, which all its streams train that have tokens to predict."""
    kept = [one for one in recipe.streams if any("targets" in step.writes for step in one.steps)] or recipe.streams
    streams = tuple(replace(stream, heads=None) for stream in kept)
    stages = recipe.stages
    if len(kept) < len(recipe.streams):  # shares of steps are those of tasks, which are not trained
        stages = tuple(replace(stage, streams=(), shares=()) for stage in stages)
    initial = recipe.initialisation
    if not any(isinstance(one, MaskedLM | CausalLM) for one in objectives):  # no output layer has a bias
        initial = replace(initial, frequency_bias=False)
    return replace(recipe, objectives=objectives, streams=streams, stages=stages, initialisation=initial)
