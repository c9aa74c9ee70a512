"""Tables that tasks read: how they are opened, which of their columns are read, and texts given in their place."""

import os
import re
import sys
from pathlib import Path

from plmkit.data.reading.cells import folded, listed
from plmkit.data.reading.columns import OPTIONS, USUAL, Columns, Heading, Say, Search
from plmkit.data.reading.files import format_of
from plmkit.data.reading.remarks import sentence
from plmkit.data.reading.source import CELLS
from plmkit.data.reading.tables import table_heading
from plmkit.data.reading.whole import Table, lines_table, read_table
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

STDIN = "-"
ENDING = re.compile(r"\S+\.[A-Za-z0-9]{1,8}")  # of a name without blanks
KNOWN = frozenset(name for names in USUAL.values() for name in names)


def open_table(path: str | Path, search: Search, say: Say) -> Table:
    """A file as it is; what is unusual about it is said."""
    header = search.named.header and (search.trained.header or names_columns(Path(path), search.named))
    table = read_table(path, header=header)
    if search.named.header and not header:
        say(tr("{path} is read without a header, like the rows that the model was trained on.", path=path))
    if table.dialect and table.dialect.unusual:
        say(sentence(table.dialect.unusual, [str(path)]))
    return table


def names_columns(path: Path, named: Columns) -> bool:
    """Whether a first row has names that are known, where the rows that a model was trained on had no such row."""
    format, compression = format_of(path)
    if format not in CELLS or not path.is_file():
        return True
    heading = table_heading(str(path), format, compression)
    return heading is None or any(
        folded(column) in KNOWN or column in named.named.values() for column in heading.columns
    )


def columns_in(table: Table, search: Search, *, paired: bool | None, labelled: bool, say: Say) -> Columns:
    """The columns to read: pairs, single texts, or (`paired=None`) whichever there are, and their labels."""
    heading = table.heading
    if table.plain:
        check_plain(table, search.named, paired=paired, labelled=labelled)
    if paired is None:
        paired = has_pairs(heading, search)
    if not paired:
        check_single(heading, search)
    texts = ("text_a", "text_b") if paired else ("text",)
    columns, note = search.within(heading, (*texts, *(("label",) if labelled else ())))
    if note:
        say(note)
    return columns


def check_plain(table: Table, named: Columns, *, paired: bool | None, labelled: bool) -> None:
    """Lines of plain text are single texts without labels."""
    if labelled or paired:
        raise InputError(
            tr(
                "{path} is plain text, one text on each line, without a column {word}.\n"
                "Use .tsv, .csv, .jsonl or .parquet, with named columns.",
                path=table.path,
                word="text_b" if paired else "label",
            )
        )
    if named.named:
        option = OPTIONS[next(iter(named.named))]
        raise SettingError(
            tr(
                "{option} names a column, but {path} is plain text, which has none. Leave it out.",
                option=option,
                path=table.path,
            )
        )


def has_pairs(heading: Heading, search: Search) -> bool:
    """Whether a table has a second text, and the user does not ask for single ones."""
    if search.named.text is not None:
        return False
    names = {search.named.text_a, search.named.text_b} - {None}
    return bool(names or heading.usual("text_b") or search.trained.text_b in heading.columns)


def check_single(heading: Heading, search: Search) -> None:
    """A second text is not silently left out."""
    found = heading.usual("text")[:1]
    if search.named.text or search.trained.text in heading.columns or [folded(name) for name in found] == ["text"]:
        return
    if second := heading.usual("text_b"):
        raise InputError(
            tr(
                "{name} holds pairs of texts (columns {listed}), but this task reads single texts.\n"
                "Use `--task pair`, leave out the column {second}, or name the one to read: --text COLUMN.",
                name=heading.name,
                listed=listed(heading.columns),
                second=second[0],
            )
        )


def is_file(given: str) -> bool:
    """Whether it names a file, though perhaps one that is not there."""
    if given == STDIN:
        return False
    folder = os.path.dirname(given)
    named = format_of(Path(given))[0] is not None or ENDING.fullmatch(given) is not None
    return named or os.path.exists(given) or (folder != "" and os.path.isdir(folder))


def asked_table(given: str, search: Search, say: Say) -> Table:
    """The rows of a file, of stdin, or one text."""
    if is_file(given):
        return open_table(given, search, say)
    if given != STDIN:
        return lines_table(Path(tr("The text")), [given])
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            tr("Line {line} of stdin is not UTF-8 text. Convert it first, as by iconv.", line=line)
        ) from error
    if not text.strip():
        raise InputError(tr("There is no text on stdin. Give one on each line."))
    return lines_table(Path("stdin"), text.rstrip("\r\n").split("\n"))
