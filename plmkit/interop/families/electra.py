"""ELECTRA: a generator and a discriminator, each a model of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.electra_parts import discriminator_alone, generator_alone
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families.common import BERT_DEFAULTS, KINDS, encoder_pairs, linear, read_shape, write_shape
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "electra", "ELECTRA", "electra"
RECIPE = "electra-base"
DECODER = "generator_lm_head.weight"
HEADS: dict[str, dict[str, str]] = {
    "masked_lm": {
        **linear("vocabulary.transform", "generator_predictions.dense"),
        **linear("vocabulary.norm", "generator_predictions.LayerNorm"),
        "vocabulary.bias": "generator_lm_head.bias",
    },
    "replaced_token": {
        **linear("transform", "discriminator_predictions.dense"),
        **linear("verdict", "discriminator_predictions.dense_prediction"),
    },
    "label": linear("classify", "classifier.out_proj"),
}
CLASSES: dict[str, dict[str, str]] = {
    "ElectraForMaskedLM": {"masked_lm": "logits"},
    "ElectraForPreTraining": {"replaced_token": "logits"},
    "ElectraForSequenceClassification": {"label": "logits"},
    "ElectraModel": {},
}
DEFAULTS: dict[str, Any] = {**BERT_DEFAULTS, "embedding_size": 128}
POOLER = "classifier.dense"  # which only their classifier has


def writes(architecture: Any) -> bool:
    # their heads have erf's GELU whatever the settings say
    if isinstance(architecture, GeneratorDiscriminator):
        return architecture.activation == "gelu"
    return (
        isinstance(architecture, Encoder)
        and architecture.first == 0
        and architecture.activation == architecture.pooler_activation == "gelu"
    )


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    if not isinstance(architecture, GeneratorDiscriminator):
        return [Net(architecture=architecture, weights=weights)]
    both = {
        "generator": generator_alone(architecture, weights),
        "discriminator": discriminator_alone(architecture, weights),
    }
    return [Net(**vars(alone), place=place) for place, alone in both.items()]


def architecture(config: dict[str, Any], where: Path) -> Encoder:
    shape = read_shape(config, where, DEFAULTS)
    if shape["activation"] != "gelu":
        raise InputError(f"{where}: only hidden_act 'gelu' can be read, which ELECTRA's heads always have.")
    embedding = (DEFAULTS | config)["embedding_size"]
    return Encoder(**shape, embedding=embedding, pooler_activation="gelu", pooler_dropout=shape["dropout"])


def config(architecture: Any) -> dict[str, Any]:
    return {**write_shape(architecture), "embedding_size": architecture.embedding or architecture.width}


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    yield from encoder_pairs(PREFIX, architecture.layers, POOLER)
    if architecture.is_narrow:
        for kind in KINDS:
            yield f"model.project.{kind}", (f"{PREFIX}.embeddings_project.{kind}",)
