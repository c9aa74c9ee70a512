"""Exact parameter counts, without making a single weight."""

import torch

from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.recipe import Recipe


def of_size(size: int) -> Vocabulary:
    """A vocabulary of so many tokens; their names do not matter."""
    return Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"word{number}" for number in range(size - len(SPECIAL_TOKENS)))))


def parameters(recipe: Recipe, vocabulary: int | None = None) -> int:
    """Of the network with its pretraining heads, at the paper's vocabulary unless told."""
    with torch.device("meta"):
        return recipe.build(of_size(vocabulary or recipe.vocabulary)).parameter_count


def encoder_parameters(recipe: Recipe, vocabulary: int | None = None) -> int:
    """Of the encoder with its pooler, without pretraining heads."""
    with torch.device("meta"):
        model = recipe.architecture.build(of_size(vocabulary or recipe.vocabulary))
    return sum(parameter.numel() for parameter in model.parameters())
