"""BERT as Google's code saves it: TensorFlow's variables, in one file without code (.safetensors or .npz)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.errors import CheckpointError, InputError
from plmkit.interop.config import check_settings
from plmkit.interop.families.encoders import BERT_DEFAULTS, PARAMETERS, Bert, encoder_pairs, read_shape
from plmkit.interop.families.family import Pair
from plmkit.interop.huggingface import our_weights, report_written, write_huggingface
from plmkit.interop.weights import CONFIG, in_float32
from plmkit.language import tr
from plmkit.storage.files import read_json
from plmkit.storage.tensors import load_tensors
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import load_tokenizer

CONFIGS = ("bert_config.json", CONFIG)
ENDINGS = (".safetensors", ".npz")
WORDS = "bert/embeddings/word_embeddings"  # in every file of BERT's variables
OF_THE_OPTIMIZER = re.compile(r"/(adam_[mv]|Adam(_1)?)$|^global_step$|_power$")
LAST_PARTS = {  # of a variable's name, and of transformers' name; kernels are also transposed
    "kernel": "weight", "gamma": "weight", "beta": "bias", "output_weights": "weight", "output_bias": "bias",
}  # fmt: skip


class FactorisedBert(Bert):
    """BERT with narrow embeddings; among transformers' models it is an ALBERT whose layers share nothing."""

    def architecture(self, config: dict[str, Any], where: Path) -> Any:
        return SharedEncoder(
            **read_shape(config, where, BERT_DEFAULTS), embedding=config["embedding_size"], sharing="none"
        )

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        yield from encoder_pairs(self.PREFIX, architecture.layers, f"{self.PREFIX}.pooler.dense")
        for kind in PARAMETERS:
            yield f"model.project.{kind}", (f"{self.PREFIX}.encoder.embedding_hidden_mapping_in.{kind}",)


def variables_file(folder: Path) -> Path | None:
    """The file with BERT's variables, if there is one."""
    for path in sorted(path for path in folder.iterdir() if path.suffix in ENDINGS):
        if WORDS in (name.removesuffix(":0") for name in names_in(path)):
            return path
    return None


def names_in(path: Path) -> list[str]:
    """The names of the arrays in a file; none if it cannot be read."""
    from safetensors import SafetensorError, safe_open

    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return list(arrays.files)
        with safe_open(path, "pt") as file:
            return list(file.keys())
    except (OSError, ValueError, EOFError, SafetensorError):
        return []


def import_tensorflow(source: Path, out: Path, screen: Screen) -> int:
    """Write the published network as a Hugging Face folder; returns its number of parameters."""
    path, where = variables_file(source), next((source / name for name in CONFIGS if (source / name).is_file()), None)
    if path is None or where is None:
        raise InputError(
            tr(
                "{source} has no {missing}.\n"
                "BERT's variables are read from one {endings} file, next to {config} and vocab.txt.",
                source=source,
                missing=tr("file with a variable {name}", name=WORDS) if path is None else CONFIGS[0],
                endings=tr(" or ").join(ENDINGS),
                config=CONFIGS[0],
            )
        )
    config = read_json(where)
    check_settings(config, where)
    narrow = config.get("embedding_size", config.get("hidden_size")) != config.get("hidden_size")
    family = FactorisedBert() if narrow else Bert()
    architecture = family.architecture(config, where)
    weights = our_weights(dict(renamed(read_variables(path))), path, family, architecture)
    tokenizer = load_tokenizer(source, architecture.needs)
    known, needed = architecture.vocabulary_size(weights), len(tokenizer.vocabulary)
    if known < needed:
        raise InputError(
            tr(
                "{source}: its vocabulary has {needed:,} tokens, but the weights are for {known:,}.",
                source=source,
                needed=needed,
                known=known,
            )
        )
    write_huggingface(
        out, weights, architecture, tokenizer, vocabulary_size=known, model_type="albert" if narrow else None
    )
    return report_written(weights, architecture, out, screen)


def read_variables(path: Path) -> dict[str, Tensor]:
    """All variables in float32."""
    if path.suffix != ".npz":
        return in_float32(load_tensors(path))
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return in_float32({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise CheckpointError(
            tr("{path} is not an array of numbers: {error}. Copy it again.", path=path, error=error)
        ) from error


def renamed(variables: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """BERT's variables under transformers' names, without those of the optimizer."""
    for name, value in variables.items():
        name = name.removesuffix(":0")
        if OF_THE_OPTIMIZER.search(name):
            continue
        *parts, last = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name).split("/")
        if last.endswith("_embeddings"):
            parts, last = [*parts, last], "weight"
        yield (
            ".".join([*(parts or ["classifier"]), LAST_PARTS.get(last, last)]),
            value.t().contiguous() if last == "kernel" else value,
        )
