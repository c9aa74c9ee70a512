"""GPT-1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plmkit.architectures.decoder import PostNormDecoder
from plmkit.errors import InputError
from plmkit.interop.families import decoders
from plmkit.interop.families.decoders import DEFAULTS, decoder_pairs, read_decoder, write_decoder
from plmkit.interop.families.family import Pair

MODEL_TYPE, TITLE = "openai-gpt", "GPT-1"
RECIPE = "gpt1"
PREFIX, DECODER, HEADS, SEGMENTS = decoders.PREFIX, decoders.DECODER, decoders.HEADS, decoders.SEGMENTS
as_ours, as_theirs, networks = decoders.as_ours, decoders.as_theirs, decoders.networks
CLASSES: dict[str, dict[str, str]] = {
    "OpenAIGPTLMHeadModel": {"causal_lm": "logits"},
    "OpenAIGPTForSequenceClassification": {"label": "logits"},
    "OpenAIGPTModel": {},
}
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}  # here their `gelu` is the form with tanh
ACTIVATION_NAMES = {ours: theirs for theirs, ours in ACTIVATIONS.items()}


def writes(architecture: Any) -> bool:
    return (
        isinstance(architecture, PostNormDecoder)
        and architecture.inner == 4 * architecture.width
        and architecture.activation in ACTIVATION_NAMES
    )


def architecture(config: dict[str, Any], where: Path) -> PostNormDecoder:
    activation = config.get("afn", "gelu")
    if activation not in ACTIVATIONS:
        raise InputError(f"{where}: afn '{activation}' is not known; there are {', '.join(ACTIVATIONS)}.")
    shape = read_decoder(config, where, DEFAULTS | {"n_positions": 512})
    return PostNormDecoder(**shape, inner=4 * shape["width"], activation=ACTIVATIONS[activation])


def config(architecture: Any) -> dict[str, Any]:
    return {**write_decoder(architecture), "afn": ACTIVATION_NAMES[architecture.activation]}


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    return decoder_pairs(architecture.layers, "tokens_embed", "positions_embed")
