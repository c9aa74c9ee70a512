"""Encoders: BERT (and what loads as BERT: whole-word BERT, SpanBERT), ERNIE 1 and RoBERTa."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.task_encoder import TaskEncoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.family import SPAN, Family, Net, Pair
from plmkit.language import comma, tr

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
PARAMETERS = ("weight", "bias")  # of a linear layer or a layer normalisation

EMBEDDINGS = {
    "tokens.weight": "word_embeddings.weight",
    "positions.weight": "position_embeddings.weight",
    "segments.weight": "token_type_embeddings.weight",
    "norm.weight": "LayerNorm.weight",
    "norm.bias": "LayerNorm.bias",
}
BLOCK = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}


def unsupported_networks() -> dict[str, str]:
    """Settings of networks that are not encoders, and what they mean."""
    return {
        "is_decoder": tr("is an encoder used as a causal decoder"),
        "add_cross_attention": tr("has cross-attention to another network"),
    }


def linear(ours: str, theirs: str) -> dict[str, str]:
    """The weight and the bias of one layer."""
    return {f"{ours}.{kind}": f"{theirs}.{kind}" for kind in PARAMETERS}


def vocabulary_head(*, dense: str, norm: str, bias: str) -> dict[str, str]:
    """A layer before the token embeddings, and the bias after them, as in BERT."""
    return {**linear("vocabulary.transform", dense), **linear("vocabulary.norm", norm), "vocabulary.bias": bias}


def embedding_pairs(prefix: str) -> Iterator[Pair]:
    for ours, theirs in EMBEDDINGS.items():
        yield f"model.embed.{ours}", (f"{prefix}.embeddings.{theirs}",)


def block_pairs(ours: str, theirs: str, attention: str, layers: dict[str, str]) -> Iterator[Pair]:
    """One block; the joint query, key and value matrix is the concatenation of three of theirs."""
    for kind in PARAMETERS:
        parts = tuple(f"{theirs}.{attention}.{part}.{kind}" for part in ("query", "key", "value"))
        yield f"{ours}.attention.query_key_value.{kind}", parts
        for our_layer, their_layer in layers.items():
            yield f"{ours}.{our_layer}.{kind}", (f"{theirs}.{their_layer}.{kind}",)


def encoder_pairs(prefix: str, layers: int, pooler: str) -> Iterator[Pair]:
    """An encoder without shared layers, as BERT."""
    yield from embedding_pairs(prefix)
    for layer in range(layers):
        stem = f"{prefix}.encoder.layer.{layer}"
        yield from block_pairs(f"model.blocks.{layer}", stem, "attention.self", BLOCK)
    for kind in PARAMETERS:
        yield f"model.pooler.{kind}", (f"{pooler}.{kind}",)


def read_shape(config: dict[str, Any], where: Path, defaults: dict[str, Any]) -> dict[str, Any]:
    """The settings that all have, under our names; `defaults` are those of the family."""
    config = defaults | config
    for name, meaning in unsupported_networks().items():
        if config.get(name):
            raise InputError(
                tr(
                    "{where}: {name} is {value}: this network {meaning}, which is not supported.",
                    where=where,
                    name=name,
                    value=config[name],
                    meaning=meaning,
                )
            )
    activation = config["hidden_act"]
    if activation not in ACTIVATIONS:
        raise InputError(
            tr(
                "{where}: hidden_act '{activation}' is unknown; known: {activations}.",
                where=where,
                activation=activation,
                activations=comma().join(ACTIVATIONS),
            )
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(tr("{where}: only absolute position embeddings are supported.", where=where))
    try:
        return {
            "layers": config["num_hidden_layers"],
            "heads": config["num_attention_heads"],
            "width": config["hidden_size"],
            "inner": config["intermediate_size"],
            "max_length": config["max_position_embeddings"],
            "segments": config["type_vocab_size"],
            "activation": ACTIVATIONS[activation],
            "dropout": config["hidden_dropout_prob"],
            "attention_dropout": config["attention_probs_dropout_prob"],
            "epsilon": config["layer_norm_eps"],
        }
    except KeyError as error:
        raise InputError(tr("{where} has no setting {error}.", where=where / "config.json", error=error)) from error


def check_only(config: dict[str, Any], only: dict[str, Any], where: Path) -> None:
    """Refuse settings other than their defaults, which are the only values that are supported."""
    for name, value in only.items():
        if config.get(name, value) != value:
            raise InputError(
                tr(
                    "{where}: {name} is {given!r}; only {value!r} is supported.",
                    where=where,
                    name=name,
                    given=config[name],
                    value=value,
                )
            )


BERT_DEFAULTS = {
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
}


def write_shape(architecture: Any) -> dict[str, Any]:
    """The settings that all have, under their names."""
    return {
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.layers,
        "num_attention_heads": architecture.heads,
        "intermediate_size": architecture.inner,
        "max_position_embeddings": architecture.max_length,
        "type_vocab_size": architecture.segments,
        "hidden_act": ACTIVATION_NAMES[architecture.activation],
        "hidden_dropout_prob": architecture.dropout,
        "attention_probs_dropout_prob": architecture.attention_dropout,
        "layer_norm_eps": architecture.epsilon,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
    }


class Bert(Family):
    """BERT (Devlin et al., 2018)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "bert", "BERT", "bert-base", "bert"
    DECODER = "cls.predictions.decoder.weight"
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(
            dense="cls.predictions.transform.dense",
            norm="cls.predictions.transform.LayerNorm",
            bias="cls.predictions.bias",
        ),
        "next_sentence": linear("classify", "cls.seq_relationship"),
        "label": linear("classify", "classifier"),
        "choice": linear("classify", "classifier"),
        "tag": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "BertForPreTraining": {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"},
        "BertForMaskedLM": {"masked_lm": "logits"},
        "BertForNextSentencePrediction": {"next_sentence": "logits"},
        "BertForSequenceClassification": {"label": "logits"},
        "BertForMultipleChoice": {"choice": "logits"},
        "BertForTokenClassification": {"tag": "logits"},
        "BertForQuestionAnswering": {"span": SPAN},
        "BertModel": {},
    }
    REFUSALS: ClassVar = {
        Encoder: lambda: tr(
            "BERT's positions start at 0, RoBERTa's after the padding id, with gelu; both have full-width embeddings "
            "and attention without distances"
        )
    }

    def writes(self, architecture: Architecture) -> bool:
        return is_bert(architecture) and architecture.activation != "relu"  # which is ERNIE's

    def architecture(self, config: dict[str, Any], where: Path) -> Encoder:
        return Encoder(**read_shape(config, where, BERT_DEFAULTS))

    def config(self, architecture: Any) -> dict[str, Any]:
        return write_shape(architecture)

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        return encoder_pairs(self.PREFIX, architecture.layers, f"{self.PREFIX}.pooler.dense")


class Ernie(Bert):
    """ERNIE 1: BERT's weights under another name, with ReLU (Sun et al., 2019); ERNIE 2 adds a task embedding."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "ernie", "ERNIE", "ernie-1.0", "ernie"
    CLASSES: ClassVar = {name.replace("Bert", "Ernie"): outputs for name, outputs in Bert.CLASSES.items()}
    REFUSALS: ClassVar = {}
    TASKS = "model.embed.tasks.weight"

    def writes(self, architecture: Architecture) -> bool:
        if isinstance(architecture, TaskEncoder):
            return has_berts_shape(architecture) and architecture.has_berts_layers
        return is_bert(architecture) and architecture.activation == "relu"

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        """Theirs uses the first task embedding if it is given no task: ours of such rows changes places with it."""
        if not isinstance(architecture, TaskEncoder) or architecture.task == 0:
            return [Net(architecture=architecture, weights=weights)]
        order = torch.arange(architecture.tasks)
        order[[0, architecture.task]] = order[[architecture.task, 0]]
        moved = {**weights, self.TASKS: weights[self.TASKS][order]}
        return [Net(architecture=replace(architecture, task=0), weights=moved)]

    def architecture(self, config: dict[str, Any], where: Path) -> Encoder:
        shape = read_shape(config, where, BERT_DEFAULTS)
        if not config.get("use_task_id"):
            return Encoder(**shape)
        return TaskEncoder(**shape, tasks=config.get("task_type_vocab_size", 3))  # their default

    def config(self, architecture: Any) -> dict[str, Any]:
        if architecture.task_count is None:
            return {**write_shape(architecture), "use_task_id": False}
        return {**write_shape(architecture), "use_task_id": True, "task_type_vocab_size": architecture.task_count}

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        if architecture.task_count is not None:
            yield self.TASKS, (f"{self.PREFIX}.embeddings.task_type_embeddings.weight",)
        yield from super().pairs(architecture, heads)


class Roberta(Family):
    """RoBERTa: BERT's encoder, with positions that start after the padding id (Liu et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "roberta", "RoBERTa", "roberta-base", "roberta"
    DECODER = "lm_head.decoder.weight"
    HEADS: ClassVar = {
        "masked_lm": vocabulary_head(dense="lm_head.dense", norm="lm_head.layer_norm", bias="lm_head.bias"),
        "label": linear("classify", "classifier.out_proj"),
        "tag": linear("classify", "classifier"),
        "choice": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "RobertaForMaskedLM": {"masked_lm": "logits"},
        "RobertaForSequenceClassification": {"label": "logits"},
        "RobertaForMultipleChoice": {"choice": "logits"},
        "RobertaForTokenClassification": {"tag": "logits"},
        "RobertaForQuestionAnswering": {"span": SPAN},
        "RobertaModel": {},
    }
    POSITIONS = "model.embed.positions.weight"

    def writes(self, architecture: Architecture) -> bool:
        # transformers' LM head always uses the exact (erf) GELU
        return (
            isinstance(architecture, Encoder)
            and architecture.is_berts
            and architecture.first > 0
            and architecture.segments > 0
            and not architecture.is_narrow
            and architecture.activation == "gelu"
        )

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        """Positions are moved to start where theirs do, after the padding id."""
        first = vocabulary.pad + 1
        positions = weights[self.POSITIONS][architecture.first :]
        unread = weights[self.POSITIONS][: architecture.first]  # rows before the first position
        room = first - len(unread)
        before = [unread[max(0, -room) :], positions.new_zeros(max(0, room), positions.shape[1])]
        moved = torch.cat([*before, positions])
        return [Net(architecture=replace(architecture, first=first), weights={**weights, self.POSITIONS: moved})]

    def architecture(self, config: dict[str, Any], where: Path) -> Encoder:
        shape = read_shape(config, where, BERT_DEFAULTS)
        pad = config.get("pad_token_id", 1)
        if type(pad) is not int or pad < 0:
            raise InputError(
                tr(
                    "{where}: pad_token_id is {pad}, but RoBERTa's positions start after it.\n"
                    "Set it to the id of the padding token in config.json; in the released models it is 1.",
                    where=where,
                    pad=pad,
                )
            )
        first = pad + 1
        if shape["activation"] != "gelu":
            raise InputError(
                tr("{where}: only hidden_act 'gelu' is supported, which RoBERTa's LM head always has.", where=where)
            )
        shape |= {"max_length": shape["max_length"] - first, "pooler_dropout": shape["dropout"]}
        return Encoder(**shape, first=first, initialiser="normal")

    def config(self, architecture: Any) -> dict[str, Any]:
        return {**write_shape(architecture), "max_position_embeddings": architecture.first + architecture.max_length}

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """The dense layer of their classifier is our pooler."""
        pooler = "classifier.dense" if "label" in heads else f"{self.PREFIX}.pooler.dense"
        return encoder_pairs(self.PREFIX, architecture.layers, pooler)


def is_bert(architecture: Architecture) -> TypeGuard[Encoder]:
    """Whether it is BERT's encoder, of any size."""
    return isinstance(architecture, Encoder) and architecture.is_berts and has_berts_shape(architecture)


def has_berts_shape(architecture: Encoder) -> bool:
    """Whether its positions, its embeddings and its pooler are like BERT's."""
    return (
        architecture.first == 0
        and architecture.segments > 0
        and not architecture.is_narrow
        and architecture.pooler_activation == "tanh"
    )
