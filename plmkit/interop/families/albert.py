"""ALBERT: one group of layers where all is shared, as many groups as layers where not."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.common import (
    BERT_DEFAULTS,
    KINDS,
    block_pairs,
    embedding_pairs,
    linear,
    read_shape,
    write_shape,
)
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "albert", "ALBERT", "albert"
RECIPE = "albert-base"
DECODER = "predictions.decoder.weight"
HEADS: dict[str, dict[str, str]] = {
    "masked_lm": {
        **linear("vocabulary.transform", "predictions.dense"),
        **linear("vocabulary.norm", "predictions.LayerNorm"),
        "vocabulary.bias": "predictions.bias",
    },
    "sentence_order": linear("classify", "sop_classifier.classifier"),
    "label": linear("classify", "classifier"),
}
CLASSES: dict[str, dict[str, str]] = {
    "AlbertForPreTraining": {"masked_lm": "prediction_logits", "sentence_order": "sop_logits"},
    "AlbertForMaskedLM": {"masked_lm": "logits"},
    "AlbertForSequenceClassification": {"label": "logits"},
    "AlbertModel": {},
}
BLOCK = {
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.expand": "ffn",
    "feed_forward.contract": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
DEFAULTS: dict[str, Any] = {
    **BERT_DEFAULTS,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}


def writes(architecture: Any) -> bool:
    return isinstance(architecture, SharedEncoder)


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    """Theirs always has a projection; where ours has none, it changes nothing."""
    if architecture.embedding is None:
        width = architecture.width
        passing = {"model.project.weight": torch.eye(width), "model.project.bias": torch.zeros(width)}
        architecture, weights = replace(architecture, embedding=width), weights | passing
    return [Net(architecture=architecture, weights=weights)]


def architecture(config: dict[str, Any], where: Path) -> SharedEncoder:
    said = DEFAULTS | config
    shape = read_shape(config, where, DEFAULTS)
    groups, layers = said["num_hidden_groups"], shape["layers"]
    if groups not in (1, layers) or said["inner_group_num"] != 1:
        raise InputError(
            f"{where}: {layers} layers in {groups} groups of {said['inner_group_num']} cannot be read; "
            "only one layer for all (1 group), or a group for each, of one layer."
        )
    return SharedEncoder(**shape, embedding=said["embedding_size"], sharing="all" if groups == 1 else "none")


def config(architecture: Any) -> dict[str, Any]:
    return {
        **write_shape(architecture),
        "embedding_size": architecture.embedding,
        "num_hidden_groups": 1 if architecture.sharing == "all" else architecture.layers,
        "inner_group_num": 1,
    }


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    """Sublayers that are shared alone, which they have not, are written out for every layer."""
    yield from embedding_pairs(PREFIX)
    for layer in range(1 if architecture.sharing == "all" else architecture.layers):
        stem = f"{PREFIX}.encoder.albert_layer_groups.{layer}.albert_layers.0"
        for ours, theirs in block_pairs(f"model.blocks.{layer}", stem, "attention", BLOCK):
            shared = ours.startswith(f"model.blocks.{layer}.{architecture.sharing}.")
            yield (ours.replace(f".{layer}.", ".0.", 1) if shared else ours), theirs
    for kind in KINDS:
        yield f"model.project.{kind}", (f"{PREFIX}.encoder.embedding_hidden_mapping_in.{kind}",)
        yield f"model.pooler.{kind}", (f"{PREFIX}.pooler.{kind}",)
