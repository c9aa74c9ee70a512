"""Files of tagged words as tables: columns of words, arrays of JSON, and tables whose cells are lists."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

from plmkit.data.reading.cells import folded
from plmkit.data.reading.columns import USUAL, Say, Search
from plmkit.data.reading.conll import HEADERS, Word, cells_of, columns
from plmkit.data.reading.files import format_of
from plmkit.data.reading.json_array import read_records
from plmkit.data.reading.tables import numbered_lines
from plmkit.data.reading.whole import BlockSize, Table, check_file, in_blocks, record_table
from plmkit.data.reading.words import TAGS, TOKENS
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.tables import open_tables
from plmkit.tasks.tagging.schemes import canonical

COLUMNS = (".conll", ".conllu", ".bio", ".iob", ".iob2", ".bioes", ".bmes", ".bilou", ".ner", ".pos", ".tags")
SPANS = ("entities", "spans", "annotations", "label", "labels")  # columns of annotated spans
NAMES = frozenset({*TOKENS, *TAGS, *SPANS, *(name for names in USUAL.values() for name in names)})
INSPECTED = 200  # lines of a file that may hold columns


@dataclass(frozen=True, kw_only=True)
class WordTable(Table):
    """Columns of words as a table: a sentence per row, whose cells are lists."""

    words: list[tuple[int, ...]]  # of each row, the lines of its words


def open_words(
    path: str | Path, search: Search, say: Say, known: Collection[str] = (), size: BlockSize | None = None
) -> Iterator[Table]:  # fmt: skip
    """The table of a file in blocks; `known` are the tags of a trained model, which tell columns from texts."""
    path = Path(path)
    ending = Path(path.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    if ending in COLUMNS or (ending in (".txt", ".tsv") and path.is_file() and has_columns(path, ending, known)):
        yield from word_tables(path, size)
    elif ending == ".json":
        yield annotated_table(path)
    else:
        for table in open_tables(path, search, say, size):
            yield flattened(table) if "data" in table.columns else table


def has_columns(path: Path, ending: str, known: Collection[str]) -> bool:
    """Whether each line is a word and its tags: as many cells everywhere, and tags that are known, if any are."""
    lines = numbered_lines(str(path), format_of(path)[1])
    rows = [cells for _, line in islice(lines, INSPECTED) if (cells := cells_of(line))]
    rows = [cells for cells in rows if not cells[0].startswith(("#", "-DOCSTART-"))]
    if not rows or len({len(cells) for cells in rows}) > 1 or len(rows[0]) < 2:
        return False
    if ending == ".tsv":
        first, *_ = rows
        named = folded(first[0]) not in HEADERS and any(folded(cell) in NAMES for cell in first)
        return not named and not any(" " in cells[0] for cells in rows)
    tags = [canonical([cells[-1]])[0] for cells in rows]
    return not known or 2 * sum(tag in known for tag in tags) >= len(tags)


def word_tables(path: Path, size: BlockSize | None = None) -> Iterator[WordTable]:
    """A file of columns as a table of sentences."""
    check_file(path)
    names, found = columns(path, numbered_lines(str(path), format_of(path)[1]))
    for number, block in enumerate(in_blocks(((words[0].line, tuple(words)) for words in found), size)):
        sentences = [cast(tuple[Word, ...], words) for _, words in block]
        if number == 0 and not sentences:
            raise InputError(
                tr(
                    "{path} has no words. Write one word and its tag per line, a blank line between sentences.",
                    path=path,
                )
            )
        rows: list[tuple[object, ...]] = [
            tuple([word.cells[column] for word in words] for column in range(len(names))) for words in sentences
        ]
        lines = [tuple(word.line for word in words) for words in sentences]
        yield WordTable(path=path, columns=names, rows=rows, lines=[first for first, *_ in lines], words=lines)


def annotated_table(path: Path) -> Table:
    """An array of JSON records, of Label Studio or another tool, or of pairs (text, {"entities": ...}) of spaCy."""
    check_file(path)
    found = [(line, record_of(item, path, line)) for line, item in read_records(path)]
    if not found:
        raise InputError(tr("{path} is empty.", path=path))
    table = record_table(path, found)
    return flattened(table) if "data" in table.columns else table


def record_of(item: Any, path: Path, line: int) -> dict[str, Any]:
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict):
        return {"text": item[0], **item[1]}
    if not isinstance(item, dict):
        raise InputError(
            tr(
                '{place}: not a JSON object. Each record must be like {{"text": "...", "entities": [...]}}.',
                place=tr("{path}, line {line}", path=path, line=line),
            )
        )
    return item


def flattened(table: Table) -> Table:
    """Label Studio's records: the fields of `data` as columns, and the first annotation that was not cancelled."""
    records: list[dict[str, Any]] = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    if not all(isinstance(record["data"], dict) for record in records):
        return table
    made = []
    for line, record in zip(table.lines, records, strict=True):
        tried = record.get("annotations") or record.get("completions") or []
        done = [one for one in tried if isinstance(one, dict) and not one.get("was_cancelled")]
        spans = done[0].get("result", []) if done else None
        made.append((line, {"id": record.get("id"), **record["data"], "spans": spans}))
    return record_table(table.path, made)
