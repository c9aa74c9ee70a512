"""The user's text files as a stream of documents."""

import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from plmkit.data.reading.blocks import read_blocks
from plmkit.data.reading.columns import Heading, choose_column
from plmkit.data.reading.files import File, find_files
from plmkit.data.reading.formats import find_layout, read_documents
from plmkit.data.reading.remarks import ReadColumn, Remarks, name_some
from plmkit.data.reading.source import CELLS, Document, Format, Layout, OnBytes, Source
from plmkit.data.reading.tables import parquet_header, table_heading
from plmkit.data.reading.triples import of_triples
from plmkit.errors import InputError, SettingError, nearest
from plmkit.language import comma, tr

__all__ = ["Corpus", "Document", "Source", "open_corpus"]

LAYOUTS = ("auto", "blank-lines", "document-per-line", "document-per-file")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Text files as a stream of documents, which can be read repeatedly."""

    sources: tuple[Source, ...]
    name: str = ""  # as the user gave it
    notes: tuple[str, ...] = ()  # remarks for the user on how the files are read
    image_size: int | None = None  # pixels along each side of the images of its documents; None: they have none
    region_width: int | None = None  # width of the features of regions of these images; None: they have none
    region_classes: int | None = None  # classes of these regions, if they are read

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(source.size for source in self.sources)

    def documents(self, on_bytes: OnBytes | None = None) -> Iterator[Document]:
        """All documents in order; `on_bytes` gets the number of bytes on disk that were read since its last call."""
        for source in self.sources:
            yield from read_documents(source, on_bytes)

    def fingerprint(self) -> str:
        """A hash of the content of all files in order and of how they are read, not of their names."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        total = hashlib.blake2b(b"corpus 1", digest_size=16)  # increase when reading changes
        for source in self.sources:
            content = hashlib.blake2b(digest_size=16)
            for number, file in enumerate(source.files):
                content.update(b"\0" * number)
                for block in read_blocks(str(file), None):
                    content.update(block)
            reading = (source.format, source.compression, source.layout, source.column, *([] if source.header else [0]))
            total.update(f"{content.hexdigest()} {reading}\n".encode())
        return total.hexdigest()


def open_corpora(
    paths: Sequence[str | Path], *, valid: str | None = None, layout: str = "auto", column: str | None = None,
    header: bool = True, without: Collection[Path] = (),
) -> list[Corpus]:  # fmt: skip
    """Each path as a corpus of its own, the held-out one last; a file may be in one of them only.

    Files of `without`, by their real paths, are left out.
    """
    given = [*paths, *([valid] if valid else [])]
    corpora = [_open([path], layout, column, header, without) for path in given]
    check_apart(corpora, held_out=bool(valid))
    _check_settings_are_used([source for corpus in corpora for source in corpus.sources], layout, column, header)
    return corpora


def check_apart(corpora: Sequence[Corpus], *, held_out: bool) -> None:
    """Refuse a file that is in two corpora, the last of which may be held out."""
    owner: dict[Path, Corpus] = {}
    for corpus in corpora:
        for path in (file for source in corpus.sources for file in source.files):
            other = owner.setdefault(path.resolve(), corpus)
            if other is not corpus and held_out and corpus is corpora[-1]:
                raise InputError(
                    tr(
                        "{path} is held out (--valid), but the training corpus {corpus} contains it too.\n"
                        "Move it elsewhere, or omit --valid: some documents of the corpus are then held out.",
                        path=path,
                        corpus=other.name,
                    )
                )
            if other is not corpus:
                raise InputError(
                    tr(
                        "{path} is given twice: in {first} and in {second}.\n"
                        "Give it once; run.weights sets how often each corpus is read.",
                        path=path,
                        first=other.name,
                        second=corpus.name,
                    )
                )


def open_corpus(
    paths: Sequence[str | Path], *, layout: str = "auto", column: str | None = None, header: bool = True
) -> Corpus:
    """All paths as one corpus; a file that is named more than once is read once."""
    corpus = _open(paths, layout, column, header)
    _check_settings_are_used(corpus.sources, layout, column, header)
    return corpus


def problems(
    path: str | Path, *, layout: str = "auto", column: str | None = None, header: bool = True
) -> dict[Path, str]:
    """For each file of a corpus, by its real path, why it cannot be read to its end; empty if it can."""
    found: dict[Path, str] = {}
    for file in _once(find_files([path]), Remarks()):
        real = file.path.resolve()
        try:
            source = _inspect(file, layout, column, header, Remarks())
            for _ in read_documents(source) if source else ():
                pass
            found[real] = ""
        except InputError as error:
            found[real] = str(error)
    return found


def _open(
    paths: Sequence[str | Path], layout: str, column: str | None, header: bool, without: Collection[Path] = ()
) -> Corpus:
    """Find the files and detect the layout of each; the text itself is read later, as a stream."""
    if layout not in LAYOUTS:
        raise SettingError(
            tr(
                "There is no layout '{layout}'.{hint} Layouts: {layouts}.",
                layout=layout,
                hint=nearest(layout, LAYOUTS),
                layouts=comma().join(LAYOUTS),
            )
        )
    remarks = Remarks()
    sources = []
    for file in _once(find_files(paths), remarks):
        if file.path.resolve() in without:
            continue
        source = _inspect(file, layout, column, header, remarks)
        if source is None or next(read_documents(source), None) is None:
            remarks.add("empty", file)
            continue
        sources.append(source)
        if file.format is None:
            remarks.add("unknown", file)
        if source.format == "txt" and layout == "auto":
            remarks.add(source.layout, file)
    if not sources:
        raise InputError(
            tr("There is no text in {files}. Give files that contain text.", files=name_some(remarks.files["empty"]))
        )
    return Corpus(sources=tuple(sources), name=" ".join(map(str, paths)), notes=remarks.notes())


def _once(files: list[File], remarks: Remarks) -> Iterator[File]:
    seen = set()
    for file in files:
        real = os.path.realpath(file.path)  # not resolve(), which fails where a link leads to itself
        if file.skipped:
            remarks.add("model" if file.path.is_dir() else "skipped", file)
        elif real in seen:
            remarks.add("twice", file)
        else:
            yield file
        seen.add(real)


def _inspect(file: File, layout: str, column: str | None, header: bool, remarks: Remarks) -> Source | None:
    name = str(file.path)
    format = file.format or "txt"
    chosen = None
    if format == "txt":
        divided = find_layout(name, file.compression) if layout == "auto" else cast(Layout, layout)
    else:
        divided = "document-per-row"
        heading = heading_of(file, format, header)
        if heading is None:
            return None
        try:
            chosen, others = choose_column(heading, column)
        except InputError as error:
            raise InputError(f"{error}{of_triples(file, heading)}") from error
        if heading.dialect and heading.dialect.unusual:
            remarks.add(heading.dialect.unusual, file)
        if chosen not in ("text", column):
            options = tr(" or ").join(f"--text {shlex.quote(other)}" for other in others)
            remarks.add(ReadColumn(column=chosen, options=options), file)
    return Source(
        path=file.path,
        format=format,
        compression=file.compression,
        layout=divided,
        size=file.path.stat().st_size,
        column=chosen,
        header=header or format not in CELLS,
    )


def heading_of(file: File, format: Format, header: bool) -> Heading | None:
    name = str(file.path)
    if format == "parquet":
        return Heading(name=name, columns=parquet_header(name))
    return table_heading(name, format, file.compression, header=header)


def _check_settings_are_used(sources: Sequence[Source], layout: str, column: str | None, header: bool) -> None:
    plain = [source.format == "txt" for source in sources]
    if layout != "auto" and not any(plain):
        raise SettingError(
            tr("layout={layout} is for plain text, but all files are tables. Leave it out.", layout=layout)
        )
    if column is not None and all(plain):
        raise SettingError(
            tr("--text {column} names a table column, but no file is a table. Leave it out.", column=column)
        )
    check_header_is_used(sources, header)


def check_header_is_used(sources: Sequence[Source], header: bool) -> None:
    if not header and all(source.header for source in sources):
        raise SettingError(tr("--no-header is for .csv and .tsv, but no file is of these types. Leave it out."))
