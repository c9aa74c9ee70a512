"""Tables to write: the rows of a file with new columns, as TSV, CSV, JSONL or Parquet."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import short
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, tr
from plmkit.storage.files import new_file, reported_os_errors, write_text

TABLES = (".tsv", ".csv", ".jsonl", ".parquet")


class QuotedTabs(csv.excel_tab):
    quoting = csv.QUOTE_ALL


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Rows to write, and the names of their columns."""

    columns: list[str]
    rows: list[list[Any]]

    def text(self, suffix: str) -> str:
        """The content of a text file of that type."""
        if suffix == ".jsonl":
            return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in self.records())
        lines = [self.columns, *([written(cell) for cell in row] for row in self.rows)]
        file = io.StringIO()
        if suffix == ".csv":
            csv.writer(file, lineterminator="\n").writerows(lines)
        else:  # quoted completely or not at all, so that a reader can tell from the first line
            quoted = any(needs_quotes(cell) for line in lines for cell in line)
            dialect = QuotedTabs if quoted else csv.excel_tab
            csv.writer(file, dialect, lineterminator="\n").writerows(lines)
        return file.getvalue()

    def records(self) -> list[dict[str, Any]]:
        """Rows as JSON objects."""
        return [dict(zip(self.columns, map(as_json, row), strict=True)) for row in self.rows]

    def write(self, out: Path) -> None:
        """Write the file atomically."""
        if out.suffix == ".parquet":
            self.write_parquet(out)
        else:
            write_text(out, self.text(out.suffix))

    def write_parquet(self, out: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        columns = {}
        for number, name in enumerate(self.columns):
            try:
                columns[name] = pyarrow.array([row[number] for row in self.rows])
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
                raise InputError(
                    tr(
                        "--out {out}: column '{column}' contains values of several types.\n"
                        "Parquet does not support that: write .jsonl instead.",
                        out=out,
                        column=short(name),
                    )
                ) from error
        with reported_os_errors(out.parent), new_file(out) as partial:
            parquet.write_table(pyarrow.table(columns), partial)


def beside(table: Table, names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Sheet:
    """A table with new columns after its own."""
    columns = [*table.columns, *(free(name, table.columns) for name in names)]
    return Sheet(columns=columns, rows=[[*row, *new] for row, new in zip(table.rows, cells, strict=True)])


def records_of(table: Table) -> list[dict[str, Any]]:
    """The rows of a table as JSON objects."""
    return beside(table, [], [[]] * len(table.rows)).records()


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


def check_out(out: Path | None, source: str, what: str, kinds: Sequence[str] = TABLES) -> None:
    """Reject an output file of another type, or one that is the input."""
    if out and out.suffix not in kinds:
        raise SettingError(
            tr(
                "--out {out}: {what} are written as {kinds}. Choose one of these types.",
                out=out,
                what=what,
                kinds=comma().join(kinds),
            )
        )
    if out and is_same(out, Path(source)):
        raise SettingError(tr("--out {out} is the input file and would be overwritten. Choose another.", out=out))


def is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is missing, or is a text
        return False
