"""A table read whole, with every column as it is: rows to learn from, to predict, to write back."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plmkit.data.reading.columns import listed, short
from plmkit.data.reading.files import format_of
from plmkit.data.reading.parquet import parquet_header, parquet_values
from plmkit.data.reading.source import Format
from plmkit.data.reading.tables import numbered_lines, parse_object, split_rows, under_header
from plmkit.errors import InputError, nearest

ENDINGS = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet", ".txt")  # .json and .md are texts, not rows


@dataclass(frozen=True, kw_only=True)
class Table:
    """A file as it is: what `predict` writes back beside its predictions."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]  # strings; JSONL and Parquet keep their numbers
    lines: list[int]  # where each row begins in the file, from 1


def read_table(path: str | Path) -> Table:
    """All rows of a file with the columns it names."""
    path = Path(path)
    _check_file(path)
    table = _read(path)
    if twice := [name for name in table.columns if table.columns.count(name) > 1]:
        raise InputError(f"{path} has two columns named '{short(twice[0])}'. Rename one.")
    if not table.columns:
        raise InputError(f"{path} is empty.")
    if not table.rows:
        raise InputError(f"{path} has no rows, only the columns {listed(table.columns)}.")
    return table


def _read(path: Path) -> Table:
    format, compression = format_of(path)
    name = path.name.lower().removesuffix(f".{compression}")
    if format is None or os.path.splitext(name)[1] not in ENDINGS:
        raise InputError(
            f"{path} is not a kind of file that holds rows.\nUse .tsv, .csv, .jsonl (these also as .gz or "
            ".zst) or .parquet; for predictions also .txt, one text per line."
        )
    if format == "parquet":
        return _parquet(path)
    lines = _until_last(numbered_lines(str(path), compression))
    if format == "jsonl":
        return _jsonl(path, lines)
    return _plain(path, lines) if format == "txt" else _with_header(path, format, lines)


def _check_file(path: Path) -> None:
    try:
        if path.is_file():
            if path.stat().st_size == 0:
                raise InputError(f"{path} is empty.")
            return
        if path.exists():
            kind = "a folder" if path.is_dir() else "not an ordinary file"
            raise InputError(f"{path} is {kind}. Give one .tsv, .csv, .jsonl or .parquet file.")
        if not path.parent.is_dir():
            raise InputError(f"There is no file {path}: the folder {path.parent} does not exist.")
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    raise InputError(f"There is no file {path}.{nearest(path.name, names)}")


def _until_last(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines without the blank ones at the end: those are no rows."""
    blank: list[tuple[int, str]] = []
    for number, line in lines:
        if line.rstrip("\r"):
            yield from blank
            blank = []
            yield number, line
        else:
            blank.append((number, line))


def _plain(path: Path, lines: Iterator[tuple[int, str]]) -> Table:
    texts = {number: line.removesuffix("\r") for number, line in lines}
    return Table(
        path=path, columns=("text",) if texts else (), rows=[(text,) for text in texts.values()], lines=list(texts)
    )


def _with_header(path: Path, format: Format, lines: Iterator[tuple[int, str]]) -> Table:
    columns: tuple[str, ...] = ()
    rows: dict[int, tuple[object, ...]] = {}
    for number, cells in split_rows(lines, str(path), format):
        if cells == [""] and len(columns) != 1:  # in a single column, a blank line is an empty text
            continue
        if columns:
            rows[number] = tuple(under_header(cells, columns, where(path, number), format))
        else:
            columns = tuple(name.strip() for name in cells)
    return Table(path=path, columns=columns, rows=list(rows.values()), lines=list(rows))


def _jsonl(path: Path, lines: Iterator[tuple[int, str]]) -> Table:
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
            f"{where(path, number)}: a \\u escape that is half a character. Write the file as UTF-8."
        ) from None
    return record


def _parquet(path: Path) -> Table:
    rows = {number: tuple(map(_cell, cells)) for number, cells in parquet_values(str(path))}
    return Table(path=path, columns=tuple(parquet_header(str(path))), rows=list(rows.values()), lines=list(rows))


def _cell(value: object) -> object:
    """Dates and the like become text, so that any output format can hold them."""
    return value if isinstance(value, str | int | float | list | dict | None) else str(value)


def where(path: str | Path, line: int) -> str:
    """The place of a row, as messages name it."""
    return f"{path}, {'row' if str(path).lower().endswith('.parquet') else 'line'} {line}"
