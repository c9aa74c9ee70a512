"""BERT, and what loads as BERT: whole-word BERT, SpanBERT."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.encoder import Encoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.interop.families.common import BERT_DEFAULTS, encoder_pairs, linear, plain, read_shape, write_shape
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "bert", "BERT", "bert"
RECIPE = "bert-base"
DECODER = "cls.predictions.decoder.weight"
HEADS: dict[str, dict[str, str]] = {
    "masked_lm": {
        **linear("vocabulary.transform", "cls.predictions.transform.dense"),
        **linear("vocabulary.norm", "cls.predictions.transform.LayerNorm"),
        "vocabulary.bias": "cls.predictions.bias",
    },
    "next_sentence": linear("classify", "cls.seq_relationship"),
    "label": linear("classify", "classifier"),
}
CLASSES: dict[str, dict[str, str]] = {
    "BertForPreTraining": {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"},
    "BertForMaskedLM": {"masked_lm": "logits"},
    "BertForNextSentencePrediction": {"next_sentence": "logits"},
    "BertForSequenceClassification": {"label": "logits"},
    "BertModel": {},
}


def writes(architecture: Any) -> bool:
    return plain(architecture) and architecture.activation != "relu"  # which is ERNIE's


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    return [Net(architecture=architecture, weights=weights)]


def architecture(config: dict[str, Any], where: Path) -> Encoder:
    return Encoder(**read_shape(config, where, BERT_DEFAULTS))


def config(architecture: Any) -> dict[str, Any]:
    return write_shape(architecture)


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    return encoder_pairs(PREFIX, architecture.layers, f"{PREFIX}.pooler.dense")
