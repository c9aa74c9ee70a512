"""Weights to and from Hugging Face's folders: each family says its names, this file reads and writes."""

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.data.vocabulary import MISSING, Vocabulary, unnamed
from plmkit.errors import CheckpointError, FolderError, InputError
from plmkit.interop.families import FAMILIES, bert
from plmkit.interop.families.family import Family, Net, Pair
from plmkit.interop.numbers import check_settings
from plmkit.interop.pooling import MEAN, Pooling, settings_of, write_pooling
from plmkit.interop.weights import CONFIG, WEIGHTS
from plmkit.storage.files import check_name, new_folder, read_json, write_json
from plmkit.storage.tensors import save_tensors
from plmkit.tokenizers.files import CONFIG_FILE
from plmkit.tokenizers.tokenizer import Tokenizer

MOST_SPECIAL = 4  # special tokens in a row
VERY_LONG = 1 << 30  # what transformers says of a tokenizer that says nothing is more


def family_named(model_type: Any) -> Family | None:
    return next((family for family in FAMILIES if model_type == family.MODEL_TYPE), None)


def family_by_names(weights: Iterable[str]) -> Family:
    """The oldest configs, SpanBERT's among them, say no type; the names of the weights do, or else it is BERT."""
    roots = {root_of(name) for name in weights}
    return next((family for family in FAMILIES if family.PREFIX in roots), bert)


def family_of(architecture: Any, model_type: str | None = None) -> Family:
    """The family that a network goes out as: the one it came in as, if it did, or the first that can hold it."""
    came_as = family_named(model_type)
    chosen = came_as or next((family for family in FAMILIES if family.writes(architecture)), None)
    if chosen is None:
        why = next(filter(None, (family.refusal(architecture) for family in FAMILIES)), None)
        raise CheckpointError(
            f"No Hugging Face model is built as this {type(architecture).__name__} is, so it cannot be exported: "
            f"{why or 'transformers has no counterpart of this architecture'}.\n"
            "To share it, share its run folder: `plmkit.load` and every command of `plm` read it."
        )
    return chosen


# Names


def all_pairs(family: Family, architecture: Any, heads: Iterable[str]) -> Iterator[Pair]:
    """Our name and theirs for every weight of a network with these heads."""
    heads = frozenset(heads)
    yield from family.pairs(architecture, heads)
    for head in sorted(heads & family.HEADS.keys()):
        for ours, theirs in family.HEADS[head].items():
            yield f"heads.{head}.{ours}", (theirs,)


def heads_of(weights: Iterable[str]) -> frozenset[str]:
    """The heads that weights of ours have."""
    return frozenset(name.split(".")[1] for name in weights if name.startswith("heads."))


def to_huggingface(weights: dict[str, Tensor], family: Family, architecture: Any) -> dict[str, Tensor]:
    """Our weights under their names; not a bit changes. Heads that they have not stay behind."""
    table = list(all_pairs(family, architecture, heads_of(weights)))
    placed = {ours for ours, _ in table} | set(behind(weights, family))
    if lost := [name for name in weights if name not in placed]:
        raise CheckpointError(f"The weight '{lost[0]}' has no place in a Hugging Face {family.TITLE}.")
    out: dict[str, Tensor] = {}
    for ours, theirs in table:
        if ours in weights:
            for name, part in zip(theirs, weights[ours].chunk(len(theirs)), strict=True):
                out[name] = family.as_theirs(name, part, architecture).clone()  # it may have several places
    return out


def behind(weights: dict[str, Tensor], family: Family) -> list[str]:
    """Weights of heads that the family has not."""
    return [name for name in weights if name.startswith("heads.") and name.split(".")[1] not in family.HEADS]


def from_huggingface(weights: dict[str, Tensor], family: Family, architecture: Any) -> dict[str, Tensor]:
    """Their weights under our names; copies of the tied decoder are dropped, as are names we have no use for."""
    weights = current(weights, family)
    heads = [head for head, names in family.HEADS.items() if weights.keys() & set(names.values())]
    return {
        ours: torch.cat([family.as_ours(name, weights[name], architecture) for name in theirs])
        for ours, theirs in all_pairs(family, architecture, heads)
        if all(name in weights for name in theirs)
    }


def current(weights: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Their names as they are today: an encoder saved alone lacks its prefix, norms were called otherwise once."""
    modern = {modern_norm(name): tensor for name, tensor in weights.items()}
    if any(name.startswith(f"{family.PREFIX}.") for name in modern):
        return modern
    beside = tuple({theirs.split(".")[0] for names in family.HEADS.values() for theirs in names.values()})
    return {name if name.startswith(beside) else f"{family.PREFIX}.{name}": tensor for name, tensor in modern.items()}


def modern_norm(name: str) -> str:
    """TensorFlow-era names of norms."""
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


# Reading


def read_config(folder: Path, weights: Iterable[str] = ()) -> tuple[dict[str, Any], Family]:
    """The settings of a folder, looked at, and the family that they, or the names of the weights, tell."""
    config = read_json(folder / CONFIG)
    check_settings(config, folder / CONFIG)
    family = family_named(config["model_type"]) if "model_type" in config else family_by_names(weights)
    if family is None:
        known = ", ".join(f"'{family.MODEL_TYPE}'" for family in FAMILIES)
        raise InputError(
            f"{folder} holds a model of type '{config.get('model_type')}'; only {known} can be read so far."
        )
    return config, family


def our_weights(weights: dict[str, Tensor], folder: Path, family: Family, architecture: Any) -> dict[str, Tensor]:
    """Their weights under our names; a network that is not whole, or of other shapes, is refused."""
    try:
        found = from_huggingface(weights, family, architecture)
    except (RuntimeError, IndexError) as error:  # parts of one matrix that cannot lie under each other
        raise CheckpointError(f"{folder}: weights have shapes that do not fit together: {error}.") from error
    needed = [ours for ours, _ in family.pairs(architecture, frozenset()) if not ours.startswith("model.pooler")]
    if missing := [name for name in needed if name not in found]:
        raise CheckpointError(f"{folder} is not a whole {family.TITLE}: '{missing[0]}' is missing from its weights.")
    table = found[architecture.embedding_name]
    if table.dim() != 2:
        raise CheckpointError(f"{folder}: the token table has the shape {list(table.shape)}. Copy the weights again.")
    decoder = weights.get(family.DECODER)
    if decoder is not None and not torch.equal(decoder, table):
        raise InputError(f"{folder}: the decoder is not the token table; only tied weights can be read.")
    with torch.device("meta"):  # without memory: what config.json says may be anything
        own = architecture.build(unnamed(len(table))).state_dict()
    for name, weight in own.items():
        ours = found.get(f"model.{name}")
        if ours is not None and ours.shape != weight.shape:
            raise CheckpointError(
                f"{folder}: '{name}' has the shape {list(ours.shape)}, but by {CONFIG} it has {list(weight.shape)}. "
                "The files do not belong together."
            )
    return {
        name: weight
        for name, weight in found.items()
        if name.startswith("heads.") or name.removeprefix("model.") in own  # a pooler may be left over from a head
    }


def unused_head(weights: Iterable[str], config: dict[str, Any], family: Family, architecture: Any) -> str:
    """What of a folder no verb has a use for: the class that its settings name, or else weights; "" where nothing."""
    said = class_in(config)
    if said and said not in family.CLASSES:
        return said
    if config.get("problem_type") == "multi_label_classification":
        return "several labels for one text"
    placed = {name for _, theirs in all_pairs(family, architecture, family.HEADS) for name in theirs}
    inside = (f"{family.PREFIX}.", family.DECODER.removesuffix(".weight"))
    left = [name for name in current(dict.fromkeys(weights), family) if name not in placed]
    return next((root_of(name) for name in left if not name.startswith(inside)), "")


def class_in(config: dict[str, Any]) -> str:
    return next(iter(config.get("architectures") or ()), "")


def root_of(name: str) -> str:
    return name.partition(".")[0]


def length_in(folder: Path, longest: int) -> int | None:
    """How many tokens of a text are read, where the tokenizer's settings say fewer than the network can read."""
    said = settings_of(folder / CONFIG_FILE).get("model_max_length")
    return said if type(said) is int and MOST_SPECIAL < said < longest else None


# Writing


def write_huggingface(
    folder: Path,
    weights: dict[str, Tensor],
    architecture: Any,
    tokenizer: Tokenizer,
    *,
    vocabulary_size: int,
    model_type: str | None = None,
    classes: tuple[str, ...] | None = None,
    numeric: bool = False,
    longest: int | None = None,
    pooling: Pooling = MEAN,
) -> None:
    """A folder that transformers opens, or one that holds several such; written whole or not at all."""
    check_new(folder)
    family = family_of(architecture, model_type)
    vocabulary = tokenizer.vocabulary
    ready = []
    for net in family.networks(architecture, weights, vocabulary):
        config = {
            **config_of(net, family),
            "vocab_size": vocabulary_size,
            **token_ids(vocabulary, bool(classes or numeric)),
        }
        if classes and not numeric:
            config["id2label"] = {str(number): name for number, name in enumerate(classes)}
            config["label2id"] = {name: number for number, name in enumerate(classes)}
        if numeric:
            config |= {"num_labels": 1, "problem_type": "regression"}
        ready.append((net, config, to_huggingface(net.weights, family, net.architecture)))
    if folder.is_dir():
        folder.rmdir()
    with new_folder(folder) as partial:
        for net, config, theirs in ready:
            place = partial / net.place
            place.mkdir(exist_ok=True)
            save_tensors(place / WEIGHTS, theirs)
            write_json(place / CONFIG, config)
            bound = net.architecture.longest if net.architecture.bounded else None
            tokenizer.save(place, longest or bound, padded=True)
            if not pooling.unknown:
                most = min(longest or net.architecture.longest, net.architecture.longest)
                write_pooling(place, pooling, net.architecture.width, min(most, pooling.longest or most))


def token_ids(vocabulary: Vocabulary, judges: bool) -> dict[str, int | None]:
    """Their numbers of special tokens; a left-to-right classifier finds the end of a row by what is not padding."""
    if vocabulary.pad != MISSING and not vocabulary.lacks(("cls", "mask")):
        return {"pad_token_id": vocabulary.pad}
    end = None if vocabulary.end == MISSING else vocabulary.end
    pad = vocabulary.pad if vocabulary.pad != MISSING else end if judges else None
    return {"pad_token_id": pad, "bos_token_id": end, "eos_token_id": end}


def check_new(folder: Path) -> None:
    """A folder to write a model to is new, or empty."""
    check_name(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "not empty" if folder.is_dir() else "a file"
        raise FolderError(f"{folder} is {found} and is left as it is. Name a new folder to write to.")


def config_of(net: Net, family: Family) -> dict[str, Any]:
    return {
        "architectures": [class_of(net.weights, family)],
        "model_type": family.MODEL_TYPE,
        **family.config(net.architecture),
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def class_of(weights: dict[str, Tensor], family: Family) -> str:
    """The class of theirs that has these heads."""
    heads = heads_of(weights) & family.HEADS.keys()
    heads = heads or frozenset(head for head, names in family.HEADS.items() if not names)  # one without a weight
    for name, outputs in family.CLASSES.items():
        if outputs.keys() == heads:
            return name
    raise CheckpointError(f"No Hugging Face {family.TITLE} has the heads {', '.join(sorted(heads))} together.")


# Checking


def transformers_installed() -> bool:
    return importlib.util.find_spec("transformers") is not None


@contextmanager
def without_bars() -> Iterator[None]:
    """transformers shows a bar over weights that it loads; what is shown here is ours to say."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def hub_tokens(folder: Path, texts: Sequence[str], longest: int) -> list[list[int]]:
    """The tokens that transformers makes of texts with the folder, cut where it says, or there if it does not."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    limit = None if tokenizer.model_max_length < VERY_LONG else longest
    return tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]


def hub_logits(folder: Path, batch: Batch) -> dict[str, Tensor]:
    """What transformers computes with the folder, by the names of our heads; without any, the hidden states."""
    return hub_network(folder)(batch)


def hub_network(folder: Path) -> Callable[[Batch], dict[str, Tensor]]:
    """The folder as transformers opens it, to compute one batch after another."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    _, family = read_config(folder)
    name = config.architectures[0]
    with without_bars():
        model = getattr(transformers, name).from_pretrained(folder).eval()
    known = getattr(config, "type_vocab_size", None)  # XLNet tells any number of segments apart
    outputs = family.CLASSES[name] or {"hidden": "last_hidden_state"}

    @torch.no_grad()
    def compute(batch: Batch) -> dict[str, Tensor]:
        segments = batch.source.segment_ids
        segments = segments if known is None else segments.clamp(max=known - 1)
        told = {"token_type_ids": segments} if family.SEGMENTS else {}
        padding = (
            batch.source.tokens
            if config.pad_token_id is None
            else torch.full_like(batch.source.tokens, config.pad_token_id)
        )
        tokens = torch.where(batch.source.visible, batch.source.tokens, padding)  # some find the end of a row by it
        out = model(input_ids=tokens, attention_mask=batch.source.visible.long(), **told)
        return {head: getattr(out, output) for head, output in outputs.items()}

    return compute
