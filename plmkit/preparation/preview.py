"""Rows as the model sees them, decoded: what `plm doctor` shows."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.rows import Rows
from plmkit.preparation.label_words import labels_of
from plmkit.preparation.prepare import Material
from plmkit.recipe import DataStream, Recipe
from plmkit.segmentation.starts import word_starts

LOOKED = 64  # rows of a task, of which those that show most of it are shown
BROKEN = "\ufffd"  # a character of which a prefix has not all bytes


@dataclass(frozen=True, kw_only=True)
class Example:
    """An input row and its original, decoded."""

    stage: int  # from 0: the first that its stream runs in
    seen: str
    whole: str  # of a causal model, the targets: the row, shifted by one token
    masked: tuple[tuple[int, int], ...]  # characters of `whole`, from and to, one pair for each masked unit
    stream: str = ""  # of the recipe
    labels: str = ""  # what is predicted of the row besides tokens, in words


def predicts_next(recipe: Recipe) -> bool:
    """Is the target at each position the next token?"""
    return all(predicts_next_in(stream) for stream in recipe.streams)


def predicts_next_in(stream: DataStream) -> bool:
    return "targets" in stream.arrangement.writes and not (stream.maskings or stream.arrangement.triples)


def preview(material: Material, recipe: Recipe, count: int = 3) -> list[Example]:
    """The first rows of training, of every stream."""
    streams = [stream for stream in recipe.streams if stream.name in material.streams]
    each = max(1, count // len(streams))
    return [example for stream in streams for example in labelled(material, recipe, stream, each)]


def labelled(material: Material, recipe: Recipe, stream: DataStream, count: int) -> list[Example]:
    """The first rows of a stream with their labels; of those without tasks of this kind, the very first."""
    samples, length = material.streams[stream.name], recipe.first_stage(stream).length
    looked = samples.rows(0, 0, LOOKED if stream.task is not None else count, length)
    shown = np.argsort(~is_telling(looked), kind="stable")[:count]
    rows, chosen = picked(looked, shown), samples.plan(0, length)[1][shown]
    words = labels_of(samples, rows, chosen, length, material.tokenizer.readable)
    examples = previewed(material, recipe, stream, rows)
    return [replace(one, stream=stream.name, labels=text) for one, text in zip(examples, words, strict=True)]


def is_telling(rows: Rows) -> np.ndarray:
    """(B,) False where the labels show little of the task: no token has one, or a paragraph has a single part."""
    telling = np.ones(len(rows.tokens), dtype=bool)
    for field in (rows.capitals, rows.elsewhere):
        telling &= True if field is None else (field != IGNORE).any(axis=1)
    return telling & (True if rows.order is None else rows.order > 0)


def picked(rows: Rows, chosen: np.ndarray) -> Rows:
    """Some of the rows."""
    arrays = {field.name: value for field in fields(Rows) if (value := getattr(rows, field.name)) is not None}
    return replace(rows, **{name: value[chosen] for name, value in arrays.items() if isinstance(value, np.ndarray)})


def previewed(material: Material, recipe: Recipe, stream: DataStream, rows: Rows) -> list[Example]:
    first = recipe.first_stage(stream)
    stage = recipe.stages.index(first)
    decode = material.tokenizer.decode
    if rows.entities is not None:
        return with_entities(material, rows, stage)
    if rows.targets is None:  # no token is predicted: input and original are the same
        texts = [decode(tokens[shown].tolist()) for tokens, shown in zip(rows.tokens, rows.visible, strict=True)]
        return [Example(stage=stage, seen=text, whole=text, masked=()) for text in texts]
    if rows.target is not None:
        return [
            Example(stage=stage, seen=decode(tokens[shown].tolist()), whole=decode(targets[kept].tolist()), masked=())
            for tokens, shown, targets, kept in zip(
                rows.tokens, rows.visible, rows.targets, rows.targets != IGNORE, strict=True
            )
        ]
    if predicts_next_in(stream):
        return [
            Example(stage=stage, seen=decode(tokens[shown].tolist()), whole=decode(targets[shown].tolist()), masked=())
            for tokens, targets, shown in zip(rows.tokens, rows.targets, rows.targets != IGNORE, strict=True)
        ]
    masked = rows.targets != IGNORE
    whole = np.where(masked, rows.targets, rows.tokens)
    choosing = [step for step in stream.maskings if "targets" in step.writes]
    level = choosing[0].levels_used[-1] if choosing else "character"
    if level == "character":
        starts = np.ones_like(masked)
    else:
        starts = word_starts(replace(rows, tokens=whole), material.tokenizer.vocabulary, level)
    return [
        Example(
            stage=stage,
            seen=decode(rows.tokens[row, shown].tolist()),
            whole=decode(whole[row, shown].tolist()),
            masked=masked_units(whole[row, shown].tolist(), masked[row, shown], starts[row, shown], decode),
        )
        for row, shown in enumerate(rows.visible)
    ]


def with_entities(material: Material, rows: Rows, stage: int) -> list[Example]:
    """Triples with one [MASK] for an entity; the original has its name there."""
    names, _ = material.entity_names()
    decode, found = material.tokenizer.decode, []
    assert rows.entities is not None
    for tokens, entities, shown in zip(rows.tokens, rows.entities, rows.visible, strict=True):
        (place,) = np.flatnonzero(entities != IGNORE).tolist()
        name = names[entities[place]]
        seen = tokens[shown].tolist()
        whole = [*seen[:place], *name, *seen[place + 1 :]]
        masked = (np.arange(len(whole)) >= place) & (np.arange(len(whole)) < place + len(name))
        span = masked_units(whole, masked, np.arange(len(whole)) == place, decode)
        found.append(Example(stage=stage, seen=decode(seen), whole=decode(whole), masked=span))
    return found


def masked_units(
    tokens: list[int], masked: np.ndarray, starts: np.ndarray, decode: Callable[[list[int]], str]
) -> tuple[tuple[int, int], ...]:
    """The characters of the decoded text that each masked unit spans."""
    opens = masked & (starts | ~np.concatenate([[False], masked[:-1]]))
    # spaces depend on what follows (i ' ll becomes i'll), letters do not: count letters
    text = decode(tokens)
    places = [*(place for place, letter in enumerate(text) if not letter.isspace()), len(text)]
    spans = []
    for begin in np.flatnonzero(opens).tolist():
        end = begin + 1
        while end < len(tokens) and masked[end] and not opens[end]:
            end += 1
        first = places[letters(decode(tokens[:begin]).rstrip(BROKEN))]
        last = places[letters(decode(tokens[:end])) - 1] + 1
        spans.append((min(first, last), max(first, last)))  # for a unit that is a space, what is between
    return tuple(spans)


def letters(text: str) -> int:
    """Characters other than spaces."""
    return len("".join(text.split()))
