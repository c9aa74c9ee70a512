"""CSV, TSV and JSON lines as rows of text cells."""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from plmkit.data.reading.blocks import LONGEST_ROW, read_blocks, read_lines
from plmkit.data.reading.columns import columns_of, found, text_of
from plmkit.data.reading.source import Compression, Format, OnBytes
from plmkit.errors import InputError

Row = tuple[int, list[str]]  # line number, cells


def table_header(name: str, format: Format, compression: Compression | None) -> list[str] | None:
    """The columns of a table, by its first row; None if it has none."""
    lines = numbered_lines(name, compression)
    if format == "jsonl":
        for number, line in lines:
            if line.strip():
                return list(parse_object(line, name, number))
        return None
    for _, cells in split_rows(lines, name, format):
        return [cell.strip() for cell in cells]
    return None


def table_rows(
    name: str, format: Format, compression: Compression | None, column: str, on_bytes: OnBytes | None = None
) -> Iterator[Row]:
    """The cells of the text columns, row by row, with the line at which each row begins."""
    lines = numbered_lines(name, compression, on_bytes)
    if format == "jsonl":
        return json_rows(lines, name, column)
    return cell_rows(split_rows(lines, name, format), name, column)


def numbered_lines(
    name: str, compression: Compression | None, on_bytes: OnBytes | None = None
) -> Iterator[tuple[int, str]]:
    """Each line with its number."""
    blocks = read_blocks(name, compression, on_bytes)
    for first, lines in read_lines(blocks, name, longest=LONGEST_ROW, cut=False):
        yield from enumerate(lines, first)


def split_rows(lines: Iterator[tuple[int, str]], name: str, format: Format) -> Iterator[Row]:
    """All cells of each row that has any text."""
    rows = split_csv(lines, name) if format == "csv" else split_tsv(lines)
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
            raise InputError(f"{name}, line {first}: broken CSV row ({error}). Check its quotes.") from None
        finally:
            csv.field_size_limit(usual)
        if cells is None:
            return
        yield first, cells


def cell_rows(rows: Iterator[Row], name: str, column: str) -> Iterator[Row]:
    """The cells under the wanted columns of a table with a header."""
    header = [cell.strip() for cell in next(rows, (0, []))[1]]
    width = len(header)
    places = [header.index(part) for part in columns_of(column, header)]
    for number, cells in rows:
        if len(cells) < width or any(cells[width:]):  # spreadsheets add empty cells at the end
            raise InputError(f"{name}, line {number}: {len(cells)} columns, but the header has {width}. Mend that row.")
        yield number, [cells[place] for place in places]


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
        raise InputError(
            f"{name}, line {number}: broken JSON ({reason}). Each line must be one whole object."
        ) from None
    if not isinstance(row, dict):
        raise InputError(f'{name}, line {number}: not a JSON object. Each line must be like {{"text": "..."}}.')
    return row
