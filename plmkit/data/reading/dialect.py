"""How lines of .csv and .tsv are cut into cells."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from plmkit.data.reading.blocks import LONGEST_ROW
from plmkit.data.reading.source import Format
from plmkit.errors import InputError
from plmkit.language import tr

Line = tuple[int, str]  # its number, from 1
Row = tuple[int, list[str]]  # the number of its first line, cells
Numbered = TypeVar("Numbered", Line, Row)

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}  # of .csv, the most likely first
SAMPLE, SAMPLE_CHARACTERS = 50, 1 << 20  # lines, and their characters in total, that are inspected before reading


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What separates cells, and whether cells may be quoted."""

    separator: str
    quoted: bool
    usual: str = ","  # separator of files of this type

    @property
    def unusual(self) -> str | None:
        """The name of the separator, if it is not the usual one for the type of the file."""
        return SEPARATORS[self.separator] if self.separator != self.usual else None

    @property
    def advice(self) -> str:
        """What to do about a row that is wider or narrower than the others."""
        if not self.quoted:
            return tr("Text in .tsv cannot contain tabs or line breaks; use .csv with quotes, or .jsonl.")
        names = {",": tr("comma"), ";": tr("semicolon"), "\t": tr("tab")}
        return tr("Put text that contains a {separator} in double quotes.", separator=names[self.separator])

    def split(self, lines: Iterable[Line], name: str) -> Iterator[Row]:
        """All cells of each row; a blank line is a row of one empty cell."""
        if self.quoted:
            return split_quoted(lines, name, self.separator)
        # otherwise quotes are text: many published TSV files contain stray ones
        return ((number, line.rstrip("\r").split(self.separator)) for number, line in lines)


def dialect_of(lines: Iterator[Line], format: Format) -> tuple[Dialect, Iterator[Line]]:
    """How a file is written, and all its lines."""
    sample = list(some(lines))
    filled = [line for _, line in sample if line.strip()]
    if format == "tsv":
        dialect = Dialect(separator="\t", quoted=is_quoted(filled), usual="\t")
    else:
        dialect = Dialect(separator=separator_of(filled), quoted=True)
    return dialect, chain(sample, lines)


def is_quoted(lines: Sequence[str]) -> bool:
    """Whether every cell of the first row of a .tsv file is in quotes, as where `plm predict` needs them."""
    cells = lines[0].rstrip("\r").split("\t") if lines else [""]
    return all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)


def separator_of(lines: Sequence[str]) -> str:
    """The first that splits the first row, and most rows into the same number of cells; else a comma."""
    for separator in SEPARATORS:
        with long_cells():
            widths = [len(cells) for cells in csv.reader(lines, delimiter=separator)]
        if widths and widths[0] > 1 and 2 * widths.count(widths[0]) > len(widths):
            return separator
    return ","


def split_quoted(lines: Iterable[Line], name: str, separator: str) -> Iterator[Row]:
    """Cells with the quoting of RFC 4180; a row may run over several lines."""
    reader = csv.reader((line + "\n" for _, line in lines), strict=True, delimiter=separator)
    while True:
        first = reader.line_num + 1
        try:
            with long_cells():
                cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                tr(
                    "{name}, line {first}: unbalanced quotes in this row ({error}).\n"
                    'Inside quoted text, write "" for each quote.',
                    name=name,
                    first=first,
                    error=error,
                )
            ) from None
        if cells is None:
            return
        yield first, cells or [""]


@contextmanager
def long_cells() -> Iterator[None]:
    """A cell may be as long as a row; the limit is global, so it is raised for a moment only."""
    usual = csv.field_size_limit(LONGEST_ROW)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def some(items: Iterable[Numbered]) -> Iterator[Numbered]:
    """The first lines or rows, as a sample."""
    size = 0
    for item in islice(items, SAMPLE):
        yield item
        size += sum(map(len, item[1]))
        if size > SAMPLE_CHARACTERS:
            return
