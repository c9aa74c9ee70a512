"""A table with all its columns, as a whole or in blocks: rows to train on, to predict, to write back."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

from plmkit.data.reading.cells import listed, numbered, short, where
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.dialect import Dialect, Line, dialect_of
from plmkit.data.reading.files import format_of
from plmkit.data.reading.source import CELLS, Format
from plmkit.data.reading.tables import numbered_lines, parquet_header, parquet_values, parse_object, under_header
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr

ENDINGS = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".txt")  # .json and .md are texts, not rows


Row = tuple[int, tuple[object, ...]]  # where it begins in the file, cells


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file as it is: what `predict` writes back next to its predictions."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]  # strings; JSONL and Parquet keep their numbers
    lines: list[int]  # where each row begins in the file, from 1
    header: bool = True  # False: the columns are numbered
    dialect: Dialect | None = None  # of .csv and .tsv
    plain: bool = False  # lines of text, without columns of their own
    file: bool = True  # False: a DataFrame

    @property
    def heading(self) -> Heading:
        return Heading(
            name=str(self.path), columns=self.columns, rows=self.rows, header=self.header, dialect=self.dialect,
            options=self.file,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BlockSize:
    """How much of a table is in memory at once."""

    rows: int
    characters: int  # of all cells, which a single row may exceed


def read_table(path: str | Path, *, header: bool = True) -> Table:
    """All rows of a file with the columns that its first row names, or with numbered ones."""
    return next(read_tables(path, header=header))


def read_tables(path: str | Path, *, header: bool = True, size: BlockSize | None = None) -> Iterator[Table]:
    """The rows of a file in blocks, of which there is at least one; without a size, one has them all.

    Of JSON lines, a block has the columns of its own rows.
    """
    path = Path(path)
    check_file(path)
    for number, table in enumerate(_read(path, header, size)):
        if number == 0:
            check_table(table)
        yield table


def check_table(table: Table) -> None:
    """Refuse a table without columns or rows, or with two columns of one name."""
    if not table.columns:
        raise InputError(tr("{path} is empty.", path=table.path))
    if twice := [name for name in table.columns if table.columns.count(name) > 1]:
        raise InputError(
            tr(
                "{name} has two columns named '{column}'. {advice}",
                name=table.path,
                column=short(twice[0]),
                advice=table.heading.advice() or tr("Rename one."),
            )
        )
    if not table.rows:
        advice = f"\n{table.heading.advice()}" if table.heading.advice() else ""
        raise InputError(
            tr(
                "{path} has no rows, only the columns {columns}.{advice}",
                path=table.path,
                columns=listed(table.columns),
                advice=advice,
            )
        )


def _read(path: Path, header: bool, size: BlockSize | None) -> Iterator[Table]:
    format, compression = format_of(path)
    name = path.name.lower().removesuffix(f".{compression}")
    if format is None or os.path.splitext(name)[1] not in ENDINGS:
        raise InputError(
            tr(
                "{path} is not a supported type of table.\n"
                "Use .tsv, .csv, .jsonl (these also as .gz or .zst) or .parquet; for predictions also .txt, one "
                "text per line.",
                path=path,
            )
        )
    if not header and format not in CELLS:
        raise SettingError(tr("--no-header is for .csv and .tsv; {path} needs no header. Leave it out.", path=path))
    if format == "parquet":
        return _parquet(path, size)
    lines = _until_last(numbered_lines(str(path), compression))
    if format == "jsonl":
        return _jsonl(path, lines, size)
    return _plain(path, lines, size) if format == "txt" else _cells(path, format, lines, header, size)


def in_blocks(rows: Iterable[Row], size: BlockSize | None) -> Iterator[list[Row]]:
    """Rows in lists of up to a size; at least one list, which may be empty."""
    block: list[Row] = []
    characters, full = 0, False
    for row in rows:
        if full:
            yield block
            block, characters, full = [], 0, False
        block.append(row)
        if size is not None:
            characters += sum(len(cell) if isinstance(cell, str) else len(str(cell)) for cell in row[1])
            full = len(block) >= size.rows or characters >= size.characters
    yield block


def aligned(table: Table, columns: tuple[str, ...]) -> Table:
    """A table with these columns, None where it lacks one."""
    if table.columns == columns:
        return table
    places = {name: place for place, name in enumerate(table.columns)}
    rows = [tuple(cells[places[name]] if name in places else None for name in columns) for cells in table.rows]
    return replace(table, columns=columns, rows=rows)


def check_file(path: Path) -> None:
    try:
        if path.is_file():
            if path.stat().st_size == 0:
                raise InputError(tr("{path} is empty.", path=path))
            return
        if path.exists():
            kind = tr("a folder") if path.is_dir() else tr("not a regular file")
            raise InputError(
                tr("{path} is {kind}. Give one .tsv, .csv, .jsonl or .parquet file.", path=path, kind=kind)
            )
        if not path.parent.is_dir():
            raise InputError(
                tr("There is no file {path}: the folder {folder} does not exist.", path=path, folder=path.parent)
            )
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {reason}.", path=path, reason=error.strerror)) from error
    raise InputError(tr("There is no file {path}.{hint}", path=path, hint=nearest(path.name, names)))


def _until_last(lines: Iterator[Line]) -> Iterator[Line]:
    """The lines without blank ones at the end, which are not rows."""
    blank: list[Line] = []
    for number, line in lines:
        if line.rstrip("\r"):
            yield from blank
            blank = []
            yield number, line
        else:
            blank.append((number, line))


def _plain(path: Path, lines: Iterator[Line], size: BlockSize | None) -> Iterator[Table]:
    for block in in_blocks(((number, (line.removesuffix("\r"),)) for number, line in lines), size):
        yield _table(path, ("text",) if block else (), block, plain=True)


def _table(path: Path, columns: tuple[str, ...], block: Sequence[Row], **settings: Any) -> Table:
    rows, lines = [cells for _, cells in block], [number for number, _ in block]
    return Table(path=path, columns=columns, rows=rows, lines=lines, **settings)


def lines_table(path: Path, lines: Sequence[str]) -> Table:
    """A text on each line."""
    rows: list[tuple[object, ...]] = [(line.removesuffix("\r"),) for line in lines]
    columns = ("text",) if rows else ()
    return Table(path=path, columns=columns, rows=rows, lines=list(range(1, len(rows) + 1)), plain=True)


def _cells(
    path: Path, format: Format, lines: Iterator[Line], header: bool, size: BlockSize | None
) -> Iterator[Table]:  # fmt: skip
    dialect, lines = dialect_of(lines, format)
    found, before = dialect.split(lines, str(path)), []
    columns: tuple[str, ...] = ()
    for number, cells in found:
        before.append((number, cells))
        if not _blank(cells):
            columns = tuple(cell.strip() for cell in cells) if header else numbered(len(cells))
            break
    rows = (_under(columns, row, path, dialect) for row in (found if header or not columns else chain(before, found)))
    for block in in_blocks(rows, size):
        yield _table(path, columns, block, header=header, dialect=dialect)


def _under(columns: Sequence[str], row: tuple[int, list[str]], path: Path, dialect: Dialect) -> Row:
    number, cells = row
    if _blank(cells):  # one empty cell or more, however many columns there are
        cells = [""] * len(columns)
    return number, tuple(under_header(cells, columns, where(path, number), dialect))


def _blank(cells: Sequence[str]) -> bool:
    return not any(cell.strip() for cell in cells)


def _jsonl(path: Path, lines: Iterator[Line], size: BlockSize | None) -> Iterator[Table]:
    found = ((number, (_record(line, path, number),)) for number, line in lines if line.strip())
    for block in in_blocks(found, size):
        yield record_table(path, [(number, cast(Mapping[str, object], record)) for number, (record,) in block])


def record_table(path: Path, records: Sequence[tuple[int, Mapping[str, object]]]) -> Table:
    """Records, each with its line, as a table with the columns of all of them."""
    columns = tuple(dict.fromkeys(name for _, record in records for name in record))
    return _table(path, columns, [(line, tuple(map(record.get, columns))) for line, record in records])


def _record(line: str, path: Path, number: int) -> dict[str, object]:
    record = parse_object(line, str(path), number)
    try:
        json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except UnicodeEncodeError:
        raise InputError(
            tr("{where}: a \\u escape is half a character. Write the file as UTF-8.", where=where(path, number))
        ) from None
    return record


def _parquet(path: Path, size: BlockSize | None) -> Iterator[Table]:
    columns = tuple(parquet_header(str(path)))
    rows = ((number, tuple(map(_cell, cells))) for number, cells in parquet_values(str(path)))
    for block in in_blocks(rows, size):
        yield _table(path, columns, block)


def _cell(value: object) -> object:
    """Dates and the like become text, so that any output format can hold them."""
    return value if isinstance(value, str | int | float | list | dict | None) else str(value)
