"""BERT weights to and from Hugging Face's layout: names, splits and a parity check."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.encoder import Encoder
from plmkit.errors import CheckpointError, FolderError, InputError
from plmkit.files import new_folder, write_json
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.checkpoint import load_tensors, save_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
ACTIVATION_NAMES = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}

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
HEADS = {
    "heads.masked_lm.vocabulary.transform": "cls.predictions.transform.dense",
    "heads.masked_lm.vocabulary.norm": "cls.predictions.transform.LayerNorm",
    "heads.next_sentence.classify": "cls.seq_relationship",
    "heads.label.classify": "classifier",
}
ARCHITECTURES = {
    frozenset({"masked_lm", "next_sentence"}): "BertForPreTraining",
    frozenset({"masked_lm"}): "BertForMaskedLM",
    frozenset({"next_sentence"}): "BertForNextSentencePrediction",
    frozenset({"label"}): "BertForSequenceClassification",
    frozenset[str](): "BertModel",
}
MASKED_BIAS = ("heads.masked_lm.vocabulary.bias", "cls.predictions.bias")


def is_huggingface(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def names(layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name and theirs; the joint query, key and value matrix is three of theirs, one under the other."""
    for ours, theirs in EMBEDDINGS.items():
        yield f"model.embed.{ours}", (f"bert.embeddings.{theirs}",)
    for layer in range(layers):
        for kind in ("weight", "bias"):
            stem = f"bert.encoder.layer.{layer}"
            parts = tuple(f"{stem}.attention.self.{part}.{kind}" for part in ("query", "key", "value"))
            yield f"model.blocks.{layer}.attention.query_key_value.{kind}", parts
            for ours, theirs in BLOCK.items():
                yield f"model.blocks.{layer}.{ours}.{kind}", (f"{stem}.{theirs}.{kind}",)
    for kind in ("weight", "bias"):
        yield f"model.pooler.{kind}", (f"bert.pooler.dense.{kind}",)
        for ours, theirs in HEADS.items():
            yield f"{ours}.{kind}", (f"{theirs}.{kind}",)
    yield MASKED_BIAS[0], (MASKED_BIAS[1],)


def to_huggingface(weights: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our weights under their names; not a bit changes."""
    table = dict(names(layers))
    out: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if name not in table:
            raise CheckpointError(f"The weight '{name}' has no place in a Hugging Face BERT.")
        for theirs, part in zip(table[name], tensor.chunk(len(table[name])), strict=True):
            out[theirs] = part.contiguous()
    return out


def from_huggingface(weights: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Their weights under our names; copies of the tied decoder are dropped, as are names we have no use for."""
    weights = {modern(name): tensor for name, tensor in weights.items()}
    if not any(name.startswith("bert.") for name in weights):
        weights = {f"bert.{name}" if not name.startswith(("cls.", "classifier")) else name: tensor
                   for name, tensor in weights.items()}  # fmt: skip
    return {
        ours: torch.cat([weights[name] for name in theirs])
        for ours, theirs in names(layers)
        if all(name in weights for name in theirs)
    }


def modern(name: str) -> str:
    """TensorFlow-era names of norms."""
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


def config_of(encoder: Encoder, vocabulary_size: int, pad: int, architecture: str) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": vocabulary_size,
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.layers,
        "num_attention_heads": encoder.heads,
        "intermediate_size": encoder.inner,
        "max_position_embeddings": encoder.longest,
        "type_vocab_size": encoder.segments,
        "hidden_act": ACTIVATION_NAMES[encoder.activation],
        "hidden_dropout_prob": encoder.dropout,
        "attention_probs_dropout_prob": encoder.attention_dropout,
        "layer_norm_eps": encoder.epsilon,
        "initializer_range": 0.02,
        "pad_token_id": pad,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / CONFIG} cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise InputError(f"{folder / CONFIG} holds a {type(config).__name__}, not an object of settings.")
    if config.get("model_type") != "bert":
        raise InputError(
            f"{folder} holds a model of type '{config.get('model_type')}'; only 'bert' can be read so far."
        )
    return config


def encoder_of(config: dict[str, Any], where: Path) -> Encoder:
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise InputError(f"{where}: hidden_act '{activation}' is not known; there are {', '.join(ACTIVATIONS)}.")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(f"{where}: only absolute positions can be read.")
    try:
        return Encoder(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            width=config["hidden_size"],
            inner=config["intermediate_size"],
            longest=config.get("max_position_embeddings", 512),
            segments=config.get("type_vocab_size", 2),
            activation=ACTIVATIONS[activation],
            dropout=config.get("hidden_dropout_prob", 0.1),
            attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
            epsilon=config.get("layer_norm_eps", 1e-12),
        )
    except KeyError as error:
        raise InputError(f"{where / CONFIG} does not say {error}.") from error


def read_weights(folder: Path, layers: int) -> dict[str, Tensor]:
    weights = load_tensors(folder / WEIGHTS)
    found = from_huggingface(weights, layers)
    needed = [ours for ours, _ in names(layers) if ours.startswith(("model.embed", "model.blocks"))]
    if missing := [name for name in needed if name not in found]:
        raise CheckpointError(f"{folder / WEIGHTS} is not a whole BERT: '{missing[0]}' is missing.")
    decoder = weights.get("cls.predictions.decoder.weight")
    if decoder is not None and not torch.equal(decoder, found["model.embed.tokens.weight"]):
        raise InputError(f"{folder}: the decoder is not the token table; only tied weights can be read.")
    return found


def write_huggingface(
    folder: Path,
    weights: dict[str, Tensor],
    encoder: Encoder,
    tokenizer: Tokenizer,
    *,
    vocabulary_size: int,
    classes: tuple[str, ...] | None = None,
    numeric: bool = False,
) -> None:
    """A folder that transformers opens, written whole or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FolderError(f"{folder} is not empty and is left as it is. Name a new folder to export to.")
    vocabulary = tokenizer.vocabulary
    config = config_of(encoder, vocabulary_size, vocabulary.pad, architecture_of(weights))
    if classes and not numeric:
        config["id2label"] = {str(number): name for number, name in enumerate(classes)}
        config["label2id"] = {name: number for number, name in enumerate(classes)}
    if numeric:
        config |= {"num_labels": 1, "problem_type": "regression"}
    if folder.is_dir():
        folder.rmdir()
    with new_folder(folder) as partial:
        save_tensors(partial / WEIGHTS, to_huggingface(weights, encoder.layers))
        write_json(partial / CONFIG, config)
        tokenizer.save(partial)


def architecture_of(weights: dict[str, Tensor]) -> str:
    """The class of theirs that has these heads."""
    heads = frozenset(name.split(".")[1] for name in weights if name.startswith("heads."))
    if heads not in ARCHITECTURES:
        raise CheckpointError(f"No Hugging Face BERT has the heads {', '.join(sorted(heads))} together.")
    return ARCHITECTURES[heads]


def transformers_installed() -> bool:
    return importlib.util.find_spec("transformers") is not None


def hub_logits(folder: Path, tokens: Tensor, segments: Tensor, visible: Tensor) -> dict[str, Tensor]:
    """What transformers computes with the folder, by the names of our heads; without any, the hidden states."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(folder).eval()
    with torch.no_grad():
        out = model(input_ids=tokens, token_type_ids=segments, attention_mask=visible.long())
    if hasattr(out, "prediction_logits"):
        return {"masked_lm": out.prediction_logits, "next_sentence": out.seq_relationship_logits}
    if not hasattr(out, "logits"):
        return {"hidden": out.last_hidden_state}
    single = {name: next(iter(heads)) for heads, name in ARCHITECTURES.items() if len(heads) == 1}
    return {single[config.architectures[0]]: out.logits}
