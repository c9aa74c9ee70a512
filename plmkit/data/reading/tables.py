"""CSV, TSV, JSON lines and Parquet as rows of cells."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from plmkit.data.reading.blocks import LONGEST_ROW, read_blocks, read_lines
from plmkit.data.reading.cells import found, listed, numbered, text_of, where
from plmkit.data.reading.columns import Heading, columns_of
from plmkit.data.reading.dialect import Dialect, Line, Row, dialect_of, some
from plmkit.data.reading.source import Compression, Format, OnBytes
from plmkit.errors import InputError
from plmkit.language import several, tr

DEEPEST = 200  # levels of JSON in one row
ROWS_AT_ONCE = 64  # cells can be long
BUFFER = 1 << 20  # bytes of each column


def table_heading(name: str, format: Format, compression: Compression | None, *, header: bool = True) -> Heading | None:
    """The columns of a table and some of its rows; None if it has none."""
    lines = numbered_lines(name, compression)
    if format == "jsonl":
        for number, line in lines:
            if line.strip():
                return Heading(name=name, columns=list(parse_object(line, name, number)))
        return None
    dialect, lines = dialect_of(lines, format)
    rows = [cells for _, cells in some(with_text(dialect.split(lines, name)))]
    if not rows:
        return None
    columns = [cell.strip() for cell in rows[0]] if header else numbered(len(rows[0]))
    return Heading(name=name, columns=columns, rows=rows[header:], header=header, dialect=dialect)


def table_rows(
    name: str, format: Format, compression: Compression | None, column: str, on_bytes: OnBytes | None = None,
    *, header: bool = True,
) -> Iterator[Row]:  # fmt: skip
    """The cells of the text columns, row by row, with the line at which each row begins."""
    lines = numbered_lines(name, compression, on_bytes)
    if format == "jsonl":
        return json_rows(lines, name, column)
    dialect, lines = dialect_of(lines, format)
    return cell_rows(with_text(dialect.split(lines, name)), name, dialect, column, header=header)


def numbered_lines(name: str, compression: Compression | None, on_bytes: OnBytes | None = None) -> Iterator[Line]:
    """Each line with its number."""
    blocks = read_blocks(name, compression, on_bytes)
    for first, lines in read_lines(blocks, name, longest=LONGEST_ROW, cut=False):
        yield from enumerate(lines, first)


def with_text(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows that have any text."""
    return ((number, cells) for number, cells in rows if any(cell.strip() for cell in cells))


def cell_rows(rows: Iterator[Row], name: str, dialect: Dialect, column: str, *, header: bool) -> Iterator[Row]:
    """The cells under the wanted columns of a table."""
    first = next(rows, (0, [""]))
    columns = [cell.strip() for cell in first[1]] if header else numbered(len(first[1]))
    places = [columns.index(part) for part in columns_of(column, columns)]
    for number, cells in rows if header else chain([first], rows):
        cells = under_header(cells, columns, where(name, number), dialect)
        yield number, [cells[place] for place in places]


def under_header(cells: list[str], columns: Sequence[str], place: str, dialect: Dialect) -> list[str]:
    """As many cells as there are columns; empty ones at the end, which spreadsheets add, are dropped."""
    width = len(columns)
    if len(cells) < width or any(cells[width:]):
        raise InputError(
            tr(
                "{place}: {cells}, but the first row has {width}: {columns}.\n{advice}",
                place=place,
                cells=several(len(cells), "cell"),
                width=width,
                columns=listed(columns),
                advice=dialect.advice,
            )
        )
    return cells[:width]


def json_rows(lines: Iterable[tuple[int, str]], name: str, column: str) -> Iterator[Row]:
    """The values of the wanted keys of one object per line."""
    for number, line in lines:
        if not line.strip():
            continue
        row = parse_object(line, name, number)
        cells = []
        for part in columns_of(column, list(row)):
            if part not in row:
                raise InputError(
                    tr(
                        "{place}: no column '{column}'. {found}",
                        place=where(name, number),
                        column=part,
                        found=found(list(row)),
                    )
                )
            cells.append(text_of(row[part], where(name, number), part))
        if "\\u" in line:  # half of a surrogate pair is not a character, and cannot be written as UTF-8
            cells = [cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for cell in cells]
        yield number, cells


def parse_object(line: str, name: str, number: int) -> dict[str, Any]:
    """One line of JSON, which must be an object."""
    try:
        row = json.loads(line)
        if line.count("[") + line.count("{") > DEEPEST and is_deeper(row, DEEPEST):
            raise RecursionError  # what is read must also be written
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", tr("too long, or nested too deeply"))
        raise InputError(
            tr(
                "{place}: not JSON ({reason}). Each line must be one complete object.",
                place=where(name, number),
                reason=reason,
            )
        ) from None
    if not isinstance(row, dict):
        raise InputError(
            tr(
                '{place}: not a JSON object. Each line must be like {{"text": "..."}}.',
                place=where(name, number),
            )
        )
    return row


def is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than that."""
    if not isinstance(value, list | dict):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels < 1 or any(is_deeper(part, levels - 1) for part in parts)


def parquet_header(name: str) -> list[str]:
    """The columns of a Parquet file."""
    with open_parquet(name) as file:
        return list(file.schema_arrow.names)


def parquet_rows(name: str, column: str, on_bytes: OnBytes | None = None) -> Iterator[tuple[int, list[str]]]:
    """The cells of the text columns, row by row, numbered from 1."""
    parts = columns_of(column, parquet_header(name))
    for number, cells in parquet_values(name, parts, on_bytes):
        place = where(name, number)
        yield number, [text_of(cell, place, part) for cell, part in zip(cells, parts, strict=True)]


def parquet_values(
    name: str, columns: Sequence[str] | None = None, on_bytes: OnBytes | None = None
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The values of these columns, or of all, row by row, numbered from 1."""
    from pyarrow import ArrowException

    number, reported = 0, 0
    with open_parquet(name) as file:
        size, total = os.path.getsize(name), file.metadata.num_rows
        batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (ArrowException, OSError, UnicodeDecodeError) as error:
                raise InputError(
                    tr(
                        "{name}, after row {number}: damaged Parquet data ({reason}).",
                        name=name,
                        number=number,
                        reason=_brief(error),
                    )
                ) from None
            if batch is None:
                break
            # by name where names are given: a file may order its columns otherwise
            values = [_values(batch.column(part), name, number) for part in columns or range(batch.num_columns)]
            for cells in zip(*values, strict=True):
                number += 1
                yield number, cells
            if on_bytes:  # columns lie side by side in the file: only the share of rows is known
                on_bytes(size * number // total - reported)
                reported = size * number // total
    if on_bytes and reported < size:
        on_bytes(size - reported)


def _values(column: Any, name: str, before: int) -> list[Any]:
    values: list[Any] = []
    for scalar in column:
        try:
            values.append(scalar.as_py())
        except UnicodeDecodeError:
            raise InputError(
                tr("{place}: not UTF-8. Write the file again.", place=where(name, before + len(values) + 1))
            ) from None
    return values


def open_parquet(name: str) -> Any:
    """A Parquet file, read through a small buffer rather than by whole row groups."""
    from pyarrow import ArrowException  # slow to import, and few need it
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(name, buffer_size=BUFFER, pre_buffer=False)
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            tr("{name} is not a valid Parquet file ({reason}).", name=name, reason=_brief(error))
        ) from None


def _brief(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:100]
