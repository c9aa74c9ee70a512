"""XLNet, whose matrices have the attention heads as a separate dimension and the input first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.architectures.segment_recurrence import SegmentSettings
from plmkit.architectures.two_stream import TwoStream
from plmkit.data.batch import Batch
from plmkit.errors import InputError
from plmkit.interop.families.encoders import ACTIVATION_NAMES, ACTIVATIONS, PARAMETERS, check_only, linear
from plmkit.interop.families.family import SPAN, Family, Pair
from plmkit.language import comma, tr

MAX_LENGTH = 512  # transformers sets no limit; the released models were trained at this length
DEFAULTS: dict[str, Any] = {
    "ff_activation": "gelu",
    "layer_norm_eps": 1e-12,
    "dropout": 0.1,
    "mem_len": 512,
    "reuse_len": None,
}
ONLY: dict[str, Any] = {  # defaults, and the only values that are supported
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
POOLED = ("XLNetForSequenceClassification", "XLNetForMultipleChoice")
TRANSPOSED = (
    "rel_attn.q",
    "rel_attn.k",
    "rel_attn.v",
    "rel_attn.r",
)  # their (input, heads, inside) is our (output, input)


class XLNet(Family):
    """XLNet (Yang et al., 2019)."""

    MODEL_TYPE, TITLE, RECIPE, PREFIX = "xlnet", "XLNet", "xlnet-base", "transformer"
    DECODER = "lm_loss.weight"
    HEADS: ClassVar = {
        "permuted_lm": {"vocabulary.bias": "lm_loss.bias"},
        "label": linear("classify", "logits_proj"),
        "choice": linear("classify", "logits_proj"),
        "tag": linear("classify", "classifier"),
        "span": linear("classify", "qa_outputs"),
        "conditional_span": {
            **linear("start", "start_logits.dense"),
            **linear("end_hidden", "end_logits.dense_0"),
            **linear("end_norm", "end_logits.LayerNorm"),
            **linear("end", "end_logits.dense_1"),
            **linear("null_hidden", "answer_class.dense_0"),
            "null.weight": "answer_class.dense_1.weight",
        },
    }
    CLASSES: ClassVar = {
        "XLNetLMHeadModel": {"permuted_lm": "logits"},
        "XLNetForSequenceClassification": {"label": "logits"},
        "XLNetForMultipleChoice": {"choice": "logits"},
        "XLNetForTokenClassification": {"tag": "logits"},
        "XLNetForQuestionAnsweringSimple": {"span": SPAN},
        "XLNetForQuestionAnswering": {
            "conditional_span": ("start_top_log_probs", "end_top_log_probs", "cls_logits")  # probabilities, in fact
        },
        "XLNetModel": {},
    }
    REFUSALS: ClassVar = {SegmentSettings: lambda: tr("transformers no longer has Transformer-XL")}

    def writes(self, architecture: Architecture) -> bool:
        return isinstance(architecture, TwoStream)

    def architecture(self, config: dict[str, Any], where: Path) -> TwoStream:
        given = DEFAULTS | ONLY | config
        check_only(config, ONLY, where)
        if given["ff_activation"] not in ACTIVATIONS:
            known = comma().join(ACTIVATIONS)
            raise InputError(
                tr(
                    "{where}: ff_activation '{activation}' is unknown; known: {activations}.",
                    where=where,
                    activation=given["ff_activation"],
                    activations=known,
                )
            )
        try:
            return TwoStream(
                layers=given["n_layer"],
                heads=given["n_head"],
                width=given["d_model"],
                inner=given["d_inner"],
                max_length=MAX_LENGTH,
                memory=given["mem_len"] or 0,
                reuse=(given["reuse_len"] or MAX_LENGTH) / MAX_LENGTH,
                activation=ACTIVATIONS[given["ff_activation"]],
                dropout=given["dropout"],
                attention_dropout=given["dropout"],
                epsilon=given["layer_norm_eps"],
                pooler=any(name in POOLED for name in given.get("architectures") or ()),
            )
        except KeyError as error:
            raise InputError(tr("{where} has no setting {error}.", where=where / "config.json", error=error)) from error

    def config(self, architecture: Any) -> dict[str, Any]:
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
            "reuse_len": None if architecture.reuse == 1 else round(architecture.reuse * architecture.max_length),
            "initializer_range": 0.02,
            **ONLY,
        }

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        yield "model.embed.tokens.weight", (f"{self.PREFIX}.word_embedding.weight",)
        yield "model.query", (f"{self.PREFIX}.mask_emb",)
        for layer in range(architecture.layers):
            ours, theirs = f"model.blocks.{layer}", f"{self.PREFIX}.layer.{layer}"
            joint = tuple(f"{theirs}.rel_attn.{part}" for part in "qkv")
            yield f"{ours}.attention.query_key_value.weight", joint
            for own, other in ATTENTION.items():
                yield f"{ours}.{own}", (f"{theirs}.{other}",)
        for kind in PARAMETERS:
            yield f"model.pooler.{kind}", (f"sequence_summary.summary.{kind}",)

    def also_given(self, kind: str, batch: Batch) -> dict[str, Tensor]:
        """Padding is not left out of the softmax over positions unless it is masked."""
        return {"p_mask": (~batch.source.visible).float()} if kind == "XLNetForQuestionAnswering" else {}

    def as_ours(self, name: str, theirs: Tensor, architecture: Any) -> Tensor:
        """One weight of theirs in our shape."""
        if name.endswith(TRANSPOSED):
            return theirs.flatten(1).T.contiguous()
        if name.endswith("rel_attn.o"):
            return theirs.flatten(1)
        return theirs.flatten(1) if name.endswith("mask_emb") else theirs

    def as_theirs(self, name: str, ours: Tensor, architecture: Any) -> Tensor:
        """One weight of ours in their shape."""
        if name.endswith(TRANSPOSED):
            return ours.T.contiguous().unflatten(1, (architecture.heads, -1))
        if name.endswith("rel_attn.o"):
            return ours.unflatten(1, (architecture.heads, -1))
        return ours[None] if name.endswith("mask_emb") else ours
