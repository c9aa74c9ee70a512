"""Parquet files as rows of cells, a few rows in memory at a time."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from plmkit.data.reading.cells import text_of, where
from plmkit.data.reading.source import OnBytes
from plmkit.data.reading.text_column import columns_of
from plmkit.errors import InputError
from plmkit.language import tr

ROWS_AT_ONCE = 64  # cells can be long
BUFFER = 1 << 20  # bytes of each column


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
