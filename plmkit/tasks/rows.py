"""Tables to rows: one text or two per row, and their label."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import count_of, is_blank, is_missing, listed, number_of, short, where
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table, read_table
from plmkit.errors import InputError, nearest
from plmkit.inference.arguments import text_or_pair
from plmkit.language import several, tr
from plmkit.tasks.contract import Labelled, Row, Task
from plmkit.tasks.tables import columns_in, open_table

SHOWN = 5  # places of rows in a message
FEW = 20  # labels that are no surprise, however few the rows are
OWN_LABEL = 0.9  # of the rows: from here on, a label is a name or a number of its row, not a class


def read_rows(path: str | Path, *, paired: bool | None, numeric: bool = False, labelled: bool = True) -> list[Row]:
    """The rows of a file, found by the usual names: pairs, single texts, or (`paired=None`) whichever it holds."""
    table = read_table(path)
    columns = columns_in(table, Search(), paired=paired, labelled=labelled, say=ignore)
    rows = rows_of(table, columns, numeric=numeric)
    return whole_rows(rows, path, ignore) if labelled else rows


def read_labelled(path: Path, task: Task, search: Search, say: Say) -> Labelled:
    """Rows to train on, or to be scored by."""
    table = open_table(path, search, say)
    rows, columns = task.read(table, search, say)
    remark_stripped(table, columns, say)
    return Labelled(path=path, rows=whole_rows(rows, path, say), columns=columns, names=table.columns)


def read_texts(
    table: Table, search: Search, say: Say, *, paired: bool | None, labelled: bool, numeric: bool = False
) -> tuple[list[Row], Columns]:
    """Rows of single texts, of pairs, or (`paired=None`) of whichever the table has, and the columns they are from."""
    columns = columns_in(table, search, paired=paired, labelled=labelled, say=say)
    return rows_of(table, columns, numeric=numeric), columns


def plain_rows(table: Table, search: Search, say: Say) -> list[Row]:
    """Rows as they are read without a task, one text or two."""
    return read_texts(table, search, say, paired=None, labelled=False)[0]


def asked_texts(given: Any, number: int, model: Path, *, paired: bool | None) -> Row:
    """A text or a pair that a caller from Python gives, where the task reads such."""
    if isinstance(given, Mapping) and isinstance(given.get("choices"), list | tuple):
        raise InputError(tr("{model} does not choose, but row {number} has choices.", model=model, number=number))
    text, other = text_or_pair(given, number)
    if paired not in (None, other is not None):
        wanted, found = (tr("two texts"), "one") if paired else (tr("one text"), "two")
        raise InputError(
            tr(
                "{model} reads {wanted} per row; row {number} has {found}.",
                model=model,
                wanted=wanted,
                number=number,
                found=found,
            )
        )
    return Row(text=text, other=other, line=number)


def choices_in(cell: object, place: str) -> tuple[str, ...]:
    """A list of answers to choose from."""
    if (
        not isinstance(cell, list)
        or len(cell) < 2
        or not all(isinstance(one, str | int | float) and not is_blank(str(one)) for one in cell)
    ):
        raise InputError(
            tr(
                "{place}: choices must be a list of two texts or more; found {short}.",
                place=place,
                short=short(str(cell)),
            )
        )
    return tuple(map(str, cell))


def chosen_of(label: object, choices: Sequence[str], place: str) -> str:
    """The choice that a label names, or counts from 0."""
    if isinstance(label, str) and label in choices:
        return label
    number = count_of(str(label).strip())
    if number is None or number >= len(choices):
        raise InputError(
            tr(
                "{place}: label '{short}' is none of the {choices_count} choices, nor a number from 0 to "
                "{choices_count_2}.",
                place=place,
                short=short(str(label)),
                choices_count=len(choices),
                choices_count_2=len(choices) - 1,
            )
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
        text, *other = [words_in(cells[column], table.columns[column], place) for column in places]
        value = None if label is None else label_in(cells[label], place)
        answer = number_in(value, place) if numeric and value is not None else value
        rows.append(Row(text=text, other=other[0] if other else None, label=answer, line=line))
    return rows


def whole_rows(rows: Sequence[Row], path: str | Path, say: Say) -> list[Row]:
    """The rows with text and label; the others are counted, and reported with their lines."""
    blank = [row.line for row in rows if row.blank]
    bare = [row.line for row in rows if row.label is None and not row.blank]
    for what, left_out in (("text", blank), (tr("a label"), bare)):
        if left_out:
            say(
                tr(
                    "! {path}: {rows} without {what} left out ({lines_of}).",
                    path=path,
                    rows=several(len(left_out), "row"),
                    what=what,
                    lines_of=lines_of(left_out, path),
                )
            )
    kept = [row for row in rows if row.label is not None and not row.blank]
    if not kept:
        raise InputError(
            tr("{path}: none of its {rows} has both text and a label.", path=path, rows=several(len(rows), "row"))
        )
    return kept


def lines_of(lines: Sequence[int], path: str | Path) -> str:
    """`line 3`, `lines 3, 8 and 15`."""
    noun = "row" if str(path).lower().endswith(".parquet") else "line"
    more = [tr("{lines_count:,} more", lines_count=len(lines) - SHOWN)] if len(lines) > SHOWN else []
    *before, last = [*(str(line) for line in lines[:SHOWN]), *more]
    return f"{noun}{'s' if before else ''} {' and '.join(filter(None, [', '.join(before), last]))}"


def remark_stripped(table: Table, columns: Columns, say: Say) -> None:
    """Labels that are the same but for the blanks around them are read as one."""
    if columns.label is None:
        return
    place = table.columns.index(columns.label)
    written = {cell for cells in table.rows if isinstance(cell := cells[place], str)}
    twins = sorted({cell.strip() for cell in written if cell != cell.strip() and cell.strip() in written} - {""})
    if twins:
        say(
            tr(
                "! {path}: labels with blanks around them are read without: {listed}.",
                path=table.path,
                listed=listed(twins),
            )
        )


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
                tr(
                    "{where}: label '{short}' was never seen in training.{hint}\nKnown labels: {listed}.",
                    where=where(path, row.line),
                    short=short(label),
                    hint=nearest(label, classes),
                    listed=listed(classes),
                )
            )


def check_trainable(rows: Sequence[Row], path: str | Path) -> None:
    """Refuse rows that all have the same label, or nearly all another: there is nothing to tell apart."""
    labels = {row.label for row in rows}
    if len(labels) == 1:
        label = labels.pop()
        kinds = "classes" if isinstance(label, str) else tr("different numbers")
        raise InputError(
            tr(
                "Training needs at least two {kinds}; all {rows_count} rows of {path} have label '{short}'.",
                kinds=kinds,
                rows_count=len(rows),
                path=path,
                short=short(str(label)),
            )
        )
    names = classes_of([row for row in rows if isinstance(row.label, str)])
    if len(names) > FEW and len(names) >= OWN_LABEL * len(rows):
        raise InputError(
            tr(
                "{path}: {rows_count:,} rows have {names_count:,} different labels ({names}, ...), so nearly "
                "every row would be a class of its own.\n"
                "{too_many}",
                path=path,
                rows_count=len(rows),
                names_count=len(names),
                names=", ".join(map(short, names[:3])),
                too_many=too_many(names),
            )
        )


def too_many(labels: Sequence[str]) -> str:
    """What to do about more labels than there can be classes."""
    if all(number_of(label) is not None for label in labels):
        return tr("To predict numbers: --task regress.")
    return tr("Is it the right column? --label COLUMN names it.")


def label_in(cell: object, place: str) -> str | None:
    """A label without the blanks around it, or None where there is none."""
    return words_in(cell, "label", place).strip() or None


def number_in(label: str, place: str) -> float:
    if (number := number_of(label)) is None:
        raise InputError(
            tr(
                "{place}: label '{short}' is not a number.\n"
                "Regression needs numbers; for names use `--task classify` or `--task pair`.",
                place=place,
                short=short(label),
            )
        )
    return number


def words_in(cell: object, column: str, place: str) -> str:
    """A cell as text; missing values are empty."""
    if isinstance(cell, list | dict):
        raise InputError(tr("{place}: the {column} is a list or an object, not text.", place=place, column=column))
    return "" if is_missing(cell) else str(cell)
