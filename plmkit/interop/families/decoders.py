"""Decoders: GPT-1, GPT-2, and GPT-3 if its bands are as wide as its rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.contract import Architecture
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.architectures.recurrent import Recurrent
from plmkit.errors import InputError
from plmkit.interop.families.encoders import ACTIVATION_NAMES, ACTIVATIONS, check_only, linear
from plmkit.interop.families.family import SPAN, Family, Pair
from plmkit.language import comma, tr

BLOCK = {
    **linear("attention_norm", "ln_1"),
    **linear("attention.query_key_value", "attn.c_attn"),
    **linear("attention.output", "attn.c_proj"),
    **linear("feed_forward_norm", "ln_2"),
    **linear("feed_forward.expand", "mlp.c_fc"),
    **linear("feed_forward.contract", "mlp.c_proj"),
}
TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # their (input, output) is our (output, input)
DEFAULTS: dict[str, Any] = {
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "resid_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
}
GPT2_ONLY: dict[str, Any] = {  # defaults, and the only values that are supported
    "add_cross_attention": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
}
GPT1_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}  # here `gelu` means the tanh approximation
GPT1_ACTIVATION_NAMES = {ours: theirs for theirs, ours in GPT1_ACTIVATIONS.items()}


class DecoderFamily(Family):
    """What GPT-1 and GPT-2 have in common."""

    PREFIX, DECODER = "transformer", "lm_head.weight"
    HEADS: ClassVar = {
        "causal_lm": {},  # the tied token embedding is its only weight
        "label": {"classify.weight": "score.weight"},
    }
    SEGMENTS = False  # transformers would add a token embedding per segment

    def as_theirs(self, name: str, ours: Tensor, architecture: Any) -> Tensor:
        return ours.T.contiguous() if name.endswith(TRANSPOSED) else ours

    def as_ours(self, name: str, theirs: Tensor, architecture: Any) -> Tensor:
        return theirs.T.contiguous() if name.endswith(TRANSPOSED) else theirs


class GPT2(DecoderFamily):
    """GPT-2 (Radford et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE = "gpt2", "GPT-2", "gpt2-small"
    HEADS: ClassVar = {
        **DecoderFamily.HEADS,
        "tag": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
    }
    CLASSES: ClassVar = {
        "GPT2LMHeadModel": {"causal_lm": "logits"},
        "GPT2ForSequenceClassification": {"label": "logits"},
        "GPT2ForTokenClassification": {"tag": "logits"},
        "GPT2ForQuestionAnswering": {"span": SPAN},
        "GPT2Model": {},
    }
    REFUSALS: ClassVar = {
        BandedDecoder: lambda: tr("GPT-2 has no banded attention"),
        CharacterDecoder: lambda: tr("transformers has no decoder with position embeddings at every layer"),
        Recurrent: lambda: tr("transformers has no LSTM"),
    }

    def writes(self, architecture: Architecture) -> bool:
        if isinstance(architecture, BandedDecoder):
            return architecture.band >= architecture.max_length
        return isinstance(architecture, Decoder)

    def architecture(self, config: dict[str, Any], where: Path) -> Decoder:
        check_only(config, GPT2_ONLY, where)
        activation = config.get("activation_function", "gelu_new")
        if activation not in ACTIVATIONS:
            raise InputError(
                tr(
                    "{where}: activation_function '{activation}' is unknown; known: {activations}.",
                    where=where,
                    activation=activation,
                    activations=comma().join(ACTIVATIONS),
                )
            )
        shape = read_decoder(config, where, DEFAULTS | {"n_positions": 1024})
        return Decoder(**shape, inner=config.get("n_inner") or 4 * shape["width"], activation=ACTIVATIONS[activation])

    def config(self, architecture: Any) -> dict[str, Any]:
        return {
            **write_decoder(architecture),
            "n_inner": architecture.inner,
            "activation_function": ACTIVATION_NAMES[architecture.activation],
        }

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        yield from decoder_pairs(self.PREFIX, architecture.layers, "wte", "wpe")
        for kind in ("weight", "bias"):
            yield f"model.norm.{kind}", (f"{self.PREFIX}.ln_f.{kind}",)


class GPT1(DecoderFamily):
    """GPT-1 (Radford et al., 2018)."""

    MODEL_TYPE, TITLE, RECIPE = "openai-gpt", "GPT-1", "gpt1"
    CLASSES: ClassVar = {
        "OpenAIGPTLMHeadModel": {"causal_lm": "logits"},
        "OpenAIGPTForSequenceClassification": {"label": "logits"},
        "OpenAIGPTModel": {},
    }
    REFUSALS: ClassVar = {PostNormDecoder: lambda: tr("GPT-1's feed-forward width is four times its width")}

    def writes(self, architecture: Architecture) -> bool:
        return (
            isinstance(architecture, PostNormDecoder)
            and architecture.inner == 4 * architecture.width
            and architecture.activation in GPT1_ACTIVATION_NAMES
        )

    def architecture(self, config: dict[str, Any], where: Path) -> PostNormDecoder:
        activation = config.get("afn", "gelu")
        if activation not in GPT1_ACTIVATIONS:
            raise InputError(
                tr(
                    "{where}: afn '{activation}' is unknown; known: {activations}.",
                    where=where,
                    activation=activation,
                    activations=comma().join(GPT1_ACTIVATIONS),
                )
            )
        shape = read_decoder(config, where, DEFAULTS | {"n_positions": 512})
        return PostNormDecoder(**shape, inner=4 * shape["width"], activation=GPT1_ACTIVATIONS[activation])

    def config(self, architecture: Any) -> dict[str, Any]:
        return {**write_decoder(architecture), "afn": GPT1_ACTIVATION_NAMES[architecture.activation]}

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        return decoder_pairs(self.PREFIX, architecture.layers, "tokens_embed", "positions_embed")


def decoder_pairs(prefix: str, layers: int, tokens: str, positions: str) -> Iterator[Pair]:
    yield "model.embed.tokens.weight", (f"{prefix}.{tokens}.weight",)
    yield "model.embed.positions.weight", (f"{prefix}.{positions}.weight",)
    for layer in range(layers):
        for ours, theirs in BLOCK.items():
            yield f"model.blocks.{layer}.{ours}", (f"{prefix}.h.{layer}.{theirs}",)


def read_decoder(config: dict[str, Any], where: Path, defaults: dict[str, Any]) -> dict[str, Any]:
    """The settings that both have, under our names; `defaults` are those of the family."""
    config = defaults | config
    if not config.get("tie_word_embeddings", True):
        raise InputError(
            tr("{where}: only output embeddings that are tied to the token embeddings are supported.", where=where)
        )
    return {
        "layers": config["n_layer"],
        "heads": config["n_head"],
        "width": config["n_embd"],
        "max_length": config["n_positions"],
        "dropout": config["resid_pdrop"],
        "attention_dropout": config["attn_pdrop"],
        "epsilon": config["layer_norm_epsilon"],
    }


def write_decoder(architecture: Any) -> dict[str, Any]:
    """The same under their names."""
    return {
        "n_layer": architecture.layers,
        "n_head": architecture.heads,
        "n_embd": architecture.width,
        "n_positions": architecture.max_length,
        "resid_pdrop": architecture.dropout,
        "embd_pdrop": architecture.dropout,
        "attn_pdrop": architecture.attention_dropout,
        "layer_norm_epsilon": architecture.epsilon,
        "initializer_range": 0.02,
    }
