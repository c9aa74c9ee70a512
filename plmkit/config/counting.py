"""Exact parameter counts, without allocating any weights."""

from dataclasses import fields, replace
from typing import Any

import torch

from plmkit.data.vocabulary import Vocabulary, unnamed
from plmkit.recipe import Recipe

NUMBERS = 4  # per weight in training: itself, its gradient, and two moments of the optimizer
NUMBER = 4  # bytes


def training_bytes(count: int) -> int:
    """Memory of this number of weights in training, without activations."""
    return count * NUMBERS * NUMBER


def parts(recipe: Recipe, vocabulary: int | None = None) -> dict[str, int]:
    """For two networks that are trained together, the parameters of each and those they share; otherwise empty."""
    if not recipe.architecture.networks:
        return {}
    with torch.device("meta"):
        network = recipe.build(unnamed(vocabulary or recipe.vocabulary))
    counts = dict.fromkeys((*recipe.architecture.networks, "shared"), 0)
    for name, parameter in network.named_parameters():
        counts[recipe.architecture.network_of(name)] += parameter.numel()
    return counts


def parameters(recipe: Recipe, vocabulary: int | None = None) -> int:
    """Parameters of the network with its pretraining heads (default: with the paper's vocabulary size)."""
    known = unnamed(vocabulary or recipe.vocabulary)
    one, two = (count_layers(recipe, layers, known) for layers in (1, 2))
    return one + (recipe.architecture.layers - 1) * (two - one)  # all further layers are like the second


def count_layers(recipe: Recipe, layers: int, vocabulary: Vocabulary) -> int:
    objectives = tuple(objective.for_any_layers() for objective in recipe.objectives)
    shallow = replace(recipe, architecture=replace(recipe.architecture, layers=layers), objectives=objectives)
    with torch.device("meta"):
        return shallow.build(vocabulary).parameter_count


def sizes_of(architecture: Any) -> dict[str, int]:
    """Its integer settings, by name."""
    values = {field.name: getattr(architecture, field.name) for field in fields(architecture)}
    return {name: value for name, value in values.items() if type(value) is int}


def least_weights(architecture: Any) -> int:
    """A lower bound on the parameters: the largest matrix of a layer, times the number of layers."""
    sizes = sizes_of(architecture)
    layers = 1 if architecture.shares_layers else architecture.layers
    matrix = architecture.width * max(architecture.width, sizes.get("inner", 1), sizes.get("cell", 1))
    return max(layers * matrix, *sizes.values())


def encoder_parameters(recipe: Recipe, vocabulary: int | None = None) -> int:
    """Parameters of the encoder with its pooler, without pretraining heads."""
    with torch.device("meta"):
        model = recipe.architecture.build(unnamed(vocabulary or recipe.vocabulary))
    return sum(parameter.numel() for parameter in model.parameters())
