"""What a recipe trains on, opened: text, pairs, images with captions, queries with titles, triples."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from plmkit.config.machine import Machine
from plmkit.data.caption_corpus import open_captions
from plmkit.data.corpus import Corpus, check_apart, open_corpora, open_corpus
from plmkit.data.pair_corpus import open_pairs
from plmkit.data.query_corpus import has_queries, open_queries
from plmkit.data.reading.cells import where
from plmkit.demo.docstrings import docstring_corpus
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.preparation.triples import opened_triples, reads_triples
from plmkit.recipe import Recipe
from plmkit.storage.files import cache_folder
from plmkit.terminal.screen import Screen


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The corpora of a run."""

    corpora: list[Corpus]
    held_out: list[Corpus]  # one, or none
    beside: list[Corpus] = field(default_factory=list)  # text beside triples

    @property
    def trained(self) -> list[Corpus]:
        return [*self.corpora, *self.beside]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for corpus in [*self.corpora, *self.held_out, *self.beside] for note in corpus.notes)


def opened_for(
    recipe: Recipe, machine: Machine, paths: Sequence[str], valid: str | None, without: Collection[Path], screen: Screen
) -> Opened:  # fmt: skip
    """The corpora that a recipe reads, without some of their files; documentation if none is given."""
    reading: dict[str, Any] = {"layout": machine.layout, "column": machine.column, "header": machine.header}
    texts: list[str] = []  # beside triples
    if not recipe.architecture.reads_images and (machine.image_column or machine.image_folder):
        raise SettingError(
            tr("--image and --images are for captions; {recipe} reads text. Leave them out.", recipe=recipe.name)
        )
    if recipe.architecture.reads_images:
        found = open_captions(
            paths, recipe.architecture.image_pixels, valid=valid, image_column=machine.image_column,
            images=machine.image_folder, features=machine.features, region_width=recipe.architecture.region_width,
            region_classes=next(filter(None, (own.region_classes for own in recipe.objectives)), None), **reading,
        )  # fmt: skip
    elif reads_pairs(recipe):
        found = open_pairs(paths, valid=valid, **reading)
    elif reads_queries(recipe):
        found = open_with_queries(recipe, paths, valid, without, reading)
    elif reads_triples(recipe):
        graphs, texts = opened_triples(paths, machine, valid)
        found = list(graphs)
    else:
        found = open_corpora(paths, valid=valid, without=without, **reading)
    return Opened(
        corpora=found[: len(found) - bool(valid)] or [embedded(screen)],
        held_out=found[-1:] if valid else [],
        beside=open_corpora(texts, **reading) if texts else [],
    )


def reads_pairs(recipe: Recipe) -> bool:
    return any(stream.arrangement.pairs for stream in recipe.streams)


def reads_queries(recipe: Recipe) -> bool:
    return any(stream.arrangement.queries for stream in recipe.streams)


def open_with_queries(
    recipe: Recipe, paths: Sequence[str], valid: str | None, without: Collection[Path], reading: Mapping[str, Any]
) -> list[Corpus]:
    """Texts, and tables of queries and titles, in the order given; the held-out one, which has either, is the last."""
    given = [*paths, *([valid] if valid else [])]
    tables = [path for path in given if has_queries(path, header=reading["header"])]
    texts = [path for path in paths if path not in tables]
    if paths and not texts and not all(stream.arrangement.queries for stream in recipe.streams):
        raise InputError(
            tr(
                "{table} has queries and titles only; the other tasks of {name} need text. Give a corpus beside it.",
                table=tables[0],
                name=recipe.name,
            )
        )
    held_out = None if valid in tables else valid
    names = [*texts, *([held_out] if held_out else []), *tables]
    found = [*open_corpora(texts, valid=held_out, without=without, **reading), *open_queries(tables)]
    opened = dict(zip(names, found, strict=True))
    check_apart([opened[path] for path in given], held_out=bool(valid))
    return [opened[path] for path in given]


def first_place(corpus: Corpus) -> str:
    """File and line of the first document, as errors show it."""
    document = next(corpus.documents())
    return where(document.source, document.line)


def embedded(screen: Screen) -> Corpus:
    """Text that every machine has: documentation."""
    screen.say(tr("No corpus given: using the documentation of Python, torch and numpy on this machine."))
    found = open_corpus([docstring_corpus(cache_folder())], layout="blank-lines")
    return replace(found, name=tr("documentation on this machine"))
