"""The family of a Hugging Face folder, and our name and theirs for every weight."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from plmkit.errors import CheckpointError
from plmkit.interop.families import FAMILIES, bert
from plmkit.interop.families.family import Family, Pair
from plmkit.language import tr


def family_named(model_type: Any) -> Family | None:
    return next((family for family in FAMILIES if model_type == family.MODEL_TYPE), None)


def family_by_names(weights: Iterable[str]) -> Family:
    """By the names of the weights, or else BERT: the oldest configs, such as SpanBERT's, have no model type."""
    roots = {root_of(name) for name in weights}
    return next((family for family in FAMILIES if family.PREFIX in roots), bert)


def family_of(architecture: Any, model_type: str | None = None) -> Family:
    """The family to export as: the one that the network was imported from, if any, or the first that can hold it."""
    chosen = family_named(model_type) or next((family for family in FAMILIES if family.writes(architecture)), None)
    if chosen is None:
        why = next(filter(None, (family.refusal(architecture) for family in FAMILIES)), None)
        raise CheckpointError(
            tr(
                "No Hugging Face model has the same structure as this {type}, so it cannot be exported: {why}.\n"
                "To share it, share its run folder: `plmkit.load` and all `plm` commands read it.",
                type=type(architecture).__name__,
                why=why or tr("transformers has no counterpart of this architecture"),
            )
        )
    return chosen


def all_pairs(family: Family, architecture: Any, heads: Iterable[str]) -> Iterator[Pair]:
    """Our name and theirs for every weight of a network with these heads."""
    heads = frozenset(heads)
    yield from family.pairs(architecture, heads)
    for head in sorted(heads & family.HEADS.keys()):
        for ours, theirs in family.HEADS[head].items():
            yield f"heads.{head}.{ours}", (theirs,)


def heads_of(weights: Iterable[str]) -> frozenset[str]:
    """The heads to which weights of ours belong."""
    return frozenset(name.split(".")[1] for name in weights if name.startswith("heads."))


def to_huggingface(weights: dict[str, Tensor], family: Family, architecture: Any) -> dict[str, Tensor]:
    """Our weights under their names, bit for bit, without heads that the family lacks."""
    table = list(all_pairs(family, architecture, heads_of(weights)))
    placed = {ours for ours, _ in table} | set(left_out(weights, family))
    if lost := [name for name in weights if name not in placed]:
        raise CheckpointError(
            tr("The weight '{lost}' has no place in a Hugging Face {title}.", lost=lost[0], title=family.TITLE)
        )
    out: dict[str, Tensor] = {}
    for ours, theirs in table:
        if ours in weights:
            for name, part in zip(theirs, weights[ours].chunk(len(theirs)), strict=True):
                out[name] = family.as_theirs(name, part, architecture).clone()  # a shared weight has several names
    return out


def left_out(weights: dict[str, Tensor], family: Family) -> list[str]:
    """Weights of heads that the family lacks."""
    return [name for name in weights if name.startswith("heads.") and name.split(".")[1] not in family.HEADS]


def from_huggingface(
    weights: dict[str, Tensor], family: Family, architecture: Any, name: str = ""
) -> dict[str, Tensor]:
    """Their weights, of the class `name`, under our names; without the tied output embedding and unused weights."""
    weights = current(weights, family)
    heads = heads_in(weights, family, name)
    return {
        ours: torch.cat([family.as_ours(name, weights[name], architecture) for name in theirs])
        for ours, theirs in all_pairs(family, architecture, heads)
        if all(name in weights for name in theirs)
    }


def heads_in(weights: Mapping[str, Any], family: Family, name: str = "") -> list[str]:
    """The heads with weights of theirs, which have their current names.

    Where two heads have the same names of theirs, the class `name` tells which it is; by default it is the first.
    """
    first = {tuple(names.values()): head for head, names in reversed([*family.HEADS.items()])}
    first |= {tuple(family.HEADS[head].values()): head for head in family.CLASSES.get(name, {})}
    return [head for names, head in first.items() if weights.keys() & set(names)]


def current(weights: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Current names of their weights: an encoder saved alone has no prefix, and older files name norms differently."""
    modern = {modern_norm(name): tensor for name, tensor in weights.items()}
    if any(name.startswith(f"{family.PREFIX}.") for name in modern):
        return modern
    beside = tuple({theirs.split(".")[0] for names in family.HEADS.values() for theirs in names.values()})
    return {name if name.startswith(beside) else f"{family.PREFIX}.{name}": tensor for name, tensor in modern.items()}


def modern_norm(name: str) -> str:
    """Older files have TensorFlow's names for norms."""
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


def root_of(name: str) -> str:
    return name.partition(".")[0]
