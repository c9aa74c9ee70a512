"""Queries with their candidates: rows of a table that share a query, or one list per row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plmkit.data.reading.cells import count_of, folded, is_blank, is_missing, listed, number_of, short, where
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.contract import Row
from plmkit.tasks.remarks import RANKED
from plmkit.tasks.rows import words_in

QUERIES = ("query", "question", "text_a", "text", "context", "查询", "问题")
LISTS = ("candidates", "choices", "passages", "answers", "documents", "候选")
LABELS = ("labels", "label", "relevance", "标签")
CANDIDATES = ("candidate", "answer", "passage", "document", "sentence", "text", "候选", "答案", "段落")


def column_of(table: Table, names: Sequence[str]) -> str | None:
    """The column with the first of these names."""
    found = {folded(column): column for column in table.columns}
    return next((found[name] for name in names if name in found), None)


def is_listed(table: Table) -> bool:
    """Whether each row has a list of candidates."""
    column = column_of(table, LISTS)
    return column is not None and any(isinstance(row[table.columns.index(column)], list) for row in table.rows)


# One list of candidates per row


def listed_rows(table: Table, search: Search, labelled: bool) -> list[Row]:
    """Rows with a query, its candidates and, as `label` or `labels`, the relevant ones."""
    search.within(table.heading, ())  # refuses names of columns, which would be ignored
    query, candidates = column_of(table, QUERIES), column_of(table, LISTS)
    labels = [column for name in LABELS for column in table.columns if labelled and folded(column) == name]
    if query is None or candidates is None or (labelled and not labels):
        raise InputError(
            tr(
                "{path} has the columns {columns}.\n"
                "Ranking needs a query, candidates (a list) and labels (the relevance of each candidate) or label (the "
                "relevant one).",
                path=table.path,
                columns=listed(table.columns),
            )
        )
    rows = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        place, row = where(table.path, line), dict(zip(table.columns, cells, strict=True))
        text = query_in(row[query], query, place)
        texts = candidates_in(row[candidates], place)
        given = [row[name] for name in labels if not is_missing(row[name]) and row[name] != ""]
        relevance = relevance_in(given[0], texts, place) if given else None
        rows.append(Row(text=text, choices=texts, label=relevance, line=line))
    return rows


def query_in(cell: object, column: str, place: str) -> str:
    text = words_in(cell, column, place)
    if is_blank(text):
        raise InputError(tr("{place}: the query is empty. Give its text, or remove the row.", place=place))
    return text


def candidates_in(cell: object, place: str) -> tuple[str, ...]:
    """A list of at least two texts, none of them blank."""
    texts = [cell] if isinstance(cell, str) else cell
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        found = short(str(cell))
        raise InputError(tr("{place}: candidates must be a list of texts; found {found}.", place=place, found=found))
    if len(texts) < 2:
        found = tr("only one") if texts else tr("none")
        raise InputError(
            tr("{place}: a query needs at least two candidates to rank; found {found}.", place=place, found=found)
        )
    if blank := [number for number, text in enumerate(texts) if is_blank(text)]:
        raise InputError(tr("{place}: candidate {number} (from 0) is empty. Remove it.", place=place, number=blank[0]))
    return tuple(texts)


def relevance_in(cell: object, candidates: Sequence[str], place: str) -> tuple[float, ...]:
    """From the relevance of each candidate, or from the relevant one: its text, or its number from 0."""
    if isinstance(cell, list):
        if len(cell) != len(candidates):
            raise InputError(
                tr(
                    "{place}: {labels} labels, but {candidates} candidates. Give one label, 0 or above, for each.",
                    place=place,
                    labels=len(cell),
                    candidates=len(candidates),
                )
            )
        return tuple(grade_in(one, place) for one in cell)
    number = candidates.index(cell) if isinstance(cell, str) and cell in candidates else count_of(str(cell).strip())
    if number is None or number >= len(candidates):
        raise InputError(
            tr(
                "{place}: label '{label}' is neither one of the {count} candidates nor a number from 0 to {last}.",
                place=place,
                label=short(str(cell)),
                count=len(candidates),
                last=len(candidates) - 1,
            )
        )
    return tuple(float(other == number) for other in range(len(candidates)))


def grade_in(cell: object, place: str) -> float:
    """A relevance: 0, or above 0 the higher the more relevant."""
    grade = number_of(str(cell).strip())
    if grade is None or grade < 0:
        raise InputError(
            tr(
                "{place}: label '{label}' is no relevance. It is 0 for a candidate that is not relevant, and 1 or a "
                "higher grade for one that is.",
                place=place,
                label=short(str(cell)),
            )
        )
    return grade


# One candidate per row


def grouped_rows(table: Table, search: Search, say: Say, labelled: bool) -> tuple[list[Row], Columns]:
    """Rows that share a qid as one query, in the order in which the queries begin."""
    qid = column_of(table, RANKED)
    if qid is None:
        raise InputError(
            tr(
                "{path} has no column qid, which says which rows belong to one query. Columns found: {columns}.\n"
                "Name it qid, query_id or question_id, or give JSONL with query, candidates and labels.",
                path=table.path,
                columns=listed(table.columns),
            )
        )
    columns, note = with_candidates(table, search, say).within(
        table.heading, ("text_a", "text_b", *(("label",) if labelled else ()))
    )
    if note:
        say(note)
    groups: dict[str, list[int]] = {}
    for number, cells in enumerate(table.rows):
        if any(not is_missing(cell) and str(cell).strip() for cell in cells):
            place = where(table.path, table.lines[number])
            groups.setdefault(qid_in(cells[table.columns.index(qid)], qid, place), []).append(number)
    return [group_row(table, columns, qid, numbers) for qid, numbers in groups.items()], columns


def qid_in(cell: object, column: str, place: str) -> str:
    found = words_in(cell, column, place).strip()
    if not found:
        raise InputError(
            tr("{place}: {column} is missing. Every row needs that of its query.", place=place, column=column)
        )
    return found


def with_candidates(table: Table, search: Search, say: Say) -> Search:
    """The search with the column of candidates, where it has another name than second texts have."""
    heading, named, trained = table.heading, search.named, search.trained
    if named.text_b or trained.text_b in table.columns or heading.usual("text_b"):
        return search
    first = named.text_a or next(iter(heading.usual("text_a")), None)
    others = [column for column in table.columns if column != first]
    found = next((column for name in CANDIDATES for column in others if folded(column) == name), None)
    if found is None:
        return search
    if not search.reported:
        say(
            tr(
                "{name}: reading column '{column}' as candidates. To read another: --text-b COLUMN.",
                name=heading.name,
                column=found,
            )
        )
    return replace(search, named=replace(named, text_b=found))


def group_row(table: Table, columns: Columns, qid: str, numbers: Sequence[int]) -> Row:
    """One query with its candidates."""
    found = [candidate_in(table, columns, qid, number) for number in numbers]
    first = found[0]
    for one in found:
        if one.query != first.query:
            raise InputError(
                tr(
                    "{place}: the rows of qid {qid} have different queries, such as '{first}' and '{second}'. Give "
                    "each query a qid of its own.",
                    place=one.place,
                    qid=short(qid),
                    first=short(first.query),
                    second=short(one.query),
                )
            )
    grades = [one.grade for one in found if one.grade is not None]
    if grades and (bare := [one.place for one in found if one.grade is None]):
        raise InputError(
            tr(
                "{place}: the label is missing, but other candidates of qid {qid} have one.",
                place=bare[0],
                qid=short(qid),
            )
        )
    texts = tuple(one.text for one in found)
    line = table.lines[numbers[0]]
    return Row(text=first.query, choices=texts, label=tuple(grades) or None, line=line, places=tuple(numbers))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One row of a table: a candidate with its query."""

    query: str
    text: str
    grade: float | None  # None: not labelled
    place: str


def candidate_in(table: Table, columns: Columns, qid: str, number: int) -> Candidate:
    place = where(table.path, table.lines[number])
    row = dict(zip(table.columns, table.rows[number], strict=True))
    assert columns.text_a is not None
    assert columns.text_b is not None
    query = query_in(row[columns.text_a], columns.text_a, place)
    text = words_in(row[columns.text_b], columns.text_b, place)
    if is_blank(text):
        raise InputError(
            tr(
                "{place}: qid {qid} has no candidate in this row. Give its text, or remove the row.",
                place=place,
                qid=short(qid),
            )
        )
    cell = row[columns.label] if columns.label else None
    grade = None if is_missing(cell) or not str(cell).strip() else grade_in(cell, place)
    return Candidate(query=query, text=text, grade=grade, place=place)
