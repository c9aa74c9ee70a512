"""Sources as documents, whatever the format, in bounded memory."""

import re
from collections.abc import Iterable, Iterator
from statistics import median

from plmkit.data.reading.blocks import BLOCK, cutting_point, read_blocks, read_lines
from plmkit.data.reading.dialect import Row
from plmkit.data.reading.encoding import check_start
from plmkit.data.reading.files import format_of
from plmkit.data.reading.pairs import aligned_rows, documents_of_pairs
from plmkit.data.reading.source import LONGEST_DOCUMENT, Compression, Document, Layout, OnBytes, Source
from plmkit.data.reading.tables import numbered_lines, parquet_rows, table_rows
from plmkit.data.text import HAN, HANGUL, KANA

# a line of text, then only space (U+3000 is the Chinese one), then more text
BLANK_LINE = re.compile(rb"\n(?:[ \t\r]|\xe3\x80\x80)*\n\s*\S")
CJK = re.compile(f"[{KANA}{HAN}{HANGUL}]+")
PARAGRAPH_LENGTH = 60  # characters; a line of this length is taken for a paragraph
CJK_PARAGRAPH_LENGTH = 30


def read_documents(source: Source, on_bytes: OnBytes | None = None) -> Iterator[Document]:
    """The documents of one source, none longer than LONGEST_DOCUMENT characters."""
    name = str(source.path)
    if source.layout == "pair-per-row":
        return documents_of_pairs(pair_rows(source, on_bytes), name)
    if source.format == "parquet":
        return documents_of_rows(parquet_rows(name, source.column or "", on_bytes), name)
    if source.format != "txt":
        rows = table_rows(name, source.format, source.compression, source.column or "", on_bytes, header=source.header)
        return documents_of_rows(rows, name)
    blocks = read_blocks(name, source.compression, on_bytes)
    lines = read_lines(blocks, name, longest=LONGEST_DOCUMENT, cut=True)
    if source.layout == "document-per-line":
        return documents_of_lines(lines, name)
    return documents_of_paragraphs(lines, name, split_at_blank=source.layout == "blank-lines")


def pair_rows(source: Source, on_bytes: OnBytes | None = None) -> Iterator[Row]:
    """Source and target of each row of a table, or of each line of two files."""
    name = str(source.path)
    if source.partner is not None:
        sources = numbered_lines(name, source.compression, on_bytes)
        targets = numbered_lines(str(source.partner), format_of(source.partner)[1], on_bytes)
        return aligned_rows(sources, targets, (name, str(source.partner)))
    if source.format == "parquet":
        return parquet_rows(name, source.column or "", on_bytes)
    return table_rows(name, source.format, source.compression, source.column or "", on_bytes, header=source.header)


def documents_of_lines(runs: Iterable[tuple[int, list[str]]], name: str) -> Iterator[Document]:
    """A document for each line that is not blank."""
    for first, lines in runs:
        for number, line in enumerate(lines, first):
            if line := line.strip():
                pieces = [[line]] if len(line) <= LONGEST_DOCUMENT else regroup([line])
                for piece in pieces:
                    yield Document(paragraphs=tuple(piece), source=name, lines=(number,))


def documents_of_paragraphs(
    runs: Iterable[tuple[int, list[str]]], name: str, *, split_at_blank: bool
) -> Iterator[Document]:
    """A document for each run of lines between blank ones, or one for all; cut where it gets too long."""
    paragraphs: list[str] = []
    numbers: list[int] = []
    size = 0
    for first, lines in runs:
        for number, line in enumerate(lines, first):
            if line := line.strip():
                paragraphs.append(line)
                numbers.append(number)
                size += len(line)
                if size > LONGEST_DOCUMENT:
                    *full, paragraphs = regroup(paragraphs)
                    for group in full:
                        yield Document(paragraphs=tuple(group), source=name, lines=tuple(numbers[: len(group)]))
                        numbers = [number]  # all but the last line was in the first group
                    size = sum(map(len, paragraphs))
            elif paragraphs and split_at_blank:
                yield Document(paragraphs=tuple(paragraphs), source=name, lines=tuple(numbers))
                paragraphs, numbers, size = [], [], 0
    if paragraphs:
        yield Document(paragraphs=tuple(paragraphs), source=name, lines=tuple(numbers))


def documents_of_rows(rows: Iterable[Row], name: str) -> Iterator[Document]:
    """A document for each row with text; a newline in a cell, and the next cell, begin a new paragraph."""
    for number, cells in rows:
        runs = [(number, [line]) for cell in cells for line in cell.split("\n")]
        yield from documents_of_paragraphs(runs, name, split_at_blank=False)


def regroup(paragraphs: list[str]) -> list[list[str]]:
    """Paragraphs in groups that each fit into a document; only the last one may need to be cut."""
    *fitting, last = paragraphs
    groups = [fitting] if fitting else []
    while len(last) > LONGEST_DOCUMENT:
        at = cutting_point(last, LONGEST_DOCUMENT)
        groups.append([last[:at].strip()])
        last = last[at:].lstrip()
    return [*groups, [last]] if last else groups


def find_layout(name: str, compression: Compression | None) -> Layout:
    """How plain text is divided: by blank lines if it has any, otherwise by how long its lines are."""
    sample, rest, seen = b"", b"", False
    for block in check_start(read_blocks(name, compression), name):
        data = rest + block if seen else block.lstrip()
        if BLANK_LINE.search(data):
            return "blank-lines"
        if data and not seen:
            sample, seen = data[:BLOCK], True
        # newlines at the end may be half of a blank line; two are as good as a million
        rest = b"\n" * min(data[len(data.rstrip()) :].count(b"\n"), 2)
    return "document-per-line" if lines_are_paragraphs(sample.decode("utf-8", "ignore")) else "document-per-file"


def lines_are_paragraphs(sample: str) -> bool:
    """Whether the median line is as long as a paragraph: 60 characters, or 30 if mostly Chinese."""
    lengths = [len(stripped) for line in sample.split("\n") if (stripped := line.strip())]
    cjk = sum(map(len, CJK.findall(sample)))
    shortest = CJK_PARAGRAPH_LENGTH if cjk * 3 > len(sample) else PARAGRAPH_LENGTH
    return bool(lengths) and median(lengths) >= shortest
