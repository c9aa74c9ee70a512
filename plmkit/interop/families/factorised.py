"""Encoders whose embeddings may be narrower than their layers: ALBERT and ELECTRA."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.encoders import (
    BERT_DEFAULTS,
    PARAMETERS,
    block_pairs,
    check_only,
    embedding_pairs,
    encoder_pairs,
    linear,
    read_shape,
    vocabulary_head,
    write_shape,
)
from plmkit.interop.families.family import SPAN, Family, Net, Pair
from plmkit.language import tr

ALBERT_BLOCK = {
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.expand": "ffn",
    "feed_forward.contract": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
ALBERT_DEFAULTS: dict[str, Any] = {
    **BERT_DEFAULTS,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
}
ELECTRA_DEFAULTS: dict[str, Any] = {**BERT_DEFAULTS, "embedding_size": 128}
SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}  # of ELECTRA's choices


class Albert(Family):
    """ALBERT: one group if all layers are shared, one group per layer if none is (Lan et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "albert", "ALBERT", "albert-base", "albert"
    DECODER = "predictions.decoder.weight"
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(dense="predictions.dense", norm="predictions.LayerNorm", bias="predictions.bias"),
        "sentence_order": linear("classify", "sop_classifier.classifier"),
        "label": linear("classify", "classifier"),
        "choice": linear("classify", "classifier"),
        "tag": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "AlbertForPreTraining": {"masked_lm": "prediction_logits", "sentence_order": "sop_logits"},
        "AlbertForMaskedLM": {"masked_lm": "logits"},
        "AlbertForSequenceClassification": {"label": "logits"},
        "AlbertForMultipleChoice": {"choice": "logits"},
        "AlbertForTokenClassification": {"tag": "logits"},
        "AlbertForQuestionAnswering": {"span": SPAN},
        "AlbertModel": {},
    }

    def writes(self, architecture: Architecture) -> bool:
        return isinstance(architecture, SharedEncoder) and architecture.is_berts

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        """Theirs always projects the embeddings; if ours does not, the projection is the identity."""
        if architecture.embedding is None:
            width = architecture.width
            identity = {"model.project.weight": torch.eye(width), "model.project.bias": torch.zeros(width)}
            architecture, weights = replace(architecture, embedding=width), weights | identity
        return [Net(architecture=architecture, weights=weights)]

    def architecture(self, config: dict[str, Any], where: Path) -> SharedEncoder:
        given = ALBERT_DEFAULTS | config
        shape = read_shape(config, where, ALBERT_DEFAULTS)
        groups, layers = given["num_hidden_groups"], shape["layers"]
        if groups not in (1, layers) or given["inner_group_num"] != 1:
            raise InputError(
                tr(
                    "{where}: {layers} layers in {groups} groups of {inner_group_num} are not supported; only one "
                    "group, or one group per layer, with inner_group_num 1.",
                    where=where,
                    layers=layers,
                    groups=groups,
                    inner_group_num=given["inner_group_num"],
                )
            )
        return SharedEncoder(**shape, embedding=given["embedding_size"], sharing="all" if groups == 1 else "none")

    def config(self, architecture: Any) -> dict[str, Any]:
        return {
            **write_shape(architecture),
            "embedding_size": architecture.embedding,
            "num_hidden_groups": 1 if architecture.sharing == "all" else architecture.layers,
            "inner_group_num": 1,
        }

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """Sublayers shared on their own, which theirs does not support, are written for every layer."""
        yield from embedding_pairs(self.PREFIX)
        for layer in range(1 if architecture.sharing == "all" else architecture.layers):
            stem = f"{self.PREFIX}.encoder.albert_layer_groups.{layer}.albert_layers.0"
            for ours, theirs in block_pairs(f"model.blocks.{layer}", stem, "attention", ALBERT_BLOCK):
                shared = ours.startswith(f"model.blocks.{layer}.{architecture.sharing}.")
                yield (ours.replace(f".{layer}.", ".0.", 1) if shared else ours), theirs
        for kind in PARAMETERS:
            yield f"model.project.{kind}", (f"{self.PREFIX}.encoder.embedding_hidden_mapping_in.{kind}",)
            yield f"model.pooler.{kind}", (f"{self.PREFIX}.pooler.{kind}",)


class Electra(Family):
    """ELECTRA: a generator and a discriminator, each a model of its own (Clark et al., 2020)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "electra", "ELECTRA", "electra-base", "electra"
    DECODER = "generator_lm_head.weight"
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(
            dense="generator_predictions.dense", norm="generator_predictions.LayerNorm", bias="generator_lm_head.bias"
        ),
        "replaced_token": {
            **linear("transform", "discriminator_predictions.dense"),
            **linear("verdict", "discriminator_predictions.dense_prediction"),
        },
        "label": linear("classify", "classifier.out_proj"),
        "tag": linear("classify", "classifier"),
        "choice": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "ElectraForMaskedLM": {"masked_lm": "logits"},
        "ElectraForPreTraining": {"replaced_token": "logits"},
        "ElectraForSequenceClassification": {"label": "logits"},
        "ElectraForMultipleChoice": {"choice": "logits"},
        "ElectraForTokenClassification": {"tag": "logits"},
        "ElectraForQuestionAnswering": {"span": SPAN},
        "ElectraModel": {},
    }
    REFUSALS: ClassVar = {GeneratorDiscriminator: lambda: tr("ELECTRA's heads use gelu, its attention no distances")}

    def writes(self, architecture: Architecture) -> bool:
        # transformers' heads always use the exact (erf) GELU
        if isinstance(architecture, GeneratorDiscriminator):
            return architecture.discriminator_encoder.is_berts and architecture.activation == "gelu"
        return (
            isinstance(architecture, Encoder)
            and architecture.is_berts
            and architecture.first == 0
            and architecture.segments > 0
            and architecture.activation == architecture.pooler_activation == "gelu"
        )

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        generator, rest = architecture.generator_alone(weights), architecture.without_generator(weights)
        if generator is None:
            return [Net(**vars(rest))]
        return [Net(**vars(generator), place="generator"), Net(**vars(rest), place="discriminator")]

    def architecture(self, config: dict[str, Any], where: Path) -> Encoder:
        shape = read_shape(config, where, ELECTRA_DEFAULTS)
        if shape["activation"] != "gelu":
            raise InputError(
                tr("{where}: only hidden_act 'gelu' is supported, which ELECTRA's heads always have.", where=where)
            )
        if "ElectraForMultipleChoice" in (config.get("architectures") or ()):
            check_only(config, SUMMARY, where)
        embedding = (ELECTRA_DEFAULTS | config)["embedding_size"]
        return Encoder(**shape, embedding=embedding, pooler_activation="gelu", pooler_dropout=shape["dropout"])

    def config(self, architecture: Any) -> dict[str, Any]:
        return {**write_shape(architecture), "embedding_size": architecture.embedding or architecture.width}

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """Only their heads for whole rows have a pooler, each under its own name."""
        pooler = "sequence_summary.summary" if "choice" in heads else "classifier.dense"
        yield from encoder_pairs(self.PREFIX, architecture.layers, pooler)
        if architecture.is_narrow:
            for kind in PARAMETERS:
                yield f"model.project.{kind}", (f"{self.PREFIX}.embeddings_project.{kind}",)
