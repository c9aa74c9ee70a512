"""Tables of triples (head, relation, tail), and of the names of what these speak about."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from plmkit.data.reading.cells import folded, found, is_blank, is_missing, listed, numbered, short, where
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.files import File, format_of
from plmkit.data.reading.source import CELLS
from plmkit.data.reading.tables import numbered_lines, table_heading
from plmkit.data.reading.whole import Table, check_file, read_table
from plmkit.errors import InputError
from plmkit.language import tr

# For each role the usual names of its column; if a file has several of them, the first is read.
NAMES = {
    "head": (
        "head", "head_entity", "subject", "subj", "entity1", "e1", "h", "s", "source", "from",
        "头实体", "头", "主体", "主语", "实体1",
    ),
    "relation": (
        "relation", "rel", "relation_type", "predicate", "property", "r", "p", "edge", "type",
        "关系", "谓词", "谓语", "属性",
    ),
    "tail": (
        "tail", "tail_entity", "object", "obj", "entity2", "e2", "t", "o", "target", "to",
        "尾实体", "尾", "客体", "宾语", "实体2",
    ),
}  # fmt: skip
NAMED = {
    "id": ("id", "entity", "entity_id", "relation", "relation_id", "key", "mid", "实体", "关系", "编号"),
    "name": ("name", "text", "label", "title", "description", "名称", "名字", "文本", "标签"),
}


@dataclass(frozen=True, kw_only=True)
class Triple:
    """One row of a table of triples."""

    head: str
    relation: str
    tail: str
    line: int

    @property
    def ids(self) -> tuple[str, str, str]:
        return self.head, self.relation, self.tail


@dataclass(frozen=True, kw_only=True)
class TripleTable:
    """The rows of one file of triples, and a remark on how it is read."""

    path: Path
    rows: tuple[Triple, ...]
    columns: tuple[str, str, str]
    header: bool
    note: str | None


def read_triples(path: Path, *, header: bool = True) -> TripleTable:
    """All triples of a table, with usual column names or, without a header, in three columns."""
    table, note = with_columns(path, NAMES, header)
    columns = chosen(table, NAMES)
    places = [table.columns.index(column) for column in columns.values()]
    rows = tuple(
        Triple(**dict(zip(NAMES, cells_at(table, row, places, tuple(NAMES), line), strict=True)), line=line)
        for row, line in zip(table.rows, table.lines, strict=True)
    )
    head, relation, tail = columns.values()
    return TripleTable(path=path, rows=rows, columns=(head, relation, tail), header=table.header, note=note)


def read_names(path: Path, *, header: bool = True) -> Iterator[tuple[str, str, int]]:
    """Id, name and line of each row of a table of names."""
    table, _ = with_columns(path, NAMED, header)
    places = [table.columns.index(column) for column in chosen(table, NAMED).values()]
    for row, line in zip(table.rows, table.lines, strict=True):
        own, name = cells_at(table, row, places, tuple(NAMED), line)
        yield own, name, line


def with_columns(path: Path, roles: dict[str, tuple[str, ...]], header: bool) -> tuple[Table, str | None]:
    """The table, its columns numbered if its first row is data already, and a remark if so."""
    check_file(path)
    format, compression = format_of(path)
    heading = table_heading(str(path), format, compression) if header and format in CELLS else None
    if heading and len(heading.columns) == len(roles) and not has_names(heading, roles):
        order = tr(", ").join(roles)
        note = tr("{file} has no header row: its columns are read as {order}.", file=path, order=order)
        return read_table(path, header=False), note
    table = read_table(path, header=header or format not in CELLS)
    # many graphs are published as .txt with tabs
    return (split_at_tabs(table, roles) if table.plain else table), None


def has_names(heading: Heading, roles: dict[str, tuple[str, ...]]) -> bool:
    """Whether the first row names columns: all but one of what is read here, as `type` is a relation too."""
    columns = set(map(folded, heading.columns))
    return sum(not columns.isdisjoint(names) for names in roles.values()) >= len(roles) - 1


def split_at_tabs(table: Table, roles: Collection[str]) -> Table:
    """Lines of plain text as rows of cells."""
    rows = [tuple(str(row[0]).split("\t")) for row in table.rows]
    for row, line in zip(rows, table.lines, strict=True):
        if len(row) != len(roles):
            raise InputError(
                tr(
                    "{where}: cells between tabs: {count}; expected {width}: {roles}.\n"
                    "Each line of this file needs them, separated by tabs.",
                    where=where(table.path, line),
                    count=len(row),
                    width=len(roles),
                    roles=tr(", ").join(roles),
                )
            )
    return replace(table, columns=numbered(len(roles)), rows=list(rows), header=False, plain=False)


def chosen(table: Table, roles: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """The column of each role."""
    columns = {folded(name): name for name in reversed(table.columns)} if table.header else {}
    picked = {
        role: next((columns[name] for name in names if name in columns), None) for role, names in roles.items()
    }  # fmt: skip
    named = any(picked.values())
    if len(table.columns) != len(roles) and not (table.header and (named or len(table.columns) > len(roles))):
        raise InputError(
            tr(
                "{file} has {count} columns; expected {width}: {roles}.",
                file=table.path,
                count=len(table.columns),
                width=len(roles),
                roles=tr(", ").join(roles),
            )
        )
    if not table.header:
        return dict(zip(roles, table.columns, strict=True))
    for role, column in picked.items():
        if column is None:
            raise InputError(
                tr(
                    "{file} has no column {role}. {found}\nRename the right one; recognised names: {names}.",
                    file=table.path,
                    role=role,
                    found=found(table.columns),
                    names=listed(roles[role]),
                )
            )
    return {role: column for role, column in picked.items() if column is not None}


def cells_at(table: Table, row: Sequence[object], places: Sequence[int], roles: Sequence[str], line: int) -> list[str]:
    """The cells of these columns as text; an empty one is refused."""
    cells = []
    for place, role in zip(places, roles, strict=True):
        cell = row[place]
        if is_missing(cell) or is_blank(str(cell)):
            raise InputError(
                tr(
                    "{where}: the {role} is missing. Fill it in, or remove the row.",
                    where=where(table.path, line),
                    role=role,
                )
            )
        if isinstance(cell, list | dict):
            raise InputError(
                tr(
                    "{where}: column '{column}' contains {type}, not text.",
                    where=where(table.path, line),
                    column=short(table.columns[place]),
                    type=type(cell).__name__,
                )
            )
        cells.append(" ".join(str(cell).split()))
    return cells


def holds_triples(file: File) -> bool:
    """Whether a table has columns of head, relation and tail by their names."""
    return all(not set(names).isdisjoint(columns_of(file)) for names in NAMES.values())


def may_hold_triples(file: File) -> bool:
    """Whether a file could be a table of triples, perhaps without a header: three cells in its first line."""
    if file.format in CELLS:
        return holds_triples(file) or len(columns_of(file)) == len(NAMES)
    if file.format == "txt":
        lines = (line for _, line in numbered_lines(str(file.path), file.compression))
        return next((line for line in lines if not is_blank(line)), "").count("\t") == len(NAMES) - 1
    return file.format == "parquet" or holds_triples(file)


def of_triples(file: File, heading: Heading) -> str:
    """What to do with a table without text, on a line of its own; nothing unless it seems to hold triples."""
    without_header = len(heading.columns) == len(NAMES) and heading.advice(("text",)) is not None
    if not (without_header or holds_triples(file)):
        return ""
    return "\n" + tr(
        "If these are triples (head, relation, tail), train on them with: plm pretrain kg-stage {file} --from RUN "
        "--out DIR",
        file=file.path,
    )


def columns_of(file: File) -> list[str]:
    """The cells of the first row, or the keys of the first object; nothing of plain text."""
    if file.format not in (*CELLS, "jsonl"):
        return []
    heading = table_heading(str(file.path), file.format, file.compression)
    return [folded(column) for column in heading.columns] if heading else []
