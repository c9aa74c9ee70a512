"""Tables to rows: one text or two per row, and their label."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import count_of, is_blank, is_missing, listed, number_of, short, where
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table, read_table
from plmkit.errors import InputError, nearest
from plmkit.inference.arguments import text_or_pair
from plmkit.language import comma, several, tr
from plmkit.tasks.contract import Labelled, Row, Task
from plmkit.tasks.tables import columns_in

SHOWN = 5  # places of rows in a message
FEW = 20  # labels that are never too many, however few the rows
ReadLabel = Callable[[object, str], Any]  # a cell and its place, for messages; None: the label is missing
OWN_LABEL = 0.9  # labels per row; from here on, a label identifies its row and is not a class


def read_rows(path: str | Path, *, paired: bool | None, numeric: bool = False, labelled: bool = True) -> list[Row]:
    """The rows of a file, found by the usual names: pairs, single texts, or (`paired=None`) whichever it holds."""
    table = read_table(path)
    columns = columns_in(table, Search(), paired=paired, labelled=labelled, say=ignore)
    rows = rows_of(table, columns, number_in if numeric else label_in)
    return whole_rows(rows, path, ignore) if labelled else rows


def read_labelled(path: Path, task: Task, search: Search, say: Say) -> Labelled:
    """Rows to train or to evaluate on."""
    table = task.open(path, search, say)
    rows, columns = task.read(table, search, say)
    remark_stripped(table, columns, say)
    whole = whole_rows(told_apart(rows, table), path, say, asks=task.asks)
    return Labelled(path=path, rows=whole, columns=columns, names=table.columns)


def told_apart(rows: Sequence[Row], table: Table) -> list[Row]:
    """With number and id where several rows are on one line: a JSON document is often a single one."""
    if len({row.line for row in rows}) == len(rows):
        return list(rows)
    ids = [""] * len(rows)
    if "id" in table.columns and len(rows) == len(table.rows):
        place = table.columns.index("id")
        ids = ["" if is_missing(cells[place]) else str(cells[place]) for cells in table.rows]
    return [
        replace(row, number=number, id=row.id or own)
        for number, (row, own) in enumerate(zip(rows, ids, strict=True), start=1)
    ]


def read_texts(
    table: Table, search: Search, say: Say, *, paired: bool | None, labelled: bool, read_label: ReadLabel | None = None
) -> tuple[list[Row], Columns]:
    """Rows of single texts, of pairs, or (`paired=None`) of whichever the table has, and the columns read."""
    columns = columns_in(table, search, paired=paired, labelled=labelled, say=say)
    return rows_of(table, columns, read_label), columns


def plain_rows(table: Table, search: Search, say: Say) -> list[Row]:
    """Rows without a task, of one text or two."""
    return read_texts(table, search, say, paired=None, labelled=False)[0]


def text_row(given: Any, number: int, model: Path, *, paired: bool | None) -> Row:
    """The text or pair that a Python caller gives; refused if the task reads the other."""
    if isinstance(given, Mapping) and isinstance(given.get("choices"), list | tuple):
        raise InputError(
            tr("{model} is not a multiple-choice model, but row {number} has choices.", model=model, number=number)
        )
    text, other = text_or_pair(given, number)
    if paired not in (None, other is not None):
        if paired:
            raise InputError(tr("{model} reads two texts per row; row {number} has one.", model=model, number=number))
        raise InputError(tr("{model} reads one text per row; row {number} has two.", model=model, number=number))
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
                "{place}: choices must be a list of at least two texts; found {found}.",
                place=place,
                found=short(str(cell)),
            )
        )
    return tuple(map(str, cell))


def chosen_of(label: object, choices: Sequence[str], place: str) -> str:
    """The choice that a label gives by its text or by its number, from 0."""
    if isinstance(label, str) and label in choices:
        return label
    number = count_of(str(label).strip())
    if number is None or number >= len(choices):
        raise InputError(
            tr(
                "{place}: label '{label}' is neither one of the {count} choices nor a number from 0 to {last}.",
                place=place,
                label=short(str(label)),
                count=len(choices),
                last=len(choices) - 1,
            )
        )
    return choices[number]


def rows_of(table: Table, columns: Columns, read_label: ReadLabel | None = None) -> list[Row]:
    """One row for each row of the table; a missing label is None."""
    names = [columns.text] if columns.text_a is None else [columns.text_a, columns.text_b]
    places = [table.columns.index(name) for name in names if name is not None]
    label = None if columns.label is None else table.columns.index(columns.label)
    read, rows = read_label or label_in, []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place = where(table.path, line)
        text, *other = [words_in(cells[column], table.columns[column], place) for column in places]
        answer = None if label is None else read(cells[label], place)
        rows.append(Row(text=text, other=other[0] if other else None, label=answer, line=line))
    return rows


def whole_rows(rows: Sequence[Row], path: str | Path, say: Say, *, asks: bool = False) -> list[Row]:
    """The rows with text and label, or that ask a question and have its answer; the others are counted and reported."""
    blank = [row.line for row in rows if row.blank]
    bare = [row.line for row in rows if row.label is None and not row.blank]
    if blank:
        say(
            tr(
                "! {path}: {rows} {lacking} left out ({lines}).",
                path=path,
                rows=several(len(blank), "row"),
                lacking=tr("without a question") if asks else tr("without text"),
                lines=lines_of(blank, path),
            )
        )
    if bare:
        say(
            tr(
                "! {path}: {rows} {lacking} left out ({lines}).",
                path=path,
                rows=several(len(bare), "row"),
                lacking=tr("without an answer") if asks else tr("without a label"),
                lines=lines_of(bare, path),
            )
        )
    kept = [row for row in rows if row.label is not None and not row.blank]
    if not kept:
        values = {"path": path, "rows": several(len(rows), "row")}
        raise InputError(
            tr("{path}: none of its {rows} has both a question and an answer.", **values)
            if asks
            else tr("{path}: none of its {rows} has both text and a label.", **values)
        )
    return kept


def report_blank(
    lines: Sequence[int], total: int, path: Path, others: str, say: Say, *, asks: bool = False
) -> None:  # fmt: skip
    """Report rows without text, or without a question, and what they get; refuse a table of nothing else."""
    if len(lines) == total:
        raise InputError(
            tr("{path} has no question: every one is blank.", path=path)
            if asks
            else tr("{path} has no text: every row is blank.", path=path)
        )
    if lines:
        say(
            tr(
                "! {path}: {rows} {lacking}, {others} ({lines}).",
                path=path,
                rows=several(len(lines), "row"),
                lacking=tr("without a question") if asks else tr("without text"),
                others=others,
                lines=lines_of(lines, path),
            )
        )


def lines_of(lines: Sequence[int], path: str | Path) -> str:
    """`line 3`, `lines 3, 8 and 15`."""
    more = [tr("{count:,} more", count=len(lines) - SHOWN)] if len(lines) > SHOWN else []
    *before, last = [*(str(line) for line in lines[:SHOWN]), *more]
    numbers = tr(" and ").join(filter(None, [comma().join(before), last]))
    if str(path).lower().endswith(".parquet"):
        return tr("rows {numbers}", numbers=numbers) if before else tr("row {number}", number=last)
    return tr("lines {numbers}", numbers=numbers) if before else tr("line {number}", number=last)


def remark_stripped(table: Table, columns: Columns, say: Say) -> None:
    """Report labels that differ only in the spaces around them, which are ignored."""
    if columns.label is None:
        return
    place = table.columns.index(columns.label)
    written = {cell for cells in table.rows if isinstance(cell := cells[place], str)}
    twins = sorted({cell.strip() for cell in written if cell != cell.strip() and cell.strip() in written} - {""})
    if twins:
        say(
            tr(
                "! {path}: spaces around labels are ignored: {labels}.",
                path=table.path,
                labels=listed(twins),
            )
        )


def classes_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The distinct labels in order; numbers by size."""
    labels = sorted({str(row.label) for row in rows if row.label is not None})
    numbers = {label: number_of(label) for label in labels}
    if None in numbers.values():
        return tuple(labels)
    return tuple(sorted(labels, key=lambda label: numbers[label] or 0.0))


def check_classes(rows: Sequence[Row], classes: Sequence[str], path: str | Path) -> None:
    """Refuse a label that does not occur in training."""
    known = frozenset(classes)
    for row in rows:
        if row.label is not None and str(row.label) not in known:
            raise unknown_label(str(row.label), classes, where(path, row.line))


def unknown_label(label: str, classes: Sequence[str], place: str) -> InputError:
    return InputError(
        tr(
            "{place}: label '{label}' does not occur in training.{hint}\nKnown labels: {known}.",
            place=place,
            label=short(label),
            hint=nearest(label, classes),
            known=listed(classes),
        )
    )


def check_trainable(rows: Sequence[Row], path: str | Path) -> None:
    """Refuse rows that all have the same label, or nearly all a different one."""
    labels = {row.label for row in rows}
    if len(labels) == 1:
        label = labels.pop()
        values = {"count": len(rows), "path": path, "label": short(str(label))}
        if isinstance(label, str):
            raise InputError(
                tr("Training needs at least two classes; all {count} rows of {path} have label '{label}'.", **values)
            )
        raise InputError(
            tr(
                "Training needs at least two different numbers; all {count} rows of {path} have label '{label}'.",
                **values,
            )
        )
    names = classes_of([row for row in rows if isinstance(row.label, str)])
    if len(names) > FEW and len(names) >= OWN_LABEL * len(rows):
        raise InputError(
            tr(
                "{path}: {rows:,} rows have {labels:,} different labels ({names}, ...), so nearly every row would be a "
                "class of its own.\n"
                "{advice}",
                path=path,
                rows=len(rows),
                labels=len(names),
                names=comma().join(map(short, names[:3])),
                advice=too_many(names),
            )
        )


def too_many(labels: Sequence[str]) -> str:
    """What to do about too many labels."""
    if all(number_of(label) is not None for label in labels):
        return tr("To predict numbers, use --task regress.")
    return tr("Is this the right column? Choose it with --label COLUMN.")


def label_in(cell: object, place: str) -> str | None:
    """A label without the spaces around it, or None if it is empty."""
    if isinstance(cell, list):
        raise InputError(
            tr(
                "{place}: the label is a list, but this task reads one label per row. For several, use --task "
                "multilabel.",
                place=place,
            )
        )
    return words_in(cell, "label", place).strip() or None


def number_in(cell: object, place: str) -> float | None:
    if (label := label_in(cell, place)) is None:
        return None
    if (number := number_of(label)) is None:
        raise InputError(
            tr(
                "{place}: label '{label}' is not a number.\n"
                "Regression needs numbers; for classes use `--task classify` or `--task pair`.",
                place=place,
                label=short(label),
            )
        )
    return number


def words_in(cell: object, column: str, place: str) -> str:
    """A cell as text; missing values are empty."""
    if isinstance(cell, list | dict):
        raise InputError(tr("{place}: the {column} is a list or an object, not text.", place=place, column=column))
    return "" if is_missing(cell) else str(cell)
