"""The texts that a search looks through: rows of tables, paragraphs or lines of plain text."""

from dataclasses import dataclass
from pathlib import Path

from plmkit.data.corpus import open_corpus
from plmkit.data.reading.cells import where
from plmkit.data.reading.columns import Columns, Say
from plmkit.data.reading.files import find_files
from plmkit.data.reading.formats import read_documents
from plmkit.data.reading.source import Source
from plmkit.errors import InputError
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class Passage:
    """One text that a search may find, and where it is."""

    text: str
    source: str | None = None  # file; None: given from Python
    line: int  # where it begins in its file, or its number in a list, from 1

    @property
    def place(self) -> str:
        return str(self.line) if self.source is None else where(self.source, self.line)


def corpus_files(corpus: Path) -> list[Path]:
    """The files that are read, without reading them."""
    return [file.path for file in find_files([corpus]) if not file.skipped]


def read_passages(corpus: Path, columns: Columns, say: Say) -> list[Passage]:
    """A passage for each row of a table, for each paragraph of a text with blank lines, for each line of others."""
    opened = open_corpus([corpus], column=columns.text, header=columns.header)
    for note in opened.notes:
        say(note)
    found = [passage for source in opened.sources for passage in passages_in(source)]
    if not found:
        raise InputError(tr("{corpus} has no text to search.", corpus=corpus))
    return found


def passages_in(source: Source) -> list[Passage]:
    whole = source.format != "txt" or source.layout == "blank-lines"
    found = []
    for document in read_documents(source):
        if whole:
            found.append(Passage(text="\n".join(document.paragraphs), source=document.source, line=document.line))
        else:
            lines = zip(document.paragraphs, document.lines, strict=False)
            found += [Passage(text=text, source=document.source, line=line) for text, line in lines]
    return found
