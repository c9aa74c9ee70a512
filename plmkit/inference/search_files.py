"""Searching from the command line: queries of a command or a file, hits as a table, as lines or as JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plmkit.data.reading.columns import Search
from plmkit.data.writing import Sheet
from plmkit.errors import InputError
from plmkit.inference.embedding import embed_texts
from plmkit.inference.model import Model
from plmkit.inference.searching import Embedder, Hit
from plmkit.language import tr
from plmkit.tasks.rows import plain_rows
from plmkit.tasks.tables import input_table
from plmkit.tasks.use import MANY, report_unread
from plmkit.terminal.screen import Screen
from plmkit.vectors.word_vectors import WordVectors


def embedder_of(model: Model | WordVectors, screen: Screen) -> Embedder:
    """What embeds texts and reports those that are truncated."""
    if isinstance(model, WordVectors):
        return Embedder(
            folder=model.folder, width=model.width, embed=lambda texts: np.stack([model.embed(text) for text in texts])
        )

    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors, unread = embed_texts(model, texts, "sentence", screen=screen if len(texts) > MANY else None)
        report_unread(unread, screen)
        return np.stack(vectors)

    return Embedder(folder=model.folder, width=model.width, embed=embed)


def queries_of(given: Sequence[str], file: str | None, screen: Screen) -> list[str]:
    """The queries of the command line and those of a file, without blank rows."""
    rows = plain_rows(input_table(file, Search(), screen.say), Search(), screen.say) if file else []
    queries = [*given, *(row.text for row in rows if not row.blank)]
    if not queries:
        raise InputError(
            tr('The query is missing. Give a text to search for, as in: plm search MODEL CORPUS "the river"')
        )
    return queries


def sheet_of(queries: Sequence[str], found: Sequence[Sequence[Hit]]) -> Sheet:
    rows = [
        [query, hit.rank, round(hit.score, 6), hit.text, hit.source, hit.line]
        for query, hits in zip(queries, found, strict=True)
        for hit in hits
    ]
    return Sheet(columns=["query", "rank", "score", "text", "source", "line"], rows=rows)


def as_json(queries: Sequence[str], found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    pairs = zip(queries, found, strict=True)
    return {"queries": [{"query": query, "hits": [vars(hit) for hit in hits]} for query, hits in pairs]}
