"""Tables that tasks read: opening them, choosing their columns, and texts given in place of a file."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from plmkit.data.reading.cells import folded, listed
from plmkit.data.reading.columns import OPTIONS, USUAL, Columns, Heading, Say, Search
from plmkit.data.reading.files import format_of
from plmkit.data.reading.remarks import sentence
from plmkit.data.reading.source import CELLS
from plmkit.data.reading.tables import table_heading
from plmkit.data.reading.whole import BlockSize, Table, lines_table, read_tables
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

STDIN = "-"
ENDING = re.compile(r"\S+\.[A-Za-z0-9]{1,8}")  # of a name without spaces
KNOWN = frozenset(name for names in USUAL.values() for name in names)


def open_table(path: str | Path, search: Search, say: Say) -> Table:
    """The table of a file; reports what is unusual about it."""
    return next(open_tables(path, search, say))


def open_tables(path: str | Path, search: Search, say: Say, size: BlockSize | None = None) -> Iterator[Table]:
    """The same in blocks."""
    header = search.named.header and (search.trained.header or names_columns(Path(path), search.named))
    for number, table in enumerate(read_tables(path, header=header, size=size)):
        if number == 0 and search.named.header and not header:
            say(tr("{path} is read without a header, like the rows that the model was trained on.", path=path))
        if number == 0 and table.dialect and table.dialect.unusual:
            say(sentence(table.dialect.unusual, [str(path)]))
        yield table


def names_columns(path: Path, named: Columns) -> bool:
    """Whether the first row is a header with known names, although the model's training rows had no header."""
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
                "{path} is plain text, one text per line, and has no column {column}.\n"
                "Use .tsv, .csv, .jsonl or .parquet, with named columns.",
                path=table.path,
                column="text_b" if paired else "label",
            )
        )
    if named.named:
        option = OPTIONS[next(iter(named.named))]
        raise SettingError(
            tr(
                "{path}: plain text has no columns, so {option} would have no effect. Leave it out.",
                option=option,
                path=table.path,
            )
        )


def has_pairs(heading: Heading, search: Search) -> bool:
    """Whether a table has a second text, and single texts were not requested."""
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
                "{name} holds pairs of texts (columns {columns}), but this task reads single texts.\n"
                "Use `--task pair`, remove the column {second}, or choose the one to read with --text COLUMN.",
                name=heading.name,
                columns=listed(heading.columns),
                second=second[0],
            )
        )


def is_file(given: str) -> bool:
    """Whether it looks like a file name, even if the file is missing."""
    if given == STDIN:
        return False
    folder = os.path.dirname(given)
    named = format_of(Path(given))[0] is not None or ENDING.fullmatch(given) is not None
    return named or os.path.exists(given) or (folder != "" and os.path.isdir(folder))


Open = Callable[[str | Path, Search, Say], Table]


def asked_table(given: str, question: str, search: Search, say: Say, open_file: Open = open_table) -> Table:
    """The same question about every row of a table, or about one text: a .txt file, stdin or the given text."""
    table = input_table(given, search, say, open_file)
    if table.plain:
        text = "\n".join(str(text) for (text,) in table.rows)
        return replace(table, columns=("question", "context"), rows=[(question, text)], lines=[1], plain=False)
    kept = [number for number, name in enumerate(table.columns) if name != "question"]
    return replace(
        table,
        columns=("question", *(table.columns[number] for number in kept)),
        rows=[(question, *(cells[number] for number in kept)) for cells in table.rows],
    )


def input_table(given: str, search: Search, say: Say, open_file: Open = open_table) -> Table:
    """The rows of a file, of stdin, or one text."""
    if is_file(given):
        return open_file(given, search, say)
    if not given.strip():
        raise InputError(tr("The text is empty. Give a text, a file, or - for stdin."))
    if given != STDIN:
        return lines_table(Path(tr("The text")), [given])
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            tr("Line {line} of stdin is not UTF-8 text. Convert it first, for example with iconv.", line=line)
        ) from error
    if not text.strip():
        raise InputError(tr("stdin has no text. Give one text per line."))
    return lines_table(Path("stdin"), text.rstrip("\r\n").split("\n"))
