"""What a corpus is made of: sources on disk, and the documents read from them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plmkit.data.feature_files import FeaturePlace

Format = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
Compression = Literal["gz", "zst"]
Layout = Literal[
    "blank-lines", "document-per-line", "document-per-file", "document-per-row", "pair-per-row", "titles-per-query"
]  # fmt: skip
CELLS = ("csv", "tsv")  # formats whose first row has the column names, or is already data
OnBytes = Callable[[int], None]

LONGEST_DOCUMENT = 1_000_000  # characters; a longer document is cut, so that memory stays bounded


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One text of the corpus: its paragraphs in order, and where it was found."""

    paragraphs: tuple[str, ...]  # stripped, none empty
    source: str
    lines: tuple[int, ...]  # of each paragraph, 1-based; the row in a Parquet file
    pair: bool = False  # its paragraphs are a source and a target, each a text of its own
    image: Path | None = None  # its paragraphs are captions of this image, each a text of its own
    features: FeaturePlace | None = None  # where the features of regions of this image are, if they are read
    triple: tuple[int, int, int] | None = None  # numbers of head, relation and tail, whose names its paragraphs are
    relevance: tuple[int, ...] = ()  # its paragraphs are a search query and these titles; how each met the query

    @property
    def is_split(self) -> bool:
        """Are its paragraphs split into sentences?"""
        return not (self.pair or self.image or self.triple or self.relevance)

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.lines[0]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file of the corpus and how it is read."""

    path: Path
    format: Format
    compression: Compression | None
    layout: Layout
    size: int  # bytes on disk
    column: str | None = None  # text column of a table; `a+b` reads two, as paragraphs
    header: bool = True  # False: a table whose columns have no names, but numbers
    partner: Path | None = None  # of a plain file of sources, the file of their targets

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,) if self.partner is None else (self.path, self.partner)
