"""XLNet: matrices of theirs have the heads apart and the input first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.two_stream import TwoStream
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.common import ACTIVATION_NAMES, ACTIVATIONS, KINDS, linear
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "xlnet", "XLNet", "transformer"
RECIPE = "xlnet-base"
DECODER = "lm_loss.weight"
HEADS: dict[str, dict[str, str]] = {
    "permuted_lm": {"vocabulary.bias": "lm_loss.bias"},
    "label": linear("classify", "logits_proj"),
}
CLASSES: dict[str, dict[str, str]] = {
    "XLNetLMHeadModel": {"permuted_lm": "logits"},
    "XLNetForSequenceClassification": {"label": "logits"},
    "XLNetModel": {},
}
LONGEST = 512  # they set no limit; this is what the released models were trained on
DEFAULTS: dict[str, Any] = {
    "ff_activation": "gelu",
    "layer_norm_eps": 1e-12,
    "dropout": 0.1,
    "mem_len": 512,
    "reuse_len": None,
}
ONLY: dict[str, Any] = {  # what it means to say nothing, and all that can be read
    "attn_type": "bi",
    "bi_data": False,
    "clamp_len": -1,
    "same_length": False,
    "untie_r": True,
    "summary_type": "last",
    "summary_use_proj": True,
    "summary_activation": "tanh",
}
ATTENTION = {
    "attention.distance.weight": "rel_attn.r",
    "attention.output.weight": "rel_attn.o",
    "attention.content_bias": "rel_attn.r_w_bias",
    "attention.distance_bias": "rel_attn.r_r_bias",
    "attention.segment_bias": "rel_attn.r_s_bias",
    "attention.segments": "rel_attn.seg_embed",
    **linear("attention_norm", "rel_attn.layer_norm"),
    **linear("feed_forward.expand", "ff.layer_1"),
    **linear("feed_forward.contract", "ff.layer_2"),
    **linear("feed_forward_norm", "ff.layer_norm"),
}
TURNED = ("rel_attn.q", "rel_attn.k", "rel_attn.v", "rel_attn.r")  # their (input, heads, inside) is our (output, input)


def writes(architecture: Any) -> bool:
    return isinstance(architecture, TwoStream)


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    return [Net(architecture=architecture, weights=weights)]


def architecture(config: dict[str, Any], where: Path) -> TwoStream:
    said = DEFAULTS | ONLY | config
    for name, wanted in ONLY.items():
        if said[name] != wanted:
            raise InputError(f"{where}: {name} is {said[name]!r}; only {wanted!r} can be read.")
    if said["ff_activation"] not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise InputError(f"{where}: ff_activation '{said['ff_activation']}' is not known; there are {known}.")
    try:
        return TwoStream(
            layers=said["n_layer"],
            heads=said["n_head"],
            width=said["d_model"],
            inner=said["d_inner"],
            longest=LONGEST,
            memory=said["mem_len"] or 0,
            reuse=(said["reuse_len"] or LONGEST) / LONGEST,
            activation=ACTIVATIONS[said["ff_activation"]],
            dropout=said["dropout"],
            attention_dropout=said["dropout"],
            epsilon=said["layer_norm_eps"],
            pooler=any(name.endswith("ForSequenceClassification") for name in said.get("architectures") or ()),
        )
    except KeyError as error:
        raise InputError(f"{where / 'config.json'} does not say {error}.") from error


def config(architecture: Any) -> dict[str, Any]:
    return {
        "d_model": architecture.width,
        "n_layer": architecture.layers,
        "n_head": architecture.heads,
        "d_head": architecture.width // architecture.heads,
        "d_inner": architecture.inner,
        "ff_activation": ACTIVATION_NAMES[architecture.activation],
        "dropout": architecture.dropout,
        "layer_norm_eps": architecture.epsilon,
        "mem_len": architecture.memory or None,
        "reuse_len": None if architecture.reuse == 1 else round(architecture.reuse * architecture.longest),
        "initializer_range": 0.02,
        **ONLY,
    }


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    yield "model.embed.tokens.weight", (f"{PREFIX}.word_embedding.weight",)
    yield "model.query", (f"{PREFIX}.mask_emb",)
    for layer in range(architecture.layers):
        ours, theirs = f"model.blocks.{layer}", f"{PREFIX}.layer.{layer}"
        joint = tuple(f"{theirs}.rel_attn.{part}" for part in "qkv")
        yield f"{ours}.attention.query_key_value.weight", joint
        for own, other in ATTENTION.items():
            yield f"{ours}.{own}", (f"{theirs}.{other}",)
    for kind in KINDS:
        yield f"model.pooler.{kind}", (f"sequence_summary.summary.{kind}",)


def as_ours(name: str, theirs: Tensor, architecture: Any) -> Tensor:
    """One weight of theirs in our shape."""
    if name.endswith(TURNED):
        return theirs.flatten(1).T.contiguous()
    if name.endswith("rel_attn.o"):
        return theirs.flatten(1)
    return theirs.flatten(1) if name.endswith("mask_emb") else theirs


def as_theirs(name: str, ours: Tensor, architecture: Any) -> Tensor:
    """One weight of ours in their shape."""
    if name.endswith(TURNED):
        return ours.T.contiguous().unflatten(1, (architecture.heads, -1))
    if name.endswith("rel_attn.o"):
        return ours.unflatten(1, (architecture.heads, -1))
    return ours[None] if name.endswith("mask_emb") else ours
