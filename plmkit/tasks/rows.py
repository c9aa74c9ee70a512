"""Labelled files to rows: one text or two, and what a model should say of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plmkit.data.reading.columns import listed, short
from plmkit.data.reading.files import format_of
from plmkit.data.reading.whole import Table, read_table, where
from plmkit.errors import InputError, nearest
from plmkit.tasks.kinds import Kind

# The name we ask for, then the names other people's files use.
TEXT = ("text", "sentence", "content", "review")
FIRST = ("text_a", "sentence1", "premise", "question", "query")
SECOND = ("text_b", "sentence2", "hypothesis")
LABEL = ("label", "class", "gold", "score", "similarity")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One text, or two, and what a model should say of it."""

    text: str
    other: str | None = None  # second text of a pair
    label: str | float | None = None
    choices: tuple[str, ...] = ()  # answers to choose from, of which the label is one
    line: int  # 1-based line, or row of a Parquet file


def read_rows(path: str | Path, *, paired: bool | None, numeric: bool = False, labelled: bool = True) -> list[Row]:
    """The rows of a file: pairs, single texts, or (`paired=None`) whichever it holds."""
    return rows_of(read_table(path), paired=paired, numeric=numeric, labelled=labelled)


def read_rows_of(path: str | Path, kind: Kind, *, labelled: bool = True) -> list[Row]:
    """The rows of a file as a kind of task reads them."""
    return rows_for(read_table(path), kind, labelled=labelled)


def rows_for(table: Table, kind: Kind, *, labelled: bool = True) -> list[Row]:
    if kind.readings == "each":
        return choices_of(table, labelled=labelled)
    return rows_of(table, paired=kind.paired, numeric=kind.numeric, labelled=labelled)


def choices_of(table: Table, *, labelled: bool = True) -> list[Row]:
    """Rows with `context`, `question` or both, a list of `choices`, and as `label` one of them or its number from 0."""
    asked = [table.columns.index(name) for name in ("context", "question") if name in table.columns]
    if not asked or "choices" not in table.columns or (labelled and "label" not in table.columns):
        raise InputError(
            f"{table.path} has the columns {listed(table.columns)}.\n"
            "Choosing needs context or question or both, choices (a list, as in JSONL) and label."
        )
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        found = cells[table.columns.index("choices")]
        if (
            not isinstance(found, list)
            or len(found) < 2
            or not all(isinstance(one, str) and one.strip() for one in found)
        ):
            raise InputError(f"{place}: choices must be a list of two texts or more; found {short(str(found))}.")
        text = " ".join(_text_of(cells[column], table.columns[column], place) for column in asked)
        label = cells[table.columns.index("label")] if "label" in table.columns else None
        rows.append(Row(text=text, choices=tuple(found), label=_chosen(label, found, place, labelled), line=line))
    return rows


def _chosen(label: object, choices: list[str], place: str, needed: bool) -> str | None:
    """The choice that a label names, or counts from 0."""
    if isinstance(label, str) and label in choices:
        return label
    number = str(label)
    if number.isdecimal() and int(number) < len(choices):
        return choices[int(number)]
    if needed:
        raise InputError(
            f"{place}: label '{short(str(label))}' is none of the {len(choices)} choices, nor a number from 0 to "
            f"{len(choices) - 1}."
        )
    return None


def rows_of(table: Table, *, paired: bool | None, numeric: bool = False, labelled: bool = True) -> list[Row]:
    """One row for each row of the table; unless `labelled`, a label that cannot be used is None."""
    if paired is None:
        paired = bool(_matches(table.columns, SECOND))
    texts = _pair_columns(table) if paired else [_single_column(table)]
    label = _label_column(table, needed=labelled)
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        found = [_text_of(cells[column], table.columns[column], place) for column in texts]
        value = None if label is None else _label_of(cells[label], place, numeric=numeric, needed=labelled)
        rows.append(Row(text=found[0], other=found[1] if paired else None, label=value, line=line))
    return rows


def plain_rows(table: Table) -> list[Row]:
    """Rows as they are read without a task, one text or two; a line of plain text may be blank."""
    if format_of(table.path)[0] == "txt":
        return [Row(text=str(cells[0]), line=line) for line, cells in zip(table.lines, table.rows, strict=True)]
    return rows_of(table, paired=None, labelled=False)


def classes_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The distinct labels in order; by size where all of them are numbers."""
    labels = sorted({str(row.label) for row in rows if row.label is not None})
    numbers = {label: _number(label) for label in labels}
    if None in numbers.values():
        return tuple(labels)
    return tuple(sorted(labels, key=lambda label: numbers[label] or 0.0))


def check_classes(rows: Sequence[Row], classes: Sequence[str], path: str | Path) -> None:
    """Refuse a label that training never saw."""
    known = frozenset(classes)
    for row in rows:
        if row.label is not None and str(row.label) not in known:
            label = str(row.label)
            raise InputError(
                f"{where(path, row.line)}: label '{short(label)}' was never seen in training."
                f"{nearest(label, classes)}\nKnown labels: {listed(classes)}."
            )


def check_trainable(rows: Sequence[Row], path: str | Path) -> None:
    """Refuse rows that all have the same label: there is nothing to tell apart."""
    labels = {row.label for row in rows}
    if len(labels) == 1:
        label = labels.pop()
        kinds = "classes" if isinstance(label, str) else "different numbers"
        raise InputError(
            f"Training needs at least two {kinds}; all {len(rows)} rows of {path} have label '{short(str(label))}'."
        )


def _single_column(table: Table) -> int:
    columns = table.columns
    if found := _matches(columns, TEXT[:1]):
        return _only(table, found, "text")
    if second := _matches(columns, SECOND):
        raise InputError(
            f"{table.path} holds pairs of texts (columns {listed(columns)}), but this task reads single "
            f"texts.\nUse `--task pair`, or leave out the column {second[0]}."
        )
    # not every name of a first text: a lone question is more often half of another task's row
    found = _matches(columns, FIRST[:1]) or _matches(columns, TEXT)
    if not found:
        raise _missing(table, "text", TEXT + FIRST[:1])
    return _only(table, found, "text")


def _pair_columns(table: Table) -> list[int]:
    first, second = _matches(table.columns, FIRST), _matches(table.columns, SECOND)
    if not second:
        raise _missing(table, "text_b", SECOND)
    if not first:
        raise _missing(table, "text_a", FIRST)
    return [_only(table, first, "text_a"), _only(table, second, "text_b")]


def _label_column(table: Table, *, needed: bool) -> int | None:
    found = _matches(table.columns, LABEL)
    if needed and not found:
        raise _missing(table, "label", LABEL)
    return _only(table, found, "label") if needed or len(found) == 1 else None


def _matches(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns that may be meant: one of the very name, else of its spelling, else the other names."""
    exact = [name for name in columns if name == names[0]]
    spelt = [name for name in columns if name.lower() == names[0]]
    return exact or spelt or [name for name in columns if name.lower() in names]


def _only(table: Table, found: list[str], wanted: str) -> int:
    if len(found) > 1:
        raise InputError(
            f"{table.path}: the columns {listed(found)} may each be meant as {wanted}.\nName the right one {wanted}."
        )
    return table.columns.index(found[0])


def _missing(table: Table, wanted: str, names: Sequence[str]) -> InputError:
    if format_of(table.path)[0] == "txt":
        return InputError(
            f"{table.path} is plain text, one text on each line, without a column {wanted}.\n"
            "Use .tsv, .csv, .jsonl or .parquet, with named columns."
        )
    found = f"columns found: {listed(table.columns)}."
    if len(table.columns) == 1:
        found = f"its only column is '{short(table.columns[0])}'. Is the separator right?"
    others = ", ".join(name for name in names if name != wanted)
    return InputError(f"{table.path} has no column {wanted}; {found}\nName it {wanted} (read as well: {others}).")


def _text_of(cell: object, column: str, place: str) -> str:
    text = _words(cell, column, place)
    if not text.strip():
        raise InputError(f"{place}: the {column} is empty. Fill it in, or leave the row out.")
    return text


def _label_of(cell: object, place: str, *, numeric: bool, needed: bool) -> str | float | None:
    try:
        label = _words(cell, "label", place).strip()
        if not label:
            raise InputError(f"{place}: the label is empty. Fill it in, or leave the row out.")
        if not numeric:
            return label
        if (number := _number(label)) is None:
            raise InputError(
                f"{place}: label '{short(label)}' is not a number.\n"
                "Regression needs numbers; for names use `--task classify` or `--task pair`."
            )
        return number
    except InputError:
        if needed:
            raise
        return None  # test sets for predictions often hold a placeholder


def _words(cell: object, column: str, place: str) -> str:
    """A cell as text; missing values are empty."""
    if isinstance(cell, list | dict):
        raise InputError(f"{place}: the {column} is a list or an object, not text.")
    missing = cell is None or (isinstance(cell, float) and math.isnan(cell))
    return "" if missing else str(cell)


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        number = float("_" if "_" in text else text)  # Python reads 1_0 as ten
    except ValueError:
        return None
    return number if math.isfinite(number) else None
