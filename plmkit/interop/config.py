"""Checks of the settings in a Hugging Face config.json before a network is built from them."""

import math
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plmkit.errors import InputError
from plmkit.language import tr

MOST, MOST_LAYERS = 1_000_000, 1_000  # far more than any network that could run here
COUNTS = (
    "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings", "type_vocab_size",
    "embedding_size", "n_embd", "n_head", "n_positions", "d_model", "d_inner",
    "dim", "hidden_dim", "n_heads",
)  # fmt: skip
LAYERS = ("num_hidden_layers", "num_hidden_groups", "inner_group_num", "n_layer", "n_layers")
OPEN_COUNTS = ("n_inner", "mem_len", "reuse_len")  # null means the default of the family
SHARES = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "seq_classif_dropout", "qa_dropout",
    "resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout",
)  # fmt: skip
EPSILONS = ("layer_norm_eps", "layer_norm_epsilon")
TEXTS = (
    "model_type",
    "hidden_act",
    "activation",
    "activation_function",
    "afn",
    "ff_activation",
    "position_embedding_type",
)

Rule = tuple[Callable[[Any], bool], str]  # whether a value is possible, and what is expected


def is_count(most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and 1 <= value <= most


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def rules() -> dict[str, Rule]:
    """For each setting, the values that are possible."""
    return {
        **dict.fromkeys(COUNTS, (is_count(MOST), tr("a whole number from 1 to {most:,}", most=MOST))),
        **dict.fromkeys(LAYERS, (is_count(MOST_LAYERS), tr("a whole number from 1 to {most:,}", most=MOST_LAYERS))),
        **dict.fromkeys(
            OPEN_COUNTS,
            (
                lambda value: value in (None, 0) or is_count(MOST)(value),
                tr("null or a whole number up to {most:,}", most=MOST),
            ),
        ),
        **dict.fromkeys(
            SHARES, (lambda value: is_number(value) and 0 <= value < 1, tr("a number of at least 0 and below 1"))
        ),
        **dict.fromkeys(EPSILONS, (lambda value: is_number(value) and 0 < value < 1, tr("a number between 0 and 1"))),
        **dict.fromkeys(TEXTS, (lambda value: isinstance(value, str), tr("a string"))),
        "architectures": (
            lambda value: value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value)),
            tr("a list of names"),
        ),
        "id2label": (lambda value: value is None or isinstance(value, dict), tr("an object with labels by number")),
    }


def check_settings(config: dict[str, Any], path: Path) -> None:
    """Refuse impossible values."""
    for name, (is_possible, expected) in rules().items():
        if name in config and not is_possible(config[name]):
            raise InputError(
                tr(
                    "{path}: {name} is {value}; it must be {expected}.",
                    path=path,
                    name=name,
                    value=reprlib.repr(config[name]),
                    expected=expected,
                )
            )
    if "quantization_config" in config:
        raise InputError(
            tr("{path}: the weights are quantized, which is not supported. Use the original model.", path=path)
        )
