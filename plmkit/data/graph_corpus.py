"""The user's tables of triples as a stream of documents: the names of a head, a relation and a tail."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from plmkit.data.corpus import Corpus, check_apart
from plmkit.data.graph import Graph, Terms
from plmkit.data.reading.cells import where
from plmkit.data.reading.files import File, find_files
from plmkit.data.reading.source import Document, OnBytes, Source
from plmkit.data.reading.triples import (
    Triple,
    TripleTable,
    holds_triples,
    may_hold_triples,
    read_names,
    read_triples,
)
from plmkit.errors import InputError, SettingError
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class GraphCorpus(Corpus):
    """Triples, which are few enough to be in memory, and the graph that they are a part of."""

    described: tuple[Document, ...]
    graph: Graph

    def documents(self, on_bytes: OnBytes | None = None) -> Iterator[Document]:
        yield from self.described
        if on_bytes is not None:
            on_bytes(self.size)

    def fingerprint(self) -> str:
        """A hash of the triples, of the names and of their numbers."""
        return self._triples_fingerprint

    @cached_property
    def _triples_fingerprint(self) -> str:
        total = hashlib.blake2b(b"triples 1", digest_size=16)  # increase when reading changes
        for terms in (self.graph.entities, self.graph.relations):
            total.update(repr((terms.ids, terms.names)).encode("utf-8", "surrogatepass"))
        total.update(np.array([document.triple for document in self.described], dtype=np.int64).tobytes())
        return total.hexdigest()


def divided(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files of triples, and those of text beside them, in any order.

    The first that can be triples is, such as a table of three columns; others are if their columns say so.
    """
    if len(paths) < 2:
        return list(paths), []
    files = {path: [file for file in find_files([path]) if not file.skipped] for path in paths}
    possible = (path for path in paths if files[path] and all(map(may_hold_triples, files[path])))
    first = next(possible, paths[0])
    triples = [path for path in paths if path == first or (files[path] and all(map(holds_triples, files[path])))]
    return triples, [path for path in paths if path not in triples]


def open_triples(
    paths: Sequence[str], *, names: Sequence[str] = (), valid: str | None = None, layout: str = "auto",
    header: bool = True,
) -> list[GraphCorpus]:  # fmt: skip
    """Each path as a corpus of its own, the held-out one last; all are parts of one graph."""
    if layout != "auto":
        raise SettingError(
            tr("run.layout={layout} has no effect on triples: each row is one. Leave it out.", layout=layout)
        )
    if not paths:
        raise InputError(
            tr(
                "This recipe trains on triples: give a table (.tsv, .csv, .jsonl) with the columns head, relation and "
                "tail."
            )
        )
    given = [*paths, *([valid] if valid else [])]
    files = [[file for file in find_files([path]) if not file.skipped] for path in given]
    tables = [[read_triples(file.path, header=header) for file in some] for some in files]
    named = names_in(names)
    graph = graph_of([table for some in tables for table in some], named)
    seen: set[tuple[str, str, str]] = set()
    corpora = [
        corpus_of(path, some, its, graph, seen) for path, some, its in zip(given, files, tables, strict=True)
    ]  # fmt: skip
    check_apart(corpora, held_out=bool(valid))
    unused = len(named) - sum(own in named for terms in (graph.entities, graph.relations) for own in terms.ids)
    notes = [
        *corpora[0].notes,
        tr(
            "Entities of the graph: {entities:,}; relations: {relations:,}.",
            entities=len(graph.entities),
            relations=len(graph.relations),
        ),
    ]
    if unused > 0:
        notes.append(tr("Names of --names that belong to nothing in these triples: {count:,}.", count=unused))
    return [replace(corpora[0], notes=tuple(notes)), *corpora[1:]]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A name, and where it stands."""

    text: str
    path: Path
    line: int


def names_in(paths: Sequence[str]) -> dict[str, Named]:
    """The name of each id; two names of one id are refused."""
    found: dict[str, Named] = {}
    for file in find_files(paths) if paths else ():
        for own, text, line in read_names(file.path):
            name, before = Named(text=text, path=file.path, line=line), found.get(own)
            if before is not None and before.text != text:
                raise InputError(
                    tr(
                        "{where}: '{own}' has the name '{name}', but '{other}' in {there}.\nRemove one of them.",
                        where=where(file.path, line),
                        own=own,
                        name=text,
                        other=before.text,
                        there=where(before.path, before.line),
                    )
                )
            found.setdefault(own, name)
    return found


def graph_of(tables: Sequence[TripleTable], named: dict[str, Named]) -> Graph:
    """Entities and relations numbered in the order in which they occur."""
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    numbers: list[tuple[int, int, int]] = []
    named_entities = any(own in named for table in tables for row in table.rows for own in (row.head, row.tail))
    for table in tables:
        for row in table.rows:
            for own, known in ((row.head, entities), (row.relation, relations), (row.tail, entities)):
                if own not in known:
                    if known is entities and named_entities and own not in named:
                        raise nameless(table, row, own, named)
                    known[own] = len(known)
            numbers.append((entities[row.head], relations[row.relation], entities[row.tail]))
    triples = np.unique(np.array(numbers, dtype=np.int64).reshape(-1, 3), axis=0)
    return Graph(
        entities=Terms(ids=tuple(entities), names=tuple(name_of(own, named) for own in entities)),
        relations=Terms(ids=tuple(relations), names=tuple(name_of(own, named) for own in relations)),
        triples=triples,
    )


def nameless(table: TripleTable, row: Triple, own: str, named: dict[str, Named]) -> InputError:
    """The first entity that no file of --names names, where there are such names of entities."""
    return InputError(
        tr(
            "{where}: the entity '{own}' has no name in {files}.\n"
            "Add it there, or leave --names out: ids are then read as names.",
            where=where(table.path, row.line),
            own=own,
            files=tr(" and ").join(sorted({str(name.path) for name in named.values()})),
        )
    )


def name_of(own: str, named: dict[str, Named]) -> str:
    return named[own].text if own in named else readable(own)


def readable(own: str) -> str:
    """An id as text: `/film/film/release_date` becomes `film film release date`."""
    spaced = own.replace("_", " ")
    if spaced.startswith("/"):
        spaced = spaced.replace("/", " ").replace(".", " ")
    return " ".join(spaced.split()) or own


def corpus_of(
    path: str, files: Sequence[File], tables: Sequence[TripleTable], graph: Graph, seen: set[tuple[str, str, str]]
) -> GraphCorpus:
    """The triples of a path that were not read before, as documents."""
    notes = [table.note for table in tables if table.note]
    documents, again = [], []
    for table in tables:
        for row in table.rows:
            if row.ids in seen:
                again.append(where(table.path, row.line))
                continue
            seen.add(row.ids)
            documents.append(document_of(row, table, graph))
    if again:
        notes.append(
            tr(
                "{path}: triples that were read before: {count:,}; they are skipped. The first is {place}.",
                path=path,
                count=len(again),
                place=again[0],
            )
        )
    if not documents:
        raise InputError("\n".join([*notes, tr("There is no new triple in {path}.", path=path)]))
    sources = tuple(
        Source(
            path=file.path, format=file.format or "txt", compression=file.compression, layout="document-per-row",
            size=file.path.stat().st_size, column="+".join(table.columns), header=table.header,
        )
        for file, table in zip(files, tables, strict=True)
    )  # fmt: skip
    return GraphCorpus(sources=sources, name=path, notes=tuple(notes), described=tuple(documents), graph=graph)


def document_of(row: Triple, table: TripleTable, graph: Graph) -> Document:
    head, relation, tail = graph.numbered([row.ids])[0].tolist()
    names = graph.entities.names
    return Document(
        paragraphs=(names[head], graph.relations.names[relation], names[tail]),
        source=str(table.path), lines=(row.line,) * 3, triple=(head, relation, tail),
    )  # fmt: skip
