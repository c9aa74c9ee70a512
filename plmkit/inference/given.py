"""Texts given to a model from Python: one or many, in a list, an array, a Series or a DataFrame."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit.data.reading.columns import Search, ignore
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError
from plmkit.inference.arguments import kind_of
from plmkit.language import tr
from plmkit.tasks.contract import Task
from plmkit.tasks.left_out import readable
from plmkit.tasks.rows import plain_rows


@dataclass(frozen=True, kw_only=True)
class Given:
    """Rows given by a caller; a single row gets a single answer, not a list of one."""

    rows: list[Any]
    alone: bool = False

    def answer(self, answers: Any) -> Any:
        return answers[0] if self.alone else answers


def given(values: Any, tasks: Collection[Task] = ()) -> Given:
    """One or several texts, pairs or rows of a table; of a DataFrame, its text columns."""
    if is_frame(values):
        rows = plain_rows(table_of(values), search_of(tasks), ignore)
        return Given(rows=[row.text if row.other is None else (row.text, row.other) for row in rows])
    if hasattr(values, "tolist"):  # an array of numpy, a Series of pandas
        values = values.tolist()
    if isinstance(values, str | Mapping):
        return Given(rows=[values], alone=True)
    if isinstance(values, bytes) or not isinstance(values, Iterable):
        raise InputError(tr("Give a text or a list of texts; found {kind}.", kind=kind_of(values)))
    return Given(rows=list(values))


def given_rows(values: Any, task: Task, model: Path) -> Given:
    """Rows as a task reads them."""
    if is_frame(values):
        return Given(rows=task.read(table_of(values), search_of([task]), ignore, labelled=False)[0])
    found = given(values)
    return replace(found, rows=[task.input_row(row, number, model) for number, row in enumerate(found.rows, start=1)])


def given_to_tasks(values: Any, tasks: Sequence[Task], model: Path) -> tuple[dict[str, Given], list[str]]:
    """The rows as each task reads them, by its name, and why others of several tasks cannot read them."""
    if not is_frame(values):
        found = given(values)
        values = found.rows[0] if found.alone else found.rows  # an iterator is read once
    return readable(tasks, lambda task: given_rows(values, task, model))


def given_texts(values: Any) -> Given:
    """One or several texts."""
    found = given(values)
    for number, text in enumerate(found.rows, start=1):
        if not isinstance(text, str):
            raise InputError(
                tr("Give a text or a list of texts; text {number} is {kind}.", number=number, kind=kind_of(text))
            )
    return found


def search_of(tasks: Collection[Task]) -> Search:
    """The columns that the only task of a model was trained on, by name; without a header they had none."""
    trained = [task.columns for task in tasks if task.columns.header]
    return Search(trained=trained[0]) if len(tasks) == len(trained) == 1 else Search()


def is_frame(values: Any) -> bool:
    """Whether it is a DataFrame, whose columns have names."""
    return hasattr(values, "columns") and hasattr(values, "to_dict")


def table_of(frame: Any) -> Table:
    """A DataFrame as a table."""
    columns = tuple(str(name) for name in frame.columns)
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise InputError(tr("The DataFrame has two columns named '{name}'. Rename one.", name=twice[0]))
    cells = [without_gaps(frame[name]) for name in frame.columns]
    rows = list(zip(*cells, strict=True))
    return Table(path=Path("DataFrame"), columns=columns, rows=rows, lines=list(range(1, len(rows) + 1)), file=False)


def without_gaps(column: Any) -> list[object]:
    """The values of a column, with None for the missing values of pandas."""
    values = list(column)
    gaps: Sequence[bool] = list(column.isna()) if hasattr(column, "isna") else [False] * len(values)
    return [None if gap else value for value, gap in zip(values, gaps, strict=True)]
