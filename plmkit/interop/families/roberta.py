"""RoBERTa: BERT's encoder, its positions numbered from the padding token's number plus one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.encoder import Encoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.common import BERT_DEFAULTS, encoder_pairs, linear, read_shape, write_shape
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "roberta", "RoBERTa", "roberta"
RECIPE = "roberta-base"
DECODER = "lm_head.decoder.weight"
HEADS: dict[str, dict[str, str]] = {
    "masked_lm": {
        **linear("vocabulary.transform", "lm_head.dense"),
        **linear("vocabulary.norm", "lm_head.layer_norm"),
        "vocabulary.bias": "lm_head.bias",
    },
    "label": linear("classify", "classifier.out_proj"),
}
CLASSES: dict[str, dict[str, str]] = {
    "RobertaForMaskedLM": {"masked_lm": "logits"},
    "RobertaForSequenceClassification": {"label": "logits"},
    "RobertaModel": {},
}
POSITIONS = "model.embed.positions.weight"


def writes(architecture: Any) -> bool:
    # their vocabulary head has erf's GELU whatever the settings say
    return (
        isinstance(architecture, Encoder)
        and architecture.first > 0
        and not architecture.is_narrow
        and architecture.activation == "gelu"
    )


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    """The positions moved to where theirs begin, if the vocabulary has its padding elsewhere."""
    first = vocabulary.pad + 1
    table = weights[POSITIONS][architecture.first :]
    unread = weights[POSITIONS][: architecture.first]  # rows before the first position
    room = first - len(unread)
    before = [unread[max(0, -room) :], table.new_zeros(max(0, room), table.shape[1])]
    moved = torch.cat([*before, table])
    return [Net(architecture=replace(architecture, first=first), weights={**weights, POSITIONS: moved})]


def architecture(config: dict[str, Any], where: Path) -> Encoder:
    shape = read_shape(config, where, BERT_DEFAULTS)
    pad = config.get("pad_token_id", 1)
    if type(pad) is not int or pad < 0:
        raise InputError(
            f"{where}: pad_token_id is {pad}; RoBERTa numbers its positions from there.\n"
            "Write the number of the padding token into config.json: in the released models it is 1."
        )
    first = pad + 1
    if shape["activation"] != "gelu":
        raise InputError(f"{where}: only hidden_act 'gelu' can be read, which RoBERTa's vocabulary head always has.")
    shape |= {"longest": shape["longest"] - first, "pooler_dropout": shape["dropout"]}
    return Encoder(**shape, first=first, start="normal")


def config(architecture: Any) -> dict[str, Any]:
    return {**write_shape(architecture), "max_position_embeddings": architecture.first + architecture.longest}


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    """What they call the dense layer of the classifier is our pooler."""
    pooler = "classifier.dense" if "label" in heads else f"{PREFIX}.pooler.dense"
    return encoder_pairs(PREFIX, architecture.layers, pooler)
