"""Blocks of a table in which the rows of a query stay together."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from plmkit.data.reading.whole import Table, aligned
from plmkit.tasks.rank_rows import column_of
from plmkit.tasks.remarks import RANKED


def queries_of(table: Table) -> list[str]:
    """The qid of each row; none where the rows of the table do not need each other."""
    column = column_of(table, RANKED)
    if column is None:
        return []
    place = table.columns.index(column)
    return [str(cells[place]).strip() for cells in table.rows]


def is_contiguous(tables: Iterable[Table]) -> bool:
    """Whether the rows of every query are next to each other."""
    seen: set[str] = set()
    last: str | None = None
    for table in tables:
        for query, _ in groupby(queries_of(table)):
            if query and query != last and query in seen:
                return False
            seen.add(query)
            last = query or last
    return True


def whole_queries(tables: Iterable[Table]) -> Iterator[Table]:
    """The same rows; those of the last query of a block move to the next one, which may continue it."""
    waiting: Table | None = None
    for table in tables:
        found = table if waiting is None else joined(waiting, table)
        queries = queries_of(found)
        if not queries:
            yield found
            continue
        last, end = next(filter(None, reversed(queries)), ""), len(queries)
        while end and queries[end - 1] in ("", last):  # a blank line does not end a query
            end -= 1
        if end:
            yield part(found, 0, end)
        waiting = part(found, end, len(found.rows))
    if waiting is not None:
        yield waiting


def part(table: Table, start: int, end: int) -> Table:
    return replace(table, rows=table.rows[start:end], lines=table.lines[start:end])


def joined(first: Table, second: Table) -> Table:
    """Two blocks as one, with the columns of both."""
    columns = tuple(dict.fromkeys((*first.columns, *second.columns)))
    rows = [*aligned(first, columns).rows, *aligned(second, columns).rows]
    return replace(first, columns=columns, rows=rows, lines=[*first.lines, *second.lines])
