"""ERNIE 1: BERT's weights under another name; what tells it from BERT is its ReLU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from plmkit.architectures.encoder import Encoder
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.interop.families import bert
from plmkit.interop.families.common import encoder_pairs, plain, write_shape
from plmkit.interop.families.family import Net, Pair

MODEL_TYPE, TITLE, PREFIX = "ernie", "ERNIE", "ernie"
RECIPE = "ernie-1.0"
DECODER, HEADS = bert.DECODER, bert.HEADS
CLASSES: dict[str, dict[str, str]] = {name.replace("Bert", "Ernie"): outputs for name, outputs in bert.CLASSES.items()}


def writes(architecture: Any) -> bool:
    return plain(architecture) and architecture.activation == "relu"


def networks(architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
    return [Net(architecture=architecture, weights=weights)]


def architecture(config: dict[str, Any], where: Path) -> Encoder:
    if config.get("use_task_id"):
        raise InputError(
            f"{where} adds a vector for the task to every token (use_task_id), as ERNIE 2 and 3 do; "
            "this network has none, and without it the model would compute something else. Take an ERNIE 1."
        )
    return bert.architecture(config, where)


def config(architecture: Any) -> dict[str, Any]:
    return {**write_shape(architecture), "use_task_id": False}


def pairs(architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
    return encoder_pairs(PREFIX, architecture.layers, f"{PREFIX}.pooler.dense")
