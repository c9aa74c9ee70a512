"""Models of every kind, tiny and with random weights, ready to be looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from plmkit.catalogue import find
from plmkit.inference.model import Model
from plmkit.network import Network
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.wordpiece import WordPiece

LINES = ["the cat sees a house.", "a bird hears the moon.", "it is a well-known song.", "我的狗很可爱。"] * 5
SIZES = {"layers": 2, "heads": 2, "width": 16, "inner": 32, "max_length": 24, "embedding": 16}


def tokenizer_for(recipe: Any) -> Tokenizer:
    return (WordPiece(size=150) if recipe.architecture.generates == "no" else ByteBPE(size=300)).train(LINES)


def tiny_model(name: str, **settings: Any) -> Model:
    """A recipe of the catalogue, with two layers of two heads, and weights large enough that tokens matter."""
    recipe = find(name)
    known = {key: value for key, value in SIZES.items() if getattr(recipe.architecture, key, None) is not None}
    architecture = replace(recipe.architecture, **(known | settings))
    tokenizer = tokenizer_for(recipe)
    torch.manual_seed(0)
    model = architecture.build(tokenizer.vocabulary)
    heads = {objective.name: objective.build(model) for objective in recipe.objectives}
    network = Network(model, heads, dict.fromkeys(heads, 1.0))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return Model(network=network, architecture=architecture, tokenizer=tokenizer, folder=Path(name))
