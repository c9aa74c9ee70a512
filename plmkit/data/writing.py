"""Tables to write: the rows of a file with new columns, as TSV, CSV, JSONL or Parquet."""

import csv
import io
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from plmkit.data.reading.cells import short
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, tr
from plmkit.storage.files import new_file, reported_os_errors, write_text

TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
Add = Callable[[Iterable[Sequence[Any]]], None]  # writes rows


class QuotedTabs(csv.excel_tab):
    quoting = csv.QUOTE_ALL


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Rows to write, and the names of their columns."""

    columns: list[str]
    rows: list[list[Any]]

    def text(self, suffix: str) -> str:
        """The content of a text file of that type."""
        file = io.StringIO()
        lines = [self.columns, *self.rows]
        quoted = suffix == ".tsv" and any(needs_quotes(written(cell)) for line in lines for cell in line)
        TextTable(file, suffix, self.columns, quoted=quoted).add(self.rows)
        return file.getvalue()

    def write(self, out: Path) -> None:
        """Write the file atomically."""
        if out.suffix == ".parquet":
            with reported_os_errors(out.parent), new_file(out) as partial:
                write_parquet(partial, [self.rows], schema_of(self.columns, self.rows, out))
        else:
            write_text(out, self.text(out.suffix))


class TextTable:
    """A .tsv, .csv or .jsonl file that rows are added to."""

    def __init__(self, file: TextIO, suffix: str, columns: Sequence[str], *, quoted: bool) -> None:
        self.file, self.suffix, self.columns = file, suffix, columns
        # .tsv is quoted completely or not at all, so that a reader can tell from the first line
        dialect = csv.excel if suffix == ".csv" else QuotedTabs if quoted else csv.excel_tab
        self.lines = csv.writer(file, dialect, lineterminator="\n")
        if suffix != ".jsonl":
            self.lines.writerow(columns)

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        if self.suffix == ".jsonl":
            for row in rows:
                self.file.write(json.dumps(record_of(self.columns, row), ensure_ascii=False) + "\n")
        else:
            self.lines.writerows([written(cell) for cell in row] for row in rows)


def schema_of(columns: Sequence[str], rows: Sequence[Sequence[Any]], out: Path, before: Any = None) -> Any:
    """The types of the columns, of these rows and of those before them; refuses values of several types."""
    import pyarrow

    found = []
    for number, name in enumerate(columns):
        try:
            here = pyarrow.schema([(name, pyarrow.array([row[number] for row in rows]).type)])
            known = [] if before is None else [pyarrow.schema([before.field(number)])]
            found += pyarrow.unify_schemas([*known, here], promote_options="permissive")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise InputError(
                tr(
                    "--out {out}: column '{column}' contains values of several types.\n"
                    "Parquet does not support that: write .jsonl instead.",
                    out=out,
                    column=short(name),
                )
            ) from error
    return pyarrow.schema(found)


def write_parquet(path: Path, blocks: Iterable[Sequence[Sequence[Any]]], schema: Any) -> None:
    """Write blocks of rows."""
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetWriter(path, schema) as writer:
        for rows in blocks:
            arrays = [
                pyarrow.array([row[number] for row in rows], type=field.type) for number, field in enumerate(schema)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


@contextmanager
def table_file(out: Path, columns: Sequence[str], *, quoted: bool) -> Iterator[Add]:
    """A file that takes rows block by block, and has its name when all are written."""
    with reported_os_errors(out.parent), new_file(out) as partial:
        if out.suffix == ".parquet":
            with parquet_file(partial, columns, out) as add:
                yield add
        else:
            with open(partial, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                yield TextTable(file, out.suffix, columns, quoted=quoted).add


@contextmanager
def parquet_file(partial: Path, columns: Sequence[str], out: Path) -> Iterator[Add]:
    """Rows wait in a temporary file, because Parquet wants to know the types of all of them before the first."""
    schema: Any = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=partial.parent) as waiting:

        def add(rows: Iterable[Sequence[Any]]) -> None:
            nonlocal schema
            rows = list(rows)
            schema = schema_of(columns, rows, out, schema)
            waiting.write(json.dumps(rows) + "\n")

        yield add
        waiting.seek(0)
        write_parquet(partial, map(json.loads, waiting), schema)


def beside(table: Table, names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Sheet:
    """A table with new columns after its own."""
    columns = [*table.columns, *(free(name, table.columns) for name in names)]
    return Sheet(columns=columns, rows=[[*row, *new] for row, new in zip(table.rows, cells, strict=True)])


def records_of(table: Table) -> list[dict[str, Any]]:
    """The rows of a table as JSON objects."""
    return [record_of(table.columns, row) for row in table.rows]


def record_of(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row as a JSON object."""
    return dict(zip(columns, map(as_json, row), strict=True))


def free(name: str, taken: Sequence[str]) -> str:
    """The name, or `name 2`, `name 3` and so on where the file already has such a column."""
    numbered = (f"{name} {number}" for number in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def written(cell: object) -> str:
    """A cell as text; None is empty."""
    if isinstance(cell, list | dict):
        return json.dumps(cell, ensure_ascii=False)
    return "" if cell is None else str(cell)


def needs_quotes(cell: str) -> bool:
    return any(character in cell for character in '\t\r\n"')


def as_json(cell: object) -> object:
    """NaN and infinity become null, which JSON has."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def check_out(
    out: Path | None, source: str, what: str, kinds: Sequence[str] = TABLES, *, option: str = "--out"
) -> None:
    """Reject an output file of another type, or one that is the input."""
    if out and out.suffix not in kinds:
        raise SettingError(
            tr(
                "{option} {out}: {what} are written as {kinds}. Choose one of these types.",
                option=option,
                out=out,
                what=what,
                kinds=comma().join(kinds),
            )
        )
    if out and is_same(out, Path(source)):
        raise SettingError(
            tr("{option} {out} is the input file and would be overwritten. Choose another.", option=option, out=out)
        )


def is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is missing, or is a text
        return False
