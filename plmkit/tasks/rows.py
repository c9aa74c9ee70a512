"""Labelled files to rows: one text or two, and what a model should say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import count_of, is_blank, is_missing, listed, number_of, short
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table, read_table, where
from plmkit.errors import InputError, nearest, several
from plmkit.tasks.columns import columns_in, open_table
from plmkit.tasks.kinds import Kind

SHOWN = 5  # places of rows in a message
FEW = 20  # labels that are no surprise, however few the rows are
OWN_LABEL = 0.9  # of the rows: from here on, a label is a name or a number of its row, not a class


@dataclass(frozen=True, kw_only=True)
class Row:
    """One text, or two, and what a model should say of it."""

    text: str
    other: str | None = None  # second text of a pair
    label: str | float | None = None
    choices: tuple[str, ...] = ()  # answers to choose from, of which the label is one
    line: int  # 1-based line, or row of a Parquet file

    @property
    def blank(self) -> bool:
        """Whether a text is missing."""
        return is_blank(self.text) or (self.other is not None and is_blank(self.other))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The rows of one file that have text and label."""

    path: Path
    rows: list[Row]
    columns: Columns  # that they are from
    names: tuple[str, ...]  # of all columns


def read_rows(path: str | Path, *, paired: bool | None, numeric: bool = False, labelled: bool = True) -> list[Row]:
    """The rows of a file, found by the usual names: pairs, single texts, or (`paired=None`) whichever it holds."""
    table = read_table(path)
    columns = columns_in(table, Search(), paired=paired, labelled=labelled, say=ignore)
    rows = rows_of(table, columns, numeric=numeric)
    return whole_rows(rows, path, ignore) if labelled else rows


def read_labelled(path: Path, kind: Kind, search: Search, say: Say) -> Labelled:
    """Rows to learn from, or to be scored by."""
    table = open_table(path, search, say)
    rows, columns = rows_for(table, kind, search, say)
    tell_stripped(table, columns, say)
    return Labelled(path=path, rows=whole_rows(rows, path, say), columns=columns, names=table.columns)


def rows_for(table: Table, kind: Kind, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
    """The rows of a table as a kind of task reads them, those without text among them."""
    if kind.readings == "each":
        return choices_of(table, search, say, labelled=labelled)
    columns = columns_in(table, search, paired=kind.paired, labelled=labelled, say=say)
    return rows_of(table, columns, numeric=kind.numeric), columns


def plain_rows(table: Table, search: Search, say: Say) -> list[Row]:
    """Rows as they are read without a task, one text or two."""
    return rows_of(table, columns_in(table, search, paired=None, labelled=False, say=say))


def choices_of(table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
    """Rows with `context`, `question` or both, a list of `choices`, and as `label` one of them or its number from 0."""
    asked = [table.columns.index(name) for name in ("context", "question") if name in table.columns]
    if not asked or "choices" not in table.columns:
        raise InputError(
            f"{table.path} has the columns {listed(table.columns)}.\n"
            "Choosing needs context or question or both, choices (a list, as in JSONL) and label."
        )
    columns, note = search.within(table.heading, ("label",) if labelled else ())
    if note:
        say(note)
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        given = choices_in(cells[table.columns.index("choices")], place)
        texts = [_words(cells[column], table.columns[column], place) for column in asked]
        label = cells[table.columns.index(columns.label)] if columns.label else None
        chosen = None if is_missing(label) or label == "" else chosen_of(label, given, place)
        rows.append(Row(text=" ".join(texts), choices=given, label=chosen, line=line))
    return rows, columns


def choices_in(cell: object, place: str) -> tuple[str, ...]:
    """A list of answers to choose from."""
    if (
        not isinstance(cell, list)
        or len(cell) < 2
        or not all(isinstance(one, str | int | float) and not is_blank(str(one)) for one in cell)
    ):
        raise InputError(f"{place}: choices must be a list of two texts or more; found {short(str(cell))}.")
    return tuple(map(str, cell))


def chosen_of(label: object, choices: Sequence[str], place: str) -> str:
    """The choice that a label names, or counts from 0."""
    if isinstance(label, str) and label in choices:
        return label
    number = count_of(str(label).strip())
    if number is None or number >= len(choices):
        raise InputError(
            f"{place}: label '{short(str(label))}' is none of the {len(choices)} choices, nor a number from 0 to "
            f"{len(choices) - 1}."
        )
    return choices[number]


def rows_of(table: Table, columns: Columns, *, numeric: bool = False) -> list[Row]:
    """One row for each row of the table; a label that is not there is None."""
    names = [columns.text] if columns.text_a is None else [columns.text_a, columns.text_b]
    places = [table.columns.index(name) for name in names if name is not None]
    label = None if columns.label is None else table.columns.index(columns.label)
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        text, *other = [_words(cells[column], table.columns[column], place) for column in places]
        value = None if label is None else _label(cells[label], place)
        answer = _number(value, place) if numeric and value is not None else value
        rows.append(Row(text=text, other=other[0] if other else None, label=answer, line=line))
    return rows


def whole_rows(rows: Sequence[Row], path: str | Path, say: Say) -> list[Row]:
    """The rows with text and label; the others are counted, and told with their lines."""
    blank = [row.line for row in rows if row.blank]
    bare = [row.line for row in rows if row.label is None and not row.blank]
    for what, left_out in (("text", blank), ("a label", bare)):
        if left_out:
            say(f"! {path}: {several(len(left_out), 'row')} without {what} left out ({lines_of(left_out, path)}).")
    kept = [row for row in rows if row.label is not None and not row.blank]
    if not kept:
        raise InputError(f"{path}: none of its {several(len(rows), 'row')} has both text and a label.")
    return kept


def lines_of(lines: Sequence[int], path: str | Path) -> str:
    """`line 3`, `lines 3, 8 and 15`."""
    noun = "row" if str(path).lower().endswith(".parquet") else "line"
    more = [f"{len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    *before, last = [*(str(line) for line in lines[:SHOWN]), *more]
    return f"{noun}{'s' if before else ''} {' and '.join(filter(None, [', '.join(before), last]))}"


def tell_stripped(table: Table, columns: Columns, say: Say) -> None:
    """Labels that are the same but for the blanks around them are read as one."""
    assert columns.label is not None
    place = table.columns.index(columns.label)
    written = {cell for cells in table.rows if isinstance(cell := cells[place], str)}
    twins = sorted({cell.strip() for cell in written if cell != cell.strip() and cell.strip() in written} - {""})
    if twins:
        say(f"! {table.path}: labels with blanks around them are read without: {listed(twins)}.")


def pair_of(row: Row) -> Any:
    """A row as `Model.predict` takes it."""
    if row.choices:
        return {"text": row.text, "choices": list(row.choices)}
    return row.text if row.other is None else (row.text, row.other)


def classes_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The distinct labels in order; by size where all of them are numbers."""
    labels = sorted({str(row.label) for row in rows if row.label is not None})
    numbers = {label: number_of(label) for label in labels}
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
    """Refuse rows that all have the same label, or nearly all another: there is nothing to tell apart."""
    labels = {row.label for row in rows}
    if len(labels) == 1:
        label = labels.pop()
        kinds = "classes" if isinstance(label, str) else "different numbers"
        raise InputError(
            f"Training needs at least two {kinds}; all {len(rows)} rows of {path} have label '{short(str(label))}'."
        )
    names = classes_of([row for row in rows if isinstance(row.label, str)])
    if len(names) > FEW and len(names) >= OWN_LABEL * len(rows):
        raise InputError(
            f"{path}: {len(rows):,} rows have {len(names):,} different labels "
            f"({', '.join(map(short, names[:3]))}, ...), so nearly every row would be a class of its own.\n"
            f"{too_many(names)}"
        )


def too_many(labels: Sequence[str]) -> str:
    """What to do about more labels than there can be classes."""
    if all(number_of(label) is not None for label in labels):
        return "To predict numbers: --task regress."
    return "Is it the right column? --label COLUMN names it."


def _label(cell: object, place: str) -> str | None:
    """A label without the blanks around it, or None where there is none."""
    return _words(cell, "label", place).strip() or None


def _number(label: str, place: str) -> float:
    if (number := number_of(label)) is None:
        raise InputError(
            f"{place}: label '{short(label)}' is not a number.\n"
            "Regression needs numbers; for names use `--task classify` or `--task pair`."
        )
    return number


def _words(cell: object, column: str, place: str) -> str:
    """A cell as text; missing values are empty."""
    if isinstance(cell, list | dict):
        raise InputError(f"{place}: the {column} is a list or an object, not text.")
    return "" if is_missing(cell) else str(cell)
