"""Read and write a Hugging Face folder: its settings and its weights, checked against each other."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.vocabulary import MISSING, Vocabulary, unnamed
from plmkit.errors import CheckpointError, FolderError, InputError
from plmkit.interop.config import check_settings
from plmkit.interop.families import FAMILIES
from plmkit.interop.families.family import Family, Net
from plmkit.interop.naming import (
    all_pairs,
    current,
    family_by_names,
    family_named,
    family_of,
    from_huggingface,
    heads_in,
    heads_of,
    root_of,
    to_huggingface,
)
from plmkit.interop.pooling import MEAN, Pooling, settings_of, write_pooling
from plmkit.interop.weights import CONFIG, WEIGHTS
from plmkit.language import comma, tr
from plmkit.storage.files import check_name, new_folder, read_json, write_json
from plmkit.storage.tensors import save_tensors
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.files import CONFIG_FILE
from plmkit.tokenizers.tokenizer import Tokenizer

MOST_SPECIAL = 4  # special tokens in a row


# Reading


def read_config(folder: Path, weights: Iterable[str] = ()) -> tuple[dict[str, Any], Family]:
    """The checked settings of a folder, and its family by them, or by the names of its weights."""
    config = read_json(folder / CONFIG)
    check_settings(config, folder / CONFIG)
    family = family_named(config["model_type"]) if "model_type" in config else family_by_names(weights)
    if family is None:
        known = comma().join(f"'{family.MODEL_TYPE}'" for family in FAMILIES)
        raise InputError(
            tr(
                "{folder} holds a model of type '{model_type}'; supported: {known}.",
                folder=folder,
                model_type=config.get("model_type"),
                known=known,
            )
        )
    return config, family


def our_weights(
    weights: dict[str, Tensor], folder: Path, family: Family, architecture: Any, name: str = ""
) -> dict[str, Tensor]:
    """Their weights, of the class `name`, under our names; missing weights and other shapes are refused."""
    try:
        found = from_huggingface(weights, family, architecture, name)
    except (RuntimeError, IndexError) as error:  # parts of one matrix that cannot be concatenated
        raise CheckpointError(
            tr("{folder}: weights have shapes that do not fit together: {error}.", folder=folder, error=error)
        ) from error
    needed = [ours for ours, _ in family.pairs(architecture, frozenset()) if not ours.startswith("model.pooler")]
    if missing := [name for name in needed if name not in found]:
        raise CheckpointError(
            tr(
                "{folder} is not a complete {title}: the weight '{missing}' is missing.",
                folder=folder,
                title=family.TITLE,
                missing=missing[0],
            )
        )
    table = found[architecture.embedding_name]
    if table.dim() != 2:
        raise CheckpointError(
            tr(
                "{folder}: the token embedding has the shape {shape}. Copy the weights again.",
                folder=folder,
                shape=list(table.shape),
            )
        )
    decoder = weights.get(family.DECODER)
    if decoder is not None and not torch.equal(decoder, table):
        raise InputError(
            tr(
                "{folder}: the output embedding differs from the token embedding; only tied weights are supported.",
                folder=folder,
            )
        )
    with torch.device("meta"):  # allocates nothing: config.json may hold any sizes
        own = architecture.build(unnamed(len(table))).state_dict()
    for name, weight in own.items():
        ours = found.get(f"model.{name}")
        if ours is not None and ours.shape != weight.shape:
            raise CheckpointError(
                tr(
                    "{folder}: '{name}' has the shape {shape}, but {config} gives {expected}. The files do not "
                    "belong together.",
                    folder=folder,
                    name=name,
                    shape=list(ours.shape),
                    config=CONFIG,
                    expected=list(weight.shape),
                )
            )
    return {
        name: weight
        for name, weight in found.items()
        if name.startswith("heads.") or name.removeprefix("model.") in own  # a pooler may be left over from a head
    }


def unused_head(weights: Iterable[str], config: dict[str, Any], family: Family, architecture: Any) -> str:
    """What no command can use: the class in the settings, or else leftover weights; "" if there is nothing."""
    name = class_in(config)
    if name and name not in family.CLASSES:
        return name
    named = current(dict.fromkeys(weights), family)
    heads = heads_in(named, family, name)
    placed = {name for _, theirs in all_pairs(family, architecture, heads) for name in theirs}
    inside = (f"{family.PREFIX}.", family.DECODER.removesuffix(".weight"))
    left = [name for name in named if name not in placed]
    return next((root_of(name) for name in left if not name.startswith(inside)), "")


def class_in(config: dict[str, Any]) -> str:
    return next(iter(config.get("architectures") or ()), "")


def length_in(folder: Path, max_length: int) -> int | None:
    """The maximum length in the tokenizer's settings, if it is shorter than the network's."""
    length = settings_of(folder / CONFIG_FILE).get("model_max_length")
    return length if type(length) is int and MOST_SPECIAL < length < max_length else None


# Writing


def write_huggingface(
    folder: Path,
    weights: dict[str, Tensor],
    architecture: Any,
    tokenizer: Tokenizer,
    *,
    vocabulary_size: int,
    model_type: str | None = None,
    settings: Mapping[str, Any] | None = None,
    max_length: int | None = None,
    pooling: Pooling = MEAN,
) -> None:
    """A folder that transformers opens, or one with several such folders; written completely or not at all.

    `settings` are those of the head of a task, in config.json.
    """
    check_new(folder)
    family = family_of(architecture, model_type)
    vocabulary = tokenizer.vocabulary
    ready = []
    for net in family.networks(architecture, weights, vocabulary):
        config = {
            **config_of(net, family),
            "vocab_size": vocabulary_size,
            **token_ids(vocabulary, bool(settings)),
            **(settings or {}),
        }
        ready.append((net, config, to_huggingface(net.weights, family, net.architecture)))
    if folder.is_dir():
        folder.rmdir()
    with new_folder(folder) as partial:
        for net, config, theirs in ready:
            place = partial / net.place
            place.mkdir(exist_ok=True)
            save_tensors(place / WEIGHTS, theirs)
            write_json(place / CONFIG, config)
            bound = net.architecture.max_length if net.architecture.bounded else None
            tokenizer.save(place, max_length or bound, padded=True)
            if not pooling.unknown:
                most = min(max_length or net.architecture.max_length, net.architecture.max_length)
                write_pooling(place, pooling, net.architecture.width, min(most, pooling.max_length or most))


def report_written(weights: Mapping[str, Tensor], architecture: Architecture, out: Path, screen: Screen) -> int:
    """Report a converted model, and return its number of parameters."""
    count = sum(weight.numel() for weight in weights.values())
    screen.say(
        tr(
            "{count:,} parameters ({layers} layers of width {width}) written to {out}.",
            count=count,
            layers=architecture.layers,
            width=architecture.width,
            out=out,
        )
    )
    return count


def token_ids(vocabulary: Vocabulary, classifies: bool) -> dict[str, int | None]:
    """Ids of special tokens; causal classifiers of transformers find the end of a row by its padding."""
    if vocabulary.pad != MISSING and not vocabulary.lacks(("cls", "mask")):
        return {"pad_token_id": vocabulary.pad}
    end = None if vocabulary.end == MISSING else vocabulary.end
    pad = vocabulary.pad if vocabulary.pad != MISSING else end if classifies else None
    return {"pad_token_id": pad, "bos_token_id": end, "eos_token_id": end}


def check_new(folder: Path) -> None:
    """An output folder is new or empty."""
    check_name(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = tr("not empty") if folder.is_dir() else tr("a file")
        raise FolderError(
            tr("{folder} is {found} and is left as it is. Name a new output folder.", folder=folder, found=found)
        )


def config_of(net: Net, family: Family) -> dict[str, Any]:
    return {
        "architectures": [class_of(net.weights, family)],
        "model_type": family.MODEL_TYPE,
        **family.config(net.architecture),
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def class_of(weights: dict[str, Tensor], family: Family) -> str:
    """The class of transformers with these heads."""
    heads = heads_of(weights) & family.HEADS.keys()
    heads = heads or frozenset(head for head, names in family.HEADS.items() if not names)  # one without a weight
    for name, outputs in family.CLASSES.items():
        if outputs.keys() == heads:
            return name
    raise CheckpointError(
        tr(
            "No Hugging Face {title} has all of these heads: {heads}.",
            title=family.TITLE,
            heads=comma().join(sorted(heads)),
        )
    )
