"""Rows of words and tags, from tables of any shape that people have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.data.reading.cells import folded, is_missing, listed, where
from plmkit.data.reading.columns import OPTIONS, Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.data.reading.words import TAGS, TOKENS, Span, found_in, sentence_of
from plmkit.errors import InputError, SettingError
from plmkit.language import several, tr
from plmkit.tasks.contract import Row
from plmkit.tasks.tagging.annotations import annotations_in, tagged_words
from plmkit.tasks.tagging.cutting import MARKS, cut
from plmkit.tasks.tagging.tables import SPANS, WordTable


@dataclass(frozen=True, kw_only=True)
class WordRow(Row):
    """A text, where its words are, and as `label` a tag for each, or None."""

    spans: tuple[Span, ...]  # first character of each word, and the one after the last
    given: bool = True  # the words are given, not cut out of the text
    lines: tuple[int, ...] = ()  # of each word in a file of columns
    intent: str | None = None  # of an utterance

    @property
    def words(self) -> list[str]:
        return [self.text[begin:end] for begin, end in self.spans]

    def line_of(self, word: int) -> int:
        """Where a word stands."""
        return self.lines[word] if self.lines else self.line


@dataclass(frozen=True, kw_only=True)
class Found:
    """The columns of a table of words."""

    tokens: int | None  # a list of words
    text: int | None  # what they are words of
    tags: int | None
    spans: bool  # the tags are spans of characters
    intent: int | None = None

    def columns(self, names: Sequence[str]) -> Columns:
        place = self.text if self.tokens is None else self.tokens
        return Columns(
            text=None if place is None else names[place], label=None if self.tags is None else names[self.tags]
        )


def columns_in(table: Table, search: Search, *, labelled: bool, intents: Sequence[str] = ()) -> Found:
    """Words and tags by the names that the user gives, by those of training, or by usual ones."""
    if other := next((role for role in search.named.named if role not in ("text", "label")), None):
        raise SettingError(
            tr(
                "{option} names a column that this task does not read. {instead}",
                option=OPTIONS[other],
                instead=tr("Use {options}.", options=tr(" and ").join((OPTIONS["text"], OPTIONS["label"]))),
            )
        )
    heading = table.heading
    for role, name in search.named.named.items():
        heading.exactly(name, role, ("text", "label"))
    names = {folded(name): place for place, name in reversed([*enumerate(table.columns)])}
    named = [folded(name) for name in (search.named.text, search.trained.text) if name]
    first = next((name for name in (*named, *TOKENS) if name in names), None)
    usual = [folded(name) for name in heading.usual("text")]
    text = next(iter(usual), None)
    if first is None and text is None:
        raise lacking(table, tr("words: `tokens` (a list of words) or `text`"))
    listed_words = first is not None and (first in TOKENS or is_listed(table, names[first]))
    wanted = [folded(name) for name in (search.named.label, search.trained.label) if name]
    tags = next((name for name in (*wanted, *TAGS, *SPANS) if name in names), None)
    if labelled and tags is None:
        raise lacking(
            table, tr("tags: `tags` (a tag for each word), or `entities` (start, end and label of each span)")
        )
    intent = next((name for name in intents if name in names), None)
    if labelled and intents and intent is None:
        raise lacking(table, tr("an intent: `intent`"))
    return Found(
        tokens=names[first] if first and listed_words else None,
        text=names[first] if first and not listed_words else None if text is None else names[text],
        tags=names[tags] if labelled and tags else None,
        spans=tags in SPANS and not (tags in TAGS and listed_words),
        intent=names[intent] if labelled and intent else None,
    )


def is_listed(table: Table, column: int) -> bool:
    """Whether a column has lists, as such or written as JSON."""
    cell = next((cells[column] for cells in table.rows if not is_missing(cells[column])), None)
    return isinstance(cell, list | tuple) or (isinstance(cell, str) and cell.startswith('["'))


def lacking(table: Table, what: str) -> InputError:
    return InputError(
        tr(
            "{path} has no column of {what}. It has {columns}.\n"
            "Choose others with --text COLUMN and --label COLUMN, or give a file of columns (.conll): a word and its "
            "tag per line.",
            path=table.path,
            what=what,
            columns=listed(table.columns),
        )
    )


def word_rows(
    table: Table, search: Search, say: Say, *, labelled: bool, units: str, intents: Sequence[str] = ()
) -> tuple[list[WordRow], Columns]:
    """A row per sentence; `units` says how a text without words is cut."""
    found = columns_in(table, search, labelled=labelled, intents=intents)
    rows, elsewhere = [], 0
    for number, (line, cells) in enumerate(zip(table.lines, table.rows, strict=True)):
        row = row_of(cells, found, where(table.path, line), units if not labelled else MARKS)
        lines = table.words[number] if isinstance(table, WordTable) else ()
        rows.append(replace(row, line=line, lines=lines))
        elsewhere += (
            found.tokens is not None and found.text is not None and bool(row.words) and cells[found.text] != row.text
        )
    if elsewhere:
        say(
            tr(
                "! {path}: in {rows} the words are not those of the text, so characters are counted in the words, "
                "joined.",
                path=table.path,
                rows=several(elsewhere, "row"),
            )
        )
    return rows, found.columns(table.columns)


def row_of(cells: Sequence[Any], found: Found, place: str, units: str) -> WordRow:
    """One row, its tags as they are written."""
    text = "" if found.text is None or is_missing(cells[found.text]) else str(cells[found.text])
    tags = None if found.tags is None else cells[found.tags]
    tags = None if is_missing(tags) else tags
    intent = (
        None if found.intent is None or is_missing(cells[found.intent]) else str(cells[found.intent]).strip() or None
    )
    if found.tokens is None and (tags is None or (found.spans and not is_tags(tags))):
        if tags is None:
            return WordRow(text=text, spans=tuple(cut(text, units)), given=False, intent=intent, line=0)
        spans, marked = tagged_words(text, annotations_in(tags, text, place))
        return WordRow(text=text, spans=tuple(spans), given=False, label=marked, intent=intent, line=0)
    words = text.split() if found.tokens is None else words_in(cells[found.tokens], place)
    return with_words(words, text, tags_in(tags, words, place) if tags is not None else None, intent)


def is_tags(cell: Any) -> bool:
    """Whether a cell has a tag for each word: texts, as a list or separated by spaces."""
    if isinstance(cell, str):
        return not cell.lstrip().startswith(("[", "{"))
    return isinstance(cell, list) and bool(cell) and all(isinstance(tag, str | int) for tag in cell)


def with_words(words: Sequence[str], text: str, tags: tuple[str, ...] | None, intent: str | None) -> WordRow:
    """A row of words, found in their text, or else joined."""
    spans = found_in(text, words) if text and words else None
    if spans is None:
        joined = sentence_of(words)
        text, spans = joined.text, [(begin, end) for begin, end in joined.spans.tolist()]
    return WordRow(text=text, spans=tuple(spans), label=tags, intent=intent, line=0)


def listed_in(cell: Any) -> list[Any]:
    """A list as such, written as JSON, or separated by spaces."""
    if isinstance(cell, str):
        try:
            found = json.loads(cell) if cell.lstrip().startswith("[") else cell.split()
        except ValueError:
            found = cell.split()
        return found if isinstance(found, list) else [found]
    return list(cell) if isinstance(cell, list | tuple) else [cell]


def words_in(cell: Any, place: str) -> list[str]:
    words = [] if is_missing(cell) else listed_in(cell)
    if not all(isinstance(word, str) and word.strip() for word in words):
        raise InputError(tr("{place}: every token must be a text, and none empty.", place=place))
    return words


def tags_in(cell: Any, words: Sequence[str], place: str) -> tuple[str, ...]:
    tags = listed_in(cell)
    if not all(isinstance(tag, str | int) and str(tag).strip() for tag in tags):
        raise InputError(tr("{place}: every tag must be a text, and none empty.", place=place))
    if len(tags) != len(words):
        raise InputError(
            tr(
                "{place}: {words}, but {tags}. Each token has one tag.",
                place=place,
                words=several(len(words), "token"),
                tags=several(len(tags), "tag"),
            )
        )
    return tuple(str(tag).strip() for tag in tags)


def given_row(given: Any, number: int, units: str) -> WordRow:
    """What a Python caller gives: a text, a list of words, or a row of a table with `text`, `tokens` or both."""
    text, words = given, None
    if isinstance(given, Mapping):
        words = next((given[name] for name in TOKENS if name in given), None)
        text = given.get("text", "")
    elif isinstance(given, list | tuple):
        text, words = "", given
    if not isinstance(text, str) or not isinstance(words, list | tuple | None) or (words is None and not given):
        raise InputError(
            tr("Row {number}: give a text, a list of words, or a dict with `text` or `tokens`.", number=number)
        )
    if words is None:
        return WordRow(text=text, spans=tuple(cut(text, units)), given=False, line=number)
    return replace(with_words(words_in(list(words), tr("row {number}", number=number)), text, None, None), line=number)
