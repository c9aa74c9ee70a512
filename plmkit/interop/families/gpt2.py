"""GPT-2, and GPT-3 where its bands are as wide as its rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plmkit.architectures.decoder import BandedDecoder, Decoder
from plmkit.errors import InputError
from plmkit.interop.families import decoders
from plmkit.interop.families.common import ACTIVATION_NAMES, ACTIVATIONS
from plmkit.interop.families.decoders import DEFAULTS, decoder_pairs, read_decoder, write_decoder
from plmkit.interop.families.family import Pair

MODEL_TYPE, TITLE = "gpt2", "GPT-2"
RECIPE = "gpt2-small"
PREFIX, DECODER, HEADS, SEGMENTS = decoders.PREFIX, decoders.DECODER, decoders.HEADS, decoders.SEGMENTS
as_ours, as_theirs, networks = decoders.as_ours, decoders.as_theirs, decoders.networks
CLASSES: dict[str, dict[str, str]] = {
    "GPT2LMHeadModel": {"causal_lm": "logits"},
    "GPT2ForSequenceClassification": {"label": "logits"},
    "GPT2Model": {},
}
ONLY: dict[str, Any] = {  # what it means to say nothing, and all that can be read
    "add_cross_attention": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
}


def writes(architecture: Any) -> bool:
    if isinstance(architecture, BandedDecoder):
        return architecture.band >= architecture.longest
    return isinstance(architecture, Decoder)


def architecture(config: dict[str, Any], where: Path) -> Decoder:
    if other := [name for name, value in ONLY.items() if config.get(name, value) != value]:
        raise InputError(f"{where}: {other[0]} is {config[other[0]]}; only {ONLY[other[0]]} can be read.")
    activation = config.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise InputError(
            f"{where}: activation_function '{activation}' is not known; there are {', '.join(ACTIVATIONS)}."
        )
    shape = read_decoder(config, where, DEFAULTS | {"n_positions": 1024})
    return Decoder(**shape, inner=config.get("n_inner") or 4 * shape["width"], activation=ACTIVATIONS[activation])


def config(architecture: Any) -> dict[str, Any]:
    return {
        **write_decoder(architecture),
        "n_inner": architecture.inner,
        "activation_function": ACTIVATION_NAMES[architecture.activation],
    }


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    yield from decoder_pairs(architecture.layers, "wte", "wpe")
    for kind in ("weight", "bias"):
        yield f"model.norm.{kind}", (f"{PREFIX}.ln_f.{kind}",)
