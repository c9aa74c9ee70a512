"""What callers from Python hand over, looked at before it is used: a mistake gets a sentence, not a traceback."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import pair_of, plain_rows, rows_for


@dataclass(frozen=True, kw_only=True)
class Given:
    """Rows to answer; one that was not in a list has one answer, not a list of one."""

    rows: list[Any]
    alone: bool = False

    def answer(self, answers: Any) -> Any:
        return answers[0] if self.alone else answers


def given(values: Any, kind: Kind | None = None) -> Given:
    """Rows as texts, pairs or rows of a table: one, or any number of them; of a DataFrame, its text columns."""
    if is_frame(values):
        table = table_of(values)
        rows = rows_for(table, kind, labelled=False) if kind else plain_rows(table)
        return Given(rows=[pair_of(row) for row in rows])
    if hasattr(values, "tolist"):  # an array of numpy, a Series of pandas
        values = values.tolist()
    if isinstance(values, str | Mapping):
        return Given(rows=[values], alone=True)
    if isinstance(values, bytes) or not isinstance(values, Iterable):
        raise InputError(f"Give a text or a list of texts; found {kind_of(values)}.")
    return Given(rows=list(values))


def given_texts(values: Any) -> Given:
    """Texts: one, or any number of them."""
    found = given(values)
    for number, text in enumerate(found.rows, start=1):
        if not isinstance(text, str):
            raise InputError(f"Give a text or a list of texts; text {number} is {kind_of(text)}.")
    return found


def is_frame(values: Any) -> bool:
    """Whether it is a DataFrame, whose columns have names."""
    return hasattr(values, "columns") and hasattr(values, "to_dict")


def table_of(frame: Any) -> Table:
    """A DataFrame as a file of rows would be read."""
    columns = tuple(str(name) for name in frame.columns)
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise InputError(f"The DataFrame has two columns named '{twice[0]}'. Rename one.")
    cells = [without_gaps(frame[name]) for name in frame.columns]
    rows = list(zip(*cells, strict=True))
    return Table(path=Path("DataFrame"), columns=columns, rows=rows, lines=list(range(1, len(rows) + 1)))


def without_gaps(column: Any) -> list[object]:
    """The values of a column; pandas has several that stand for none."""
    values = list(column)
    gaps: Sequence[bool] = list(column.isna()) if hasattr(column, "isna") else [False] * len(values)
    return [None if gap else value for value, gap in zip(values, gaps, strict=True)]


def one_text(value: Any, verb: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(f"{verb} takes one text, a str; found {kind_of(value)}.")
    return value


def text_or_pair(row: Any, number: int) -> tuple[str, str | None]:
    """A text, a pair, or a row of a table with `text` or `text_a` and `text_b`."""
    if isinstance(row, str):
        return row, None
    if isinstance(row, Mapping):
        first, second = row.get("text", row.get("text_a")), row.get("text_b")
        if not isinstance(first, str) or not isinstance(second, str | None):
            raise InputError(f"A row needs `text`, or `text_a` and `text_b`; found {', '.join(map(str, row))}.")
        return first, second
    if isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str | None):
        return row[0], row[1]
    raise InputError(f"Row {number} is {kind_of(row)}. A row is a text, a pair of texts, or a dict with `text`.")


def count(value: Any, name: str, what: str) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = value if isinstance(value, int | float) and not isinstance(value, bool) else kind_of(value)
        raise SettingError(f"{name} is {what}, 1 or more; found {found}.")
    return value


def folder(value: Any) -> Path:
    """A path, as text or as a Path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f'A model is loaded from a folder, such as plmkit.load("runs/mine"); found {kind_of(value)}.')
    return Path(os.fsdecode(value))


def kind_of(value: Any) -> str:
    """`None`, `a float (0.5)`, `a tuple of 3`."""
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[0] in "aeiou" else "a"
    if isinstance(value, tuple | list | dict | set):
        return f"{article} {name} of {len(value)}"
    return f"{article} {name} ({value})" if isinstance(value, bool | int | float) else f"{article} {name}"
