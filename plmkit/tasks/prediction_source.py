"""Rows to predict: a first pass over a file, so that what is wrong with it is known before the first prediction."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import BlockSize, Table, aligned
from plmkit.data.writing import needs_quotes, written
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.contract import Row, Task
from plmkit.tasks.left_out import readable
from plmkit.tasks.rows import report_blank
from plmkit.tasks.tables import asked_table, input_table, is_file

BLOCK = BlockSize(rows=8192, characters=1 << 23)
Tables = Callable[[Say], Iterator[Table]]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The rows of a file, of stdin or one text, and the tasks that can read them."""

    tables: Tables
    tasks: Sequence[Task]
    searches: Mapping[str, Search]  # of each task
    columns: tuple[str, ...] = ()  # of all blocks
    rows: int = 0
    quoted: bool = False  # a cell has a tab, a quote or a line break

    def blocks(self) -> Iterator[Table]:
        return (aligned(table, self.columns) for table in self.tables(ignore))

    def read(self, table: Table, say: Say = ignore) -> dict[str, list[Row]]:
        """The rows of a block as each task reads them."""
        return {task.name: task.read(table, self.searches[task.name], say, labelled=False)[0] for task in self.tasks}


def source_of(given: str, question: str | None, tasks: Sequence[Task], columns: Columns, say: Say) -> Source:
    """What the tasks read from a file, from stdin, or from one text; with a question, about each row or the text."""
    say = once(say)
    searches = {task.name: Search(named=columns, trained=task.columns) for task in tasks}
    tables = tables_in(given, question, tasks, searches, say)
    blocks = tables(say)
    first = next(blocks)
    able, remarks = readable(tasks, lambda task: task.read(first, searches[task.name], say, labelled=False)[1])
    for remark in remarks:
        say(f"! {remark}")
    source = Source(
        tables=tables,
        tasks=[task for task in tasks if task.name in able],
        # without a header, columns are guessed from the rows: later blocks must not guess otherwise
        searches={name: settled(searches[name], found) for name, found in able.items()},
    )
    names: dict[str, None] = {}
    total, quoted = 0, False
    blank, counts = {name: list[int]() for name in able}, Counter[str]()
    for table in chain([first], blocks):
        names |= dict.fromkeys(table.columns)
        for name, rows in source.read(aligned(table, tuple(names)), say).items():
            blank[name] += [row.line for row in rows if row.blank]
            counts[name] += len(rows)
        total += len(table.rows)
        quoted = quoted or any(needs_quotes(written(cell)) for cells in table.rows for cell in cells)
    for name, lines in blank.items():
        asks = next(task.asks for task in source.tasks if task.name == name)
        report_blank(lines, counts[name], first.path, tr("left without a prediction"), say, asks=asks)
    return replace(source, columns=tuple(names), rows=total, quoted=quoted)


def once(say: Say) -> Say:
    """Does not repeat itself."""
    said: set[str] = set()

    def new(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    return new


def settled(search: Search, columns: Columns) -> Search:
    return replace(search, trained=columns, reported=True) if columns.named else search


def tables_in(
    given: str, question: str | None, tasks: Sequence[Task], searches: Mapping[str, Search], say: Say
) -> Tables:  # fmt: skip
    """The blocks of a file, which can be read again; stdin, one text, and rows that a question is about are whole."""
    task = tasks[0] if len(tasks) == 1 or not is_file(given) else opener(given, tasks, searches)
    search = searches[task.name]
    if question is None and is_file(given):
        return lambda say: task.blocks(given, search, say, BLOCK)
    table = (
        input_table(given, search, say)
        if question is None
        else asked_table(given, question, search, say, task.open)
    )  # fmt: skip
    return lambda say: iter([table])


def opener(given: str, tasks: Sequence[Task], searches: Mapping[str, Search]) -> Task:
    """The task that opens the file for all: the first that can, preferably one that keeps queries together."""
    ordered = sorted(tasks, key=lambda task: not task.grouped)
    for task in ordered:
        with suppress(InputError):
            next(task.blocks(given, searches[task.name], ignore, BLOCK))
            return task
    return ordered[0]
