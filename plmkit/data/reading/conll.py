"""Columns of words: one word per line with its tags, and a blank line between sentences (CoNLL, CoNLL-U, BIO)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from plmkit.data.reading.cells import folded, numbered
from plmkit.data.reading.dialect import Line
from plmkit.data.reading.words import TAGS, TOKENS
from plmkit.errors import InputError
from plmkit.language import tr

UNIVERSAL = ("id", "tokens", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # CoNLL-U
DOCUMENT = "-DOCSTART-"
HEADERS = frozenset({"word", "token", "form", *TOKENS})  # how a line of column names begins
SHOWN = 40  # characters of a line in an error


@dataclass(frozen=True, kw_only=True)
class Word:
    """One line of columns."""

    line: int
    cells: tuple[str, ...]
    indented: bool = False  # it begins with white space, which may be the word itself


def cells_of(line: str) -> list[str]:
    """The columns of a line, separated by tabs or, where it has none, by spaces."""
    return [cell.strip() for cell in line.rstrip("\r\n").split("\t")] if "\t" in line else line.split()


def sentences(lines: Iterable[Line]) -> Iterator[list[Word]]:
    """The lines between blank ones; a line that begins a document ends a sentence too."""
    found: list[Word] = []
    for number, line in lines:
        cells = cells_of(line)
        if cells and any(cells) and cells[0] != DOCUMENT:
            found.append(Word(line=number, cells=tuple(cells), indented=line[:1].isspace()))
        elif found:
            yield found
            found = []
    if found:
        yield found


def columns(path: Path, lines: Iterable[Line]) -> tuple[tuple[str, ...], Iterator[list[Word]]]:
    """The names of the columns, `tokens` first and `tags` last, and the sentences, each line with as many cells.

    Left out are a line of column names, comments (`# id = 1`, or other numbers of cells) and words of white space; of
    CoNLL-U also the numbers of words, and words that are written as one or not at all.
    """
    universal = path.name.removesuffix(".gz").removesuffix(".zst").endswith(".conllu")
    found, seen, width = sentences(lines), [], 0
    for words in found:
        seen.append(words)
        if own := [len(word.cells) for word in words if not comment(word)]:
            width = own[0]
            break
    kept = filter(None, (kept_words(path, words, width, universal) for words in chain(seen, found)))
    first = next(kept, [])
    if first and not universal and width > 1 and folded(first[0].cells[0]) in HEADERS:
        first = first[1:]
    rows = chain([first] if first else [], kept)
    if universal:
        return UNIVERSAL[1:width] if width <= len(UNIVERSAL) else numbered(width - 1), rows
    return (TOKENS[0], *numbered(width)[1:-1], TAGS[0])[:width], rows


def kept_words(path: Path, words: Sequence[Word], width: int, universal: bool) -> list[Word]:
    """The words of a sentence, each with `width` cells."""
    rows: list[Word] = []
    for word in words:
        if comment(word) and (universal or (not rows and (len(word.cells) != width or word.cells[2:3] == ("=",)))):
            continue
        if not word.cells[0] or (word.indented and len(word.cells) == width - 1):
            continue
        if len(word.cells) != width or (universal and width < 4):
            raise InputError(
                tr(
                    "{path}, line {line}: {reason}",
                    path=path,
                    line=word.line,
                    reason=tr("expected a word and its tag, found {found}.", found=repr(" ".join(word.cells)[:SHOWN])),
                )
            )
        if universal and word.cells[0].isdigit():  # not 1-2 and 1.1: several words as one, and words left out
            rows.append(Word(line=word.line, cells=word.cells[1:]))
        elif not universal:
            rows.append(word)
    return rows


def comment(word: Word) -> bool:
    """Whether it may be a comment; a word may begin with # too."""
    return word.cells[0].startswith("#")
