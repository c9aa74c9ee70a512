"""CSV, TSV and JSON lines as rows of cells."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from plmkit.data.reading.blocks import LONGEST_ROW, read_blocks, read_lines
from plmkit.data.reading.columns import columns_of, found, listed, text_of
from plmkit.data.reading.source import Compression, Format, OnBytes
from plmkit.errors import InputError

Row = tuple[int, list[str]]  # line number, cells
ADVICE = {  # what to do about a row that is wider or narrower than its header
    "tsv": "A text cannot hold a tab or a line break in .tsv; use .csv with quotes, or .jsonl.",
    "csv": "Put a text that holds a comma in double quotes.",
}


def table_header(name: str, format: Format, compression: Compression | None) -> list[str] | None:
    """The columns of a table, by its first row; None if it has none."""
    lines = numbered_lines(name, compression)
    if format == "jsonl":
        for number, line in lines:
            if line.strip():
                return list(parse_object(line, name, number))
        return None
    for _, cells in with_text(split_rows(lines, name, format)):
        return [cell.strip() for cell in cells]
    return None


def table_rows(
    name: str, format: Format, compression: Compression | None, column: str, on_bytes: OnBytes | None = None
) -> Iterator[Row]:
    """The cells of the text columns, row by row, with the line at which each row begins."""
    lines = numbered_lines(name, compression, on_bytes)
    if format == "jsonl":
        return json_rows(lines, name, column)
    return cell_rows(with_text(split_rows(lines, name, format)), name, format, column)


def numbered_lines(
    name: str, compression: Compression | None, on_bytes: OnBytes | None = None
) -> Iterator[tuple[int, str]]:
    """Each line with its number."""
    blocks = read_blocks(name, compression, on_bytes)
    for first, lines in read_lines(blocks, name, longest=LONGEST_ROW, cut=False):
        yield from enumerate(lines, first)


def split_rows(lines: Iterator[tuple[int, str]], name: str, format: Format) -> Iterator[Row]:
    """All cells of each row; a blank line is a row of one empty cell."""
    return split_csv(lines, name) if format == "csv" else split_tsv(lines)


def with_text(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows that have any text."""
    return ((number, cells) for number, cells in rows if any(cell.strip() for cell in cells))


def split_tsv(lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Cells between tabs; quotes are text, for many published TSV files hold stray ones."""
    return ((number, line.rstrip("\r").split("\t")) for number, line in lines)


def split_csv(lines: Iterable[tuple[int, str]], name: str) -> Iterator[Row]:
    """Cells with the quoting of RFC 4180; a row may run over several lines."""
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    while True:
        first = reader.line_num + 1
        usual = csv.field_size_limit(LONGEST_ROW)  # the limit is global: raise it for one row only
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{name}, line {first}: the quotes of this row do not match ({error}).\n"
                'Inside a quoted text write "" for each quote.'
            ) from None
        finally:
            csv.field_size_limit(usual)
        if cells is None:
            return
        yield first, cells or [""]


def cell_rows(rows: Iterator[Row], name: str, format: Format, column: str) -> Iterator[Row]:
    """The cells under the wanted columns of a table with a header."""
    header = [cell.strip() for cell in next(rows, (0, []))[1]]
    places = [header.index(part) for part in columns_of(column, header)]
    for number, cells in rows:
        cells = under_header(cells, header, f"{name}, line {number}", format)
        yield number, [cells[place] for place in places]


def under_header(cells: list[str], header: Sequence[str], where: str, format: Format) -> list[str]:
    """As many cells as the header names columns; empty ones at the end, which spreadsheets add, are dropped."""
    width = len(header)
    if len(cells) < width or any(cells[width:]):
        raise InputError(
            f"{where}: {len(cells)} cells, but the header names {width} columns: {listed(header)}.\n{ADVICE[format]}"
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
                raise InputError(f"{name}, line {number}: no column '{part}'. {found(list(row))}")
            cells.append(text_of(row[part], f"{name}, line {number}", part))
        if "\\u" in line:  # half of a surrogate pair is no character, and cannot be written as UTF-8
            cells = [cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for cell in cells]
        yield number, cells


def parse_object(line: str, name: str, number: int) -> dict[str, Any]:
    """One line of JSON, which must be an object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "too long or too deep")
        raise InputError(f"{name}, line {number}: not JSON ({reason}). Each line must be one whole object.") from None
    if not isinstance(row, dict):
        raise InputError(f'{name}, line {number}: not a JSON object. Each line must be like {{"text": "..."}}.')
    return row
