"""Files of questions: SQuAD's JSON, CMRC's, JSON lines with a paragraph or a question each, and tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import short
from plmkit.data.reading.columns import Say, Search
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.errors import InputError
from plmkit.inference.arguments import kind_of
from plmkit.language import tr
from plmkit.tasks.json_documents import Lines, is_json, read_document
from plmkit.tasks.tables import open_tables

QUESTIONS = "qas"  # the key of a paragraph's list of questions
NAMES = {"query_text": "question", "query_id": "id", "context_text": "context"}  # of CMRC's first files
COLUMNS = ("id", "question", "context", "answers", "is_impossible")


def open_questions(
    path: str | Path, search: Search, say: Say, size: BlockSize | None = None
) -> Iterator[Table]:  # fmt: skip
    """A table with a question per row in blocks, whatever the file holds; one JSON document is one block."""
    path = Path(path)
    if is_json(path):
        yield table_of(path, document_questions(path))
        return
    for table in open_tables(path, search, say, size):
        if QUESTIONS not in table.columns:
            yield table
            continue
        paragraphs = [
            (line, dict(zip(table.columns, cells, strict=True)))
            for line, cells in zip(table.lines, table.rows, strict=True)
        ]
        yield table_of(path, [one for line, found in paragraphs for one in questions_in(found, path, line)])


def table_of(path: Path, questions: list[tuple[int, dict[str, Any]]]) -> Table:
    if not questions:
        raise InputError(tr("{path} has no questions.", path=path))
    found = dict.fromkeys(name for _, record in questions for name in record)
    columns = (*(name for name in COLUMNS if name in found), *(name for name in found if name not in COLUMNS))
    rows: list[tuple[object, ...]] = [tuple(record.get(name) for name in columns) for _, record in questions]
    return Table(path=path, columns=columns, rows=rows, lines=[line for line, _ in questions])


def document_questions(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The questions of a JSON document, with the lines they are on."""
    found, text = read_document(path)
    lines = Lines(text)
    return [
        (lines.of(question), question)
        for paragraph in paragraphs_in(found, path)
        for _, question in questions_in(paragraph, path, lines.number)
    ]


def paragraphs_in(found: Any, path: Path) -> Iterator[Mapping[str, Any]]:
    """`{"data": [{"paragraphs": [...]}]}` of SQuAD, or a list of paragraphs or of questions."""
    documents = found.get("data", [found]) if isinstance(found, dict) else found
    if not isinstance(documents, list):
        raise not_questions(path, kind_of(documents))
    for document in documents:
        if not isinstance(document, dict):
            raise not_questions(path, kind_of(document))
        paragraphs = document.get("paragraphs", [document])
        if not isinstance(paragraphs, list) or not all(isinstance(one, dict) for one in paragraphs):
            raise not_questions(path, kind_of(paragraphs))
        title = {"title": document["title"]} if "title" in document and "paragraphs" in document else {}
        yield from ({**title, **paragraph} for paragraph in paragraphs)


def questions_in(paragraph: Mapping[str, Any], path: Path, line: int) -> list[tuple[int, dict[str, Any]]]:
    """The questions of a paragraph, each with its context; a question that stands alone is its own paragraph."""
    renamed = {NAMES.get(name, name): value for name, value in paragraph.items()}
    questions = renamed.pop(QUESTIONS, None)
    if questions is None:
        return [(line, renamed)]
    if not isinstance(questions, list) or not all(isinstance(one, dict) for one in questions):
        raise not_questions(path, tr("{kind} under 'qas'", kind=kind_of(questions)))
    shared = {name: value for name, value in renamed.items() if name in ("context", "title")}
    return [(line, {**{NAMES.get(k, k): v for k, v in one.items()}, **shared}) for one in questions]


def not_questions(path: Path, found: str) -> InputError:
    return InputError(
        tr(
            "{path} is no file of questions: found {found}.\n"
            'Expected SQuAD\'s form, {{"data": [{{"paragraphs": [{{"context": "...", "qas": [...]}}]}}]}}, or a list '
            "of such paragraphs.",
            path=path,
            found=short(found),
        )
    )
