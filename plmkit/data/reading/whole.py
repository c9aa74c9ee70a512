"""A table read as a whole, with all its columns: rows to train on, to predict, to write back."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from plmkit.data.reading.cells import listed, numbered, short, where
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.dialect import Dialect, Line, dialect_of
from plmkit.data.reading.files import format_of
from plmkit.data.reading.source import CELLS, Format
from plmkit.data.reading.tables import numbered_lines, parquet_header, parquet_values, parse_object, under_header
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import tr

ENDINGS = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".txt")  # .json and .md are texts, not rows


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


def read_table(path: str | Path, *, header: bool = True) -> Table:
    """All rows of a file with the columns that its first row names, or with numbered ones."""
    path = Path(path)
    check_file(path)
    table = _read(path, header)
    if not table.columns:
        raise InputError(tr("{path} is empty.", path=path))
    if twice := [name for name in table.columns if table.columns.count(name) > 1]:
        raise InputError(
            tr(
                "{name} has two columns named '{column}'. {advice}",
                name=path,
                column=short(twice[0]),
                advice=table.heading.advice() or tr("Rename one."),
            )
        )
    if not table.rows:
        advice = f"\n{table.heading.advice()}" if table.heading.advice() else ""
        raise InputError(
            tr(
                "{path} has no rows, only the columns {columns}.{advice}",
                path=path,
                columns=listed(table.columns),
                advice=advice,
            )
        )
    return table


def _read(path: Path, header: bool) -> Table:
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
        return _parquet(path)
    lines = _until_last(numbered_lines(str(path), compression))
    if format == "jsonl":
        return _jsonl(path, lines)
    return _plain(path, lines) if format == "txt" else _cells(path, format, lines, header)


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


def _plain(path: Path, lines: Iterator[Line]) -> Table:
    return lines_table(path, [line for _, line in lines])


def lines_table(path: Path, lines: Sequence[str]) -> Table:
    """A text on each line."""
    rows: list[tuple[object, ...]] = [(line.removesuffix("\r"),) for line in lines]
    columns = ("text",) if rows else ()
    return Table(path=path, columns=columns, rows=rows, lines=list(range(1, len(rows) + 1)), plain=True)


def _cells(path: Path, format: Format, lines: Iterator[Line], header: bool) -> Table:
    dialect, lines = dialect_of(lines, format)
    found = list(dialect.split(lines, str(path)))
    first = next((place for place, (_, cells) in enumerate(found) if not _blank(cells)), None)
    columns: tuple[str, ...] = ()
    if first is not None:
        cells = found[first][1]
        columns = tuple(cell.strip() for cell in cells) if header else numbered(len(cells))
        found = found[first + 1 :] if header else found
    rows = []
    for number, cells in found:
        if _blank(cells):  # one empty cell or more, however many columns there are
            cells = [""] * len(columns)
        rows.append(tuple(under_header(cells, columns, where(path, number), dialect)))
    numbers = [number for number, _ in found]
    return Table(path=path, columns=columns, rows=[*rows], lines=numbers, header=header, dialect=dialect)


def _blank(cells: Sequence[str]) -> bool:
    return not any(cell.strip() for cell in cells)


def _jsonl(path: Path, lines: Iterator[Line]) -> Table:
    records = {number: _record(line, path, number) for number, line in lines if line.strip()}
    columns = tuple(dict.fromkeys(name for record in records.values() for name in record))
    rows = [tuple(record.get(name) for name in columns) for record in records.values()]
    return Table(path=path, columns=columns, rows=rows, lines=list(records))


def _record(line: str, path: Path, number: int) -> dict[str, object]:
    record = parse_object(line, str(path), number)
    try:
        json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except UnicodeEncodeError:
        raise InputError(
            tr("{where}: a \\u escape is half a character. Write the file as UTF-8.", where=where(path, number))
        ) from None
    return record


def _parquet(path: Path) -> Table:
    rows = {number: tuple(map(_cell, cells)) for number, cells in parquet_values(str(path))}
    return Table(path=path, columns=tuple(parquet_header(str(path))), rows=list(rows.values()), lines=list(rows))


def _cell(value: object) -> object:
    """Dates and the like become text, so that any output format can hold them."""
    return value if isinstance(value, str | int | float | list | dict | None) else str(value)
