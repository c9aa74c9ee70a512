"""Files of multiple choice: tables, and those with several questions per text, as RACE and C3 publish them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plmkit.data.reading.columns import Say, Search
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.json_documents import Lines, is_json, read_document
from plmkit.tasks.tables import open_tables

COLUMNS = ("id", "context", "question", "choices", "label")
QUESTIONS = "questions"  # the key of a text's list of questions
TEXTS = ("context", "article", "documents", "document", "passage", "text")
Record = dict[str, Any]


def open_choices(path: str | Path, search: Search, say: Say, size: BlockSize | None = None) -> Iterator[Table]:
    """A table with a question per row in blocks; one JSON document is one block."""
    path = Path(path)
    if is_json(path):
        found, text = read_document(path)
        lines = Lines(text)
        records = [(lines.of(one), one) for record in records_in(found) for one in questions_in(record)]
        yield table_of(path, records)
        return
    for table in open_tables(path, search, say, size):
        if QUESTIONS not in table.columns:
            yield table
            continue
        rows = [
            (line, dict(zip(table.columns, cells, strict=True)))
            for line, cells in zip(table.lines, table.rows, strict=True)
        ]
        yield table_of(path, [(line, one) for line, record in rows for one in questions_in(record)])


def table_of(path: Path, records: Sequence[tuple[int, Record]]) -> Table:
    if not records:
        raise InputError(tr("{path} has no questions.", path=path))
    found = dict.fromkeys(name for _, record in records for name in record)
    columns = (*(name for name in COLUMNS if name in found), *(name for name in found if name not in COLUMNS))
    rows: list[tuple[object, ...]] = [tuple(record.get(name) for name in columns) for _, record in records]
    return Table(path=path, columns=columns, rows=rows, lines=[line for line, _ in records])


def records_in(found: Any) -> Iterator[Record]:
    """`{"data": [...]}`, a list of objects, one object, or C3's list of [texts, questions, id]."""
    documents = found.get("data", [found]) if isinstance(found, dict) else found
    for document in documents if isinstance(documents, list) else []:
        if isinstance(document, dict):
            yield document
        elif isinstance(document, list) and len(document) >= 2:
            name = {"id": document[2]} if len(document) > 2 else {}
            yield {**name, "context": document[0], QUESTIONS: document[1]}


def questions_in(record: Mapping[str, Any]) -> list[Record]:
    """One record for each question of a text: a list of objects, or lists of questions, options and answers."""
    questions = record.get(QUESTIONS)
    if not isinstance(questions, list | dict):
        return [dict(record)]
    name = next((key for key in TEXTS if key in record), None)
    shared = {key: record[key] for key in ("id", "document_id", "example_id") if key in record}
    shared |= {"context": in_one(record[name])} if name else {}
    if isinstance(questions, list) and all(isinstance(one, dict) for one in questions):
        return [{**shared, **named(one)} for one in questions]
    lists = {"question": questions, **{key: record.get(key) for key in ("options", "choices", "answers", "answer")}}
    if isinstance(questions, dict):
        lists = dict(questions)
    kept = {key: values for key, values in lists.items() if isinstance(values, list)}
    count = max(map(len, kept.values()), default=0)
    return [
        {**shared, **named({key: values[place] for key, values in kept.items() if place < len(values)})}
        for place in range(count)
    ]


def named(question: Mapping[str, Any]) -> Record:
    """With our names of columns."""
    names = {"choice": "choices", "options": "choices", "answer": "label", "answers": "label"}
    return {names.get(key, key): value for key, value in question.items()}


def in_one(text: Any) -> Any:
    """The sentences of a dialogue as one text."""
    return "\n".join(map(str, text)) if isinstance(text, list) else text
