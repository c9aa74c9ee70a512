"""DistilBERT: half of BERT's layers, without segment embeddings and without a pooler."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from plmkit.architectures.contract import Architecture
from plmkit.architectures.encoder import Encoder
from plmkit.errors import InputError
from plmkit.interop.families.encoders import (
    ACTIVATION_NAMES,
    PARAMETERS,
    linear,
    read_shape,
    vocabulary_head,
)
from plmkit.interop.families.family import SPAN, Family, Pair
from plmkit.language import tr

NAMES = {  # BERT's names of settings, and theirs
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
DEFAULTS: dict[str, Any] = {
    "dim": 768,
    "n_layers": 6,
    "n_heads": 12,
    "hidden_dim": 3072,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "max_position_embeddings": 512,
}
FIXED = {"type_vocab_size": 0, "layer_norm_eps": 1e-12}
EMBEDDINGS = {
    "tokens.weight": "word_embeddings.weight",
    "positions.weight": "position_embeddings.weight",
    "norm.weight": "LayerNorm.weight",
    "norm.bias": "LayerNorm.bias",
}
BLOCK = {
    **linear("attention.output", "attention.out_lin"),
    **linear("attention_norm", "sa_layer_norm"),
    **linear("feed_forward.expand", "ffn.lin1"),
    **linear("feed_forward.contract", "ffn.lin2"),
    **linear("feed_forward_norm", "output_layer_norm"),
}


class DistilBert(Family):
    """DistilBERT (Sanh et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "distilbert", "DistilBERT", "distilbert-base", "distilbert"
    DECODER = "vocab_projector.weight"
    SEGMENTS = False
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(dense="vocab_transform", norm="vocab_layer_norm", bias="vocab_projector.bias"),
        "label": linear("classify", "classifier"),
        "choice": linear("classify", "classifier"),
        "tag": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "DistilBertForMaskedLM": {"masked_lm": "logits"},
        "DistilBertForSequenceClassification": {"label": "logits"},
        "DistilBertForMultipleChoice": {"choice": "logits"},
        "DistilBertForTokenClassification": {"tag": "logits"},
        "DistilBertForQuestionAnswering": {"span": SPAN},
        "DistilBertModel": {},
    }

    def writes(self, architecture: Architecture) -> bool:
        return (
            isinstance(architecture, Encoder)
            and architecture.is_berts
            and architecture.segments == architecture.first == 0
            and not architecture.is_narrow
            and architecture.epsilon == FIXED["layer_norm_eps"]
            and architecture.pooler_activation == "relu"
            and not architecture.pooler_dropout
        )

    def architecture(self, config: dict[str, Any], where: Path) -> Encoder:
        if not config.get("tie_weights_", True):
            raise InputError(
                tr("{where}: only output embeddings that are tied to the token embeddings are supported.", where=where)
            )
        return Encoder(**self.shape(config, where), pooler_activation="relu")

    def shape(self, config: dict[str, Any], where: Path) -> dict[str, Any]:
        given = DEFAULTS | config
        return read_shape({**given, **{berts: given[theirs] for berts, theirs in NAMES.items()}, **FIXED}, where, {})

    def config(self, architecture: Any) -> dict[str, Any]:
        return {
            "dim": architecture.width,
            "n_layers": architecture.layers,
            "n_heads": architecture.heads,
            "hidden_dim": architecture.inner,
            "activation": ACTIVATION_NAMES[architecture.activation],
            "dropout": architecture.dropout,
            "attention_dropout": architecture.attention_dropout,
            "seq_classif_dropout": architecture.dropout,
            "qa_dropout": architecture.dropout,
            "max_position_embeddings": architecture.max_length,
            "sinusoidal_pos_embds": False,
            "initializer_range": 0.02,
        }

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """Only their heads for whole rows have a pooler, beside the network."""
        for ours, theirs in EMBEDDINGS.items():
            yield f"model.embed.{ours}", (f"{self.PREFIX}.embeddings.{theirs}",)
        for layer in range(architecture.layers):
            stem = f"{self.PREFIX}.transformer.layer.{layer}"
            for kind in PARAMETERS:
                parts = tuple(f"{stem}.attention.{part}.{kind}" for part in ("q_lin", "k_lin", "v_lin"))
                yield f"model.blocks.{layer}.attention.query_key_value.{kind}", parts
            for ours, theirs in BLOCK.items():
                yield f"model.blocks.{layer}.{ours}", (f"{stem}.{theirs}",)
        for kind in PARAMETERS:
            yield f"model.pooler.{kind}", (f"pre_classifier.{kind}",)
