"""The user's tables of search queries and titles as a stream of documents: a query with titles that it met."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from plmkit.data.corpus import Corpus, check_apart, heading_of
from plmkit.data.reading.cells import folded, found, is_blank, is_missing, number_of, short, where
from plmkit.data.reading.cells import text_of as cell_text
from plmkit.data.reading.columns import Heading
from plmkit.data.reading.files import File, find_files
from plmkit.data.reading.source import Document, OnBytes, Source
from plmkit.data.reading.whole import BlockSize, aligned, read_tables
from plmkit.errors import InputError
from plmkit.language import several, tr

# For each role the usual names of its column; if a file has several of them, the first is read.
NAMES = {
    "query": ("query", "search_query", "search", "查询", "查询词", "搜索词", "检索词", "搜索"),
    "title": ("title", "doc_title", "document_title", "page_title", "标题", "文档标题", "网页标题", "题目"),
    "label": ("label", "relevance", "标签", "相关性", "类别"),
    "clicked": ("clicked", "click", "is_clicked", "点击", "是否点击", "点击与否"),
}
CLICKED, SHOWN, NOT_SHOWN = 0, 1, 2
LABELS = {  # what a column of labels may have, besides the numbers
    "clicked": CLICKED, "click": CLICKED, "点击": CLICKED, "已点击": CLICKED,
    "shown": SHOWN, "notclicked": SHOWN, "displayed": SHOWN, "展示": SHOWN, "未点击": SHOWN, "展示未点击": SHOWN,
    "notshown": NOT_SHOWN, "random": NOT_SHOWN, "irrelevant": NOT_SHOWN, "未展示": NOT_SHOWN, "随机": NOT_SHOWN,
    "不相关": NOT_SHOWN,
}  # fmt: skip
CLICKS = {  # what a column of clicks may have
    "1": CLICKED, "true": CLICKED, "yes": CLICKED, "是": CLICKED, "有": CLICKED,
    "0": SHOWN, "false": SHOWN, "no": SHOWN, "否": SHOWN, "无": SHOWN,
}  # fmt: skip
AT_ONCE = BlockSize(rows=10_000, characters=2_000_000)
MANY_CLICKED = 0.9  # share of the titles that are clicked or not: users click few of those they see
MOST_TITLES = 1_000  # of a document; the others of the query are in the next one


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of the columns of a table."""

    query: str
    title: str
    label: str
    clicks: bool  # the labels say whether there was a click, yes or no

    @property
    def joined(self) -> str:
        return "+".join((self.query, self.title, self.label))


@dataclass(frozen=True, kw_only=True)
class QueryRow:
    """A query and a title."""

    line: int
    query: str
    title: str
    relevance: int

    @property
    def is_whole(self) -> bool:
        return not (is_blank(self.query) or is_blank(self.title))


@dataclass(frozen=True, kw_only=True)
class QueryCorpus(Corpus):
    """Search queries, each with titles that it met."""

    def documents(self, on_bytes: OnBytes | None = None) -> Iterator[Document]:
        for source in self.sources:
            yield from documents_of_queries(source.path)
            if on_bytes is not None:
                on_bytes(source.size)


def has_queries(path: str, *, header: bool = True) -> bool:
    """Are the files of this path tables of queries and titles? A table with a column of text is not."""
    files = [file for file in find_files([path]) if not file.skipped]
    return bool(files) and header and all(columns_of(heading) for heading in map(heading_if_table, files))


def heading_if_table(file: File) -> Heading | None:
    return None if file.format in (None, "txt") else heading_of(file, file.format, header=True)


def columns_of(heading: Heading | None) -> Columns | None:
    """The columns of a table of queries; None if it is another."""
    if heading is None or named(heading, ("text", "文本")):
        return None
    query, title = named(heading, NAMES["query"]), named(heading, NAMES["title"])
    if query is None or title is None:
        return None
    label, clicked = named(heading, NAMES["label"]), named(heading, NAMES["clicked"])
    if label is None and clicked is None:
        raise InputError(
            tr(
                "{name} has queries and titles, but no labels. {found}\n"
                "Add a column label (0: clicked, 1: shown but not clicked, 2: not shown), or a column clicked (1: yes, "
                "0: no).",
                name=heading.name,
                found=found(heading.columns),
            )
        )
    return Columns(query=query, title=title, label=label or clicked or "", clicks=label is None)


def named(heading: Heading, names: Sequence[str]) -> str | None:
    columns = {folded(column): column for column in reversed(heading.columns)}
    return next((columns[name] for name in names if name in columns), None)


def open_queries(paths: Sequence[str]) -> list[Corpus]:
    """Each path as a corpus; every row is read once, and checked."""
    corpora: list[Corpus] = []
    for path in paths:
        sources: list[Source] = []
        notes: list[str] = []
        for file in find_files([path]):
            columns = None if file.skipped else columns_of(heading_if_table(file))
            if columns is None or file.format is None:
                continue
            size = file.path.stat().st_size
            sources.append(
                Source(
                    path=file.path, format=file.format, compression=file.compression, layout="titles-per-query",
                    size=size, column=columns.joined,
                )
            )  # fmt: skip
            notes += remarks(file.path, columns)
        corpora.append(QueryCorpus(sources=tuple(sources), name=path, notes=tuple(notes)))
    check_apart(corpora, held_out=False)
    return corpora


def remarks(path: Path, columns: Columns) -> Iterator[str]:
    """How the rows of a table are read; one without a usable row is refused."""
    lacking: list[int] = []
    counts = Counter[int]()
    for row in query_rows(path):
        if row.is_whole:
            counts[row.relevance] += 1
        else:
            lacking.append(row.line)
    if not counts:
        raise InputError(tr("{file} has no row with both a query and a title.", file=path))
    yield tr(
        "{file}: {titles} of queries, {clicked:,} clicked, {shown:,} shown but not clicked, {random:,} not shown "
        "(column '{column}').",
        file=path,
        titles=several(counts.total(), "title"),
        clicked=counts[CLICKED],
        shown=counts[SHOWN],
        random=counts[NOT_SHOWN],
        column=short(columns.label),
    )
    if lacking:
        yield tr(
            "{file}: {count:,} of {total:,} rows lack a query or a title and are skipped; the first is {place}.",
            file=path,
            count=len(lacking),
            total=len(lacking) + counts.total(),
            place=where(path, lacking[0]),
        )
    shown = counts[CLICKED] + counts[SHOWN]
    if not (columns.clicks or counts[NOT_SHOWN]) and counts[SHOWN] and counts[CLICKED] > MANY_CLICKED * shown:
        yield tr(
            "! {file}: {share:.0%} of the titles are clicked. Label 0 means clicked; if 1 does, name the column "
            "clicked.",
            file=path,
            share=counts[CLICKED] / shown,
        )


def documents_of_queries(path: Path) -> Iterator[Document]:
    """A document for each run of rows with the same query: the query, then its titles."""
    whole = (row for row in query_rows(path) if row.is_whole)
    for query, run in groupby(whole, key=lambda row: row.query):
        rows = list(run)
        for start in range(0, len(rows), MOST_TITLES):
            some = rows[start : start + MOST_TITLES]
            yield Document(
                paragraphs=(query, *(row.title for row in some)),
                source=str(path),
                lines=(some[0].line, *(row.line for row in some)),
                relevance=tuple(row.relevance for row in some),
            )


def query_rows(path: Path) -> Iterator[QueryRow]:
    columns: Columns | None = None
    for table in read_tables(path, size=AT_ONCE):
        columns = columns or columns_of(table.heading)
        assert columns is not None  # it was found to be one when it was opened
        names = columns.query, columns.title, columns.label
        for line, row in zip(table.lines, aligned(table, names).rows, strict=True):
            query, title, label = row
            yield QueryRow(
                line=line,
                query=text_of(query, where(path, line), columns.query),
                title=text_of(title, where(path, line), columns.title),
                relevance=relevance_of(label, where(path, line), columns),
            )


def text_of(cell: object, place: str, column: str) -> str:
    return "" if is_missing(cell) else " ".join(cell_text(cell, place, column).split())


def relevance_of(cell: object, place: str, columns: Columns) -> int:
    """What a label says; an unknown one is refused."""
    text = "" if is_missing(cell) else folded(str(cell))
    number = number_of(text)
    text = str(int(number)) if number is not None and number == int(number) else text
    known = CLICKS if columns.clicks else {"0": CLICKED, "1": SHOWN, "2": NOT_SHOWN, **LABELS}
    for separator in ("_", "-"):
        text = text.replace(separator, "")
    if text in known:
        return known[text]
    raise InputError(
        tr(
            "{place}: column '{column}' has the unknown label '{label}'.\n",
            place=place,
            column=short(columns.label),
            label=short(str(cell)) if not is_missing(cell) else "",
        )
        + (
            tr("Use 1 (yes, clicked) or 0 (no).")
            if columns.clicks
            else tr("Use 0 (clicked), 1 (shown but not clicked) or 2 (not shown).")
        )
    )
