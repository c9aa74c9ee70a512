"""What GPT-1's and GPT-2's folders have in common: settings, and the names of most weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.common import linear
from plmkit.interop.families.family import Net, Pair

PREFIX = "transformer"
DECODER = "lm_head.weight"
SEGMENTS = False  # they would add a token's vector for each segment
HEADS: dict[str, dict[str, str]] = {
    "causal_lm": {},  # the token table is its only weight
    "label": {"classify.weight": "score.weight"},
}
BLOCK = {
    **linear("attention_norm", "ln_1"),
    **linear("attention.query_key_value", "attn.c_attn"),
    **linear("attention.output", "attn.c_proj"),
    **linear("feed_forward_norm", "ln_2"),
    **linear("feed_forward.expand", "mlp.c_fc"),
    **linear("feed_forward.contract", "mlp.c_proj"),
}
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # their (input, output) is our (output, input)


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    return [Net(architecture=architecture, weights=weights)]


def as_theirs(name: str, tensor: Tensor, architecture: Any) -> Tensor:
    return tensor.T.contiguous() if name.endswith(TURNED) else tensor


as_ours = as_theirs  # turning twice is turning back


def decoder_pairs(layers: int, tokens: str, positions: str) -> Iterator[Pair]:
    yield "model.embed.tokens.weight", (f"{PREFIX}.{tokens}.weight",)
    yield "model.embed.positions.weight", (f"{PREFIX}.{positions}.weight",)
    for layer in range(layers):
        for ours, theirs in BLOCK.items():
            yield f"model.blocks.{layer}.{ours}", (f"{PREFIX}.h.{layer}.{theirs}",)


def read_decoder(config: dict[str, Any], where: Path, defaults: dict[str, Any]) -> dict[str, Any]:
    """The settings that both have, by our names; `defaults` are what the family means by saying nothing."""
    config = defaults | config
    if not config.get("tie_word_embeddings", True):
        raise InputError(f"{where}: only tied weights can be read, where the decoder is the token table.")
    return {
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "width": config["n_embd"],
        "longest": config["n_positions"],
        "dropout": config["resid_pdrop"],
        "attention_dropout": config["attn_pdrop"],
        "epsilon": config["layer_norm_epsilon"],
    }


def write_decoder(architecture: Any) -> dict[str, Any]:
    """The same by their names."""
    return {
        "n_layer": architecture.layers,
        "n_head": architecture.heads,
        "n_embd": architecture.width,
        "n_positions": architecture.longest,
        "resid_pdrop": architecture.dropout,
        "embd_pdrop": architecture.dropout,
        "attn_pdrop": architecture.attention_dropout,
        "layer_norm_epsilon": architecture.epsilon,
        "initializer_range": 0.02,
    }


DEFAULTS: dict[str, Any] = {
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "resid_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
}
