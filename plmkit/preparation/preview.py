"""Rows as the model sees them, decoded: what `plm doctor` shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.preparation.prepare import Material
from plmkit.recipe import DataStream, Recipe
from plmkit.segmentation.starts import word_starts

BROKEN = "\ufffd"  # a character of which a prefix has not all bytes


@dataclass(frozen=True, kw_only=True)
class Example:
    """A row as the model sees it and as it was, decoded."""

    stage: int  # of the run, from 0: the first in which its stream runs
    seen: str
    whole: str  # from left to right, what it is asked for: the row, one token on
    hidden: tuple[tuple[int, int], ...]  # characters of `whole`, from and to, one pair for each hidden unit


def asks_next(recipe: Recipe) -> bool:
    """Is what is asked for at a place of a row the token that follows there?"""
    return all(asks_next_in(stream) for stream in recipe.streams)


def asks_next_in(stream: DataStream) -> bool:
    return "targets" in stream.arrangement.writes and not stream.maskings


def preview(material: Material, recipe: Recipe, count: int = 3) -> list[Example]:
    """The first rows of training, of every stream."""
    each = max(1, count // len(recipe.streams))
    return [example for stream in recipe.streams for example in previewed(material, recipe, stream, each)]


def previewed(material: Material, recipe: Recipe, stream: DataStream, count: int) -> list[Example]:
    first = recipe.first_stage(stream)
    stage = recipe.stages.index(first)
    rows = material.streams[stream.name].rows(0, 0, count, first.length)
    decode = material.tokenizer.decode
    if rows.targets is None:  # no token is predicted: the row is as it was
        texts = [decode(tokens[shown].tolist()) for tokens, shown in zip(rows.tokens, rows.visible, strict=True)]
        return [Example(stage=stage, seen=text, whole=text, hidden=()) for text in texts]
    if asks_next_in(stream):
        return [
            Example(stage=stage, seen=decode(tokens[shown].tolist()), whole=decode(targets[shown].tolist()), hidden=())
            for tokens, targets, shown in zip(rows.tokens, rows.targets, rows.targets != IGNORE, strict=True)
        ]
    hidden = rows.targets != IGNORE
    whole = np.where(hidden, rows.targets, rows.tokens)
    level = stream.maskings[0].levels_used[-1]
    if level == "character":
        starts = np.ones_like(hidden)
    else:
        starts = word_starts(replace(rows, tokens=whole), material.tokenizer.vocabulary, level)
    return [
        Example(
            stage=stage,
            seen=decode(rows.tokens[row, shown].tolist()),
            whole=decode(whole[row, shown].tolist()),
            hidden=hidden_units(whole[row, shown].tolist(), hidden[row, shown], starts[row, shown], decode),
        )
        for row, shown in enumerate(rows.visible)
    ]


def hidden_units(
    tokens: list[int], hidden: np.ndarray, starts: np.ndarray, decode: Callable[[list[int]], str]
) -> tuple[tuple[int, int], ...]:
    """From and to which character of the decoded tokens each hidden unit reaches."""
    opens = hidden & (starts | ~np.concatenate([[False], hidden[:-1]]))
    # what follows decides about spaces (i ' ll becomes i'll), but letters stay: they are what is counted
    text = decode(tokens)
    places = [*(place for place, letter in enumerate(text) if not letter.isspace()), len(text)]
    spans = []
    for begin in np.flatnonzero(opens).tolist():
        end = begin + 1
        while end < len(tokens) and hidden[end] and not opens[end]:
            end += 1
        first = places[letters(decode(tokens[:begin]).rstrip(BROKEN))]
        last = places[letters(decode(tokens[:end])) - 1] + 1
        spans.append((min(first, last), max(first, last)))  # of a unit that is a space, what lies between
    return tuple(spans)


def letters(text: str) -> int:
    """Characters other than spaces."""
    return len("".join(text.split()))
