"""What the families of BERT have in common: settings, and the names of most weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plmkit.architectures.encoder import Encoder
from plmkit.errors import InputError
from plmkit.interop.families.family import Pair

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
KINDS = ("weight", "bias")

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

OTHER_NETWORKS = {
    "is_decoder": "reads from left to right, though built as an encoder",
    "add_cross_attention": "attends to the states of another network",
}


def plain(architecture: Any) -> bool:
    """Is this the encoder of BERT, whatever its numbers?"""
    return (
        isinstance(architecture, Encoder)
        and architecture.first == 0
        and not architecture.is_narrow
        and architecture.pooler_activation == "tanh"
    )


def linear(ours: str, theirs: str) -> dict[str, str]:
    """The weight and the bias of one layer."""
    return {f"{ours}.{kind}": f"{theirs}.{kind}" for kind in KINDS}


def embedding_pairs(prefix: str) -> Iterator[Pair]:
    for ours, theirs in EMBEDDINGS.items():
        yield f"model.embed.{ours}", (f"{prefix}.embeddings.{theirs}",)


def block_pairs(ours: str, theirs: str, attention: str, layers: dict[str, str]) -> Iterator[Pair]:
    """One block; the joint query, key and value matrix is three of theirs, one under the other."""
    for kind in KINDS:
        parts = tuple(f"{theirs}.{attention}.{part}.{kind}" for part in ("query", "key", "value"))
        yield f"{ours}.attention.query_key_value.{kind}", parts
        for our_layer, their_layer in layers.items():
            yield f"{ours}.{our_layer}.{kind}", (f"{theirs}.{their_layer}.{kind}",)


def encoder_pairs(prefix: str, layers: int, pooler: str) -> Iterator[Pair]:
    """An encoder of blocks that are all their own, as BERT's."""
    yield from embedding_pairs(prefix)
    for layer in range(layers):
        stem = f"{prefix}.encoder.layer.{layer}"
        yield from block_pairs(f"model.blocks.{layer}", stem, "attention.self", BLOCK)
    for kind in KINDS:
        yield f"model.pooler.{kind}", (f"{pooler}.{kind}",)


def read_shape(config: dict[str, Any], where: Path, defaults: dict[str, Any]) -> dict[str, Any]:
    """The settings that all have, by our names; `defaults` are what the family means by saying nothing."""
    config = defaults | config
    for name, meaning in OTHER_NETWORKS.items():
        if config.get(name):
            raise InputError(f"{where}: {name} is {config[name]}: this network {meaning}, which none here does.")
    activation = config["hidden_act"]
    if activation not in ACTIVATIONS:
        raise InputError(f"{where}: hidden_act '{activation}' is not known; there are {', '.join(ACTIVATIONS)}.")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(f"{where}: only absolute positions can be read.")
    try:
        return {
            "layers": config["num_hidden_layers"],
            "heads": config["num_attention_heads"],
            "width": config["hidden_size"],
            "inner": config["intermediate_size"],
            "longest": config["max_position_embeddings"],
            "segments": config["type_vocab_size"],
            "activation": ACTIVATIONS[activation],
            "dropout": config["hidden_dropout_prob"],
            "attention_dropout": config["attention_probs_dropout_prob"],
            "epsilon": config["layer_norm_eps"],
        }
    except KeyError as error:
        raise InputError(f"{where / 'config.json'} does not say {error}.") from error


BERT_DEFAULTS = {
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
}


def write_shape(architecture: Any) -> dict[str, Any]:
    """The settings that all have, by their names."""
    return {
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.layers,
        "num_attention_heads": architecture.heads,
        "intermediate_size": architecture.inner,
        "max_position_embeddings": architecture.longest,
        "type_vocab_size": architecture.segments,
        "hidden_act": ACTIVATION_NAMES[architecture.activation],
        "hidden_dropout_prob": architecture.dropout,
        "attention_probs_dropout_prob": architecture.attention_dropout,
        "layer_norm_eps": architecture.epsilon,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
    }
