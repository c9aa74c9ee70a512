"""A model over a file: evaluate, embed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from plmkit.data.reading.columns import Columns, Search
from plmkit.data.reading.whole import Table
from plmkit.data.writing import beside, check_out, is_same
from plmkit.errors import InputError, SettingError
from plmkit.inference.embedding import embed_texts
from plmkit.inference.model import Model
from plmkit.inference.predicting import tasks_named
from plmkit.inference.reader import Unread
from plmkit.language import tr
from plmkit.storage.files import new_file, reported_os_errors, write_text
from plmkit.tasks.batches import predictions_of
from plmkit.tasks.contract import Row, Task, unknown_share
from plmkit.tasks.left_out import readable
from plmkit.tasks.report.report import Report
from plmkit.tasks.rows import plain_rows, read_labelled, report_blank
from plmkit.tasks.tables import input_table
from plmkit.terminal.screen import Screen
from plmkit.vectors.word_vectors import WordVectors

VECTORS = (".npy", ".safetensors", ".parquet", ".jsonl")
INDEXED = (".npy", ".safetensors")  # hold vectors alone
MANY = 256  # more rows than this show a progress bar


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What a task reports on the rows of a file, and what of them it did not read."""

    report: Report
    unread: Unread


def evaluate_file(
    model: Model, file: Path, screen: Screen, columns: Columns = Columns(), task: str | None = None
) -> dict[str, Evaluated]:
    """The reports of all tasks that can read the labelled rows of a file, or of one task, by name."""
    tasks = tasks_named(model, task, tr("be evaluated"))
    notes: dict[str, list[str]] = {one.name: [] for one in tasks}

    def read(one: Task) -> list[Row]:
        rows = read_labelled(file, one, search_for(one, columns), notes[one.name].append).rows
        one.check(rows, file, notes[one.name].append)
        return rows

    found, remarks = readable(tasks, read)
    for note in dict.fromkeys(note for name in found for note in notes[name]):  # tasks say the same of the same rows
        screen.say(note)
    for remark in remarks:
        screen.say(f"! {remark}")
    return {name: evaluated(model, model.tasks[name], rows) for name, rows in found.items()}


def evaluated(model: Model, task: Task, rows: Sequence[Row]) -> Evaluated:
    examples = task.frame(rows, model.tokenizer, task.length)
    model.network.eval()
    predictions = predictions_of(model.network, task, examples, model.tokenizer.vocabulary, model.device)
    report = task.report(predictions, rows)
    unread = Unread(
        cut=sum(made.cut > 0 for made in examples),
        texts=len(rows),
        length=task.length,
        unknown=unknown_share(examples, model.tokenizer.vocabulary),
    )
    classes = {"classes": list(task.classes)} if task.classes else {}
    return Evaluated(report=replace(report, scores=report.scores | classes), unread=unread)


def search_for(task: Task, columns: Columns) -> Search:
    """The requested columns, and those that the task was trained on."""
    return Search(named=columns, trained=task.columns)


def search_of(model: Model, columns: Columns) -> Search:
    """The requested columns, and those that the only task of a model was trained on."""
    only = next(iter(model.tasks.values())).columns if len(model.tasks) == 1 else Columns()
    return Search(named=columns, trained=only)


def with_text(rows: Sequence[Row], table: Table, others: str, screen: Screen) -> list[int]:
    """The indices of the rows that have text; reports the lines of the others, and what they get."""
    report_blank([row.line for row in rows if row.blank], len(rows), table.path, others, screen.say)
    return [number for number, row in enumerate(rows) if not row.blank]


def embed_file(
    model: Model | WordVectors,
    source: str,
    out: Path | None,
    level: str,
    screen: Screen,
    columns: Columns = Columns(),
    layers: str = "last",
) -> dict[str, Any]:
    """Embed all rows, those without text as 0; returns a summary, and without `out` the vectors too."""
    check_out(out, source, tr("vectors"), VECTORS)
    if level not in ("sentence", "token"):
        raise SettingError(tr("--level takes sentence or token; found '{level}'.", level=level))
    by_token, index = level == "token", None
    if out and out.suffix in INDEXED and by_token:
        index = out.with_suffix(".jsonl")  # the tokens that the vectors belong to
        check_index(index, Path(source))
    search = Search(named=columns) if isinstance(model, WordVectors) else search_of(model, columns)
    table = input_table(source, search, screen.say)
    rows = plain_rows(table, search, screen.say)
    pairs = [row.text if row.other is None else (row.text, row.other) for row in rows]
    filled = with_text(rows, table, tr("whose vectors are 0"), screen)
    watched = screen if len(rows) > MANY else None
    texts = [pairs[number] for number in filled]
    if isinstance(model, WordVectors):
        if layers != "last":
            raise SettingError(
                tr("{model} holds word vectors, which have no layers. Leave --layers out.", model=model.folder)
            )
        found, cut = [model.embed(one_text(text), level) for text in texts], Unread(cut=0, texts=len(rows), length=0)
        width = model.width
    else:
        found, cut = embed_texts(model, texts, level, screen=watched, layers=layers)
        width = model.architecture.width if by_token else model.width
    shape = found[0].shape  # of a text; those without text have none of its tokens
    vectors = [np.zeros((0, *shape[1:]) if by_token else shape, dtype=np.float32) for _ in rows]
    for number, vector in zip(filled, found, strict=True):
        vectors[number] = vector
    report_unread(replace(cut, texts=len(rows)), screen)
    tokens = tokens_of(model, pairs, vectors) if by_token else None
    number = sum(map(len, vectors)) if by_token else len(vectors)
    summary = {"rows": len(rows), "width": width, **({"tokens": number} if by_token else {})}
    if out is None:
        named = (
            {}
            if tokens is None
            else {"names": [row.names for row in tokens], "offsets": [row.offsets for row in tokens]}
        )
        return {**summary, **named, "vectors": [part.tolist() for part in vectors]}
    if index and tokens is not None:
        write_text(index, token_index(tokens))
    write_vectors(out, table, vectors, tokens)
    which = tr(", with an index of their tokens in {index}", index=index) if index else ""
    screen.say(
        tr(
            "{number:,} vectors of width {width} written to {out}{which}.",
            number=number,
            width=width,
            out=out,
            which=which,
        )
    )
    return {"out": str(out), **summary, **({"index": str(index)} if index else {})}


@dataclass(frozen=True, kw_only=True)
class RowTokens:
    """The tokens of a row that have vectors."""

    names: list[str]  # unknown words as they are written, where a network reads their characters
    offsets: list[list[int]]  # where each begins and ends in its text, in characters


def write_vectors(out: Path, table: Table, vectors: list[np.ndarray], tokens: list[RowTokens] | None) -> None:
    """One array; or, as Parquet or JSON lines, the rows with their vectors, or with their tokens and token vectors."""
    if out.suffix in (".parquet", ".jsonl"):
        lists = [in_float32(vector) if out.suffix == ".parquet" else vector.tolist() for vector in vectors]
        if tokens is None:
            sheet = beside(table, ["vector"], [[vector] for vector in lists])
        else:
            cells = [[mine.names, mine.offsets, part] for mine, part in zip(tokens, lists, strict=True)]
            sheet = beside(table, ["tokens", "offsets", "vectors"], cells)
        sheet.write(out)
        return
    array = np.stack(vectors) if tokens is None else np.concatenate(vectors)
    with reported_os_errors(out.parent), new_file(out) as partial, open(partial, "wb") as opened:
        if out.suffix == ".safetensors":
            opened.write(save({"vectors": np.ascontiguousarray(array)}))
            return
        # np.save reports a full disk as `96000 requested and 15328 written`
        np.lib.format.write_array_header_1_0(opened, np.lib.format.header_data_from_array_1_0(array))
        opened.write(array.data)


def in_float32(vectors: np.ndarray) -> Any:
    """Nested lists of vectors that stay arrays, which Parquet keeps in their precision."""
    return vectors if vectors.ndim == 1 else [in_float32(part) for part in vectors]


def check_index(index: Path, file: Path) -> None:
    """The index must not overwrite the input, nor a file that is not such an index."""
    if is_same(index, file):
        raise InputError(
            tr(
                "{index}, where the index of tokens would be written, is the input file.\n"
                "Name another --out, so that it is not overwritten.",
                index=index,
            )
        )
    if index.exists() and not is_index(index):
        raise InputError(
            tr(
                "{index}, where the index of tokens would be written, exists and holds something else.\n"
                "Name another --out, so that it is not overwritten.",
                index=index,
            )
        )


def is_index(path: Path) -> bool:
    """Whether every line is one that `token_index` writes; an empty file has nothing to lose."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = (json.loads(line) for line in lines)
            return all(isinstance(line, dict) and line.keys() - {"offsets"} == {"begin", "tokens"} for line in found)
    except (OSError, ValueError, RecursionError):
        return False


def one_text(text: str | tuple[str, str]) -> str:
    """A pair as one text: static vectors do not tell them apart."""
    return text if isinstance(text, str) else "\n".join(text)


def tokens_of(model: Model | WordVectors, pairs: list[Any], vectors: list[np.ndarray]) -> list[RowTokens]:
    """For each row the tokens of its vectors."""
    if isinstance(model, WordVectors):
        known = [model.known(one_text(text)) for text in pairs]
        return [RowTokens(names=[word for word, _ in row], offsets=[span for _, span in row]) for row in known]
    vocabulary = model.tokenizer.vocabulary
    texts = [list(pair) if isinstance(pair, tuple) else [pair] for pair in pairs]
    flat = [text for row in texts for text in row]
    places = np.cumsum(model.tokenizer.encode_many(flat)[1])[:-1]
    offsets = iter(np.split(model.tokenizer.offsets_many(flat), places))
    found = []
    for row, own, mine in zip(model.rows(pairs), texts, vectors, strict=True):
        before, between, after = vocabulary.frame(len(own))
        end = len(row.tokens) - len(after)
        first = slice(len(before), row.second - len(between) if len(own) == 2 else end)
        parts = [first, slice(row.second, end)][: len(own)]
        tokens = np.concatenate([row.tokens[part] for part in parts])
        spans = np.concatenate([next(offsets)[: part.stop - part.start] for part in parts])
        if not len(tokens) and len(mine):  # of an empty text, a special token has the vector
            tokens, spans = row.tokens[: len(mine)], np.zeros((len(mine), 2), dtype=np.int64)
        written = iter(row.unknown)
        names = [
            next(written, name) if token == vocabulary.unknown else name
            for token, name in zip(tokens.tolist(), vocabulary.names(tokens), strict=True)
        ]
        found.append(RowTokens(names=names[: len(mine)], offsets=spans[: len(mine)].tolist()))
    return found


def token_index(tokens: list[RowTokens]) -> str:
    """For each row: its tokens, where they are in the text, and where its vectors begin."""
    lines, begin = [], 0
    for row in tokens:
        line = {"begin": begin, "tokens": row.names, "offsets": row.offsets}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        begin += len(row.names)
    return "".join(lines)


def report_unread(unread: Unread, screen: Screen) -> None:
    for _, text in unread.remarks():
        screen.say(f"! {text}")
