"""A model over a file: evaluate, predict, embed."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.reading.columns import Columns, Search
from plmkit.data.reading.whole import Table
from plmkit.errors import InputError, SettingError, several
from plmkit.files import explained, unfinished, write_text
from plmkit.model import Model, Prediction
from plmkit.tasks.columns import learnt_by, open_table
from plmkit.tasks.judging import evaluate_rows, pair_of
from plmkit.tasks.rows import Row, check_classes, lines_of, plain_rows, read_labelled, rows_for
from plmkit.training.progress import Screen

EMPTY = Prediction(label="")  # of a row without text
OUTPUTS = (".tsv", ".csv", ".jsonl")


def evaluate_file(model: Model, file: Path, screen: Screen, columns: Columns = Columns()) -> dict[str, Any]:
    model.needs("label", "be evaluated")
    kind = model.kind
    assert kind is not None
    rows = read_labelled(file, kind, search_of(model, columns), screen.say).rows
    if model.classes:
        check_classes(rows, model.classes, file)
    found = evaluate_rows(model, rows)
    tell_cut(model, len(rows), screen)
    return {**found, "classes": list(model.classes)} if model.classes else found


def search_of(model: Model, columns: Columns) -> Search:
    """The columns that are asked for, and those that the model learnt from."""
    return Search(named=columns, learnt=learnt_by(model.folder))


def predict_file(
    model: Model, file: Path, out: Path | None, screen: Screen, *, as_json: bool, columns: Columns = Columns()
) -> None:
    """The rows as they were, with the prediction and the probability of each class beside them."""
    model.needs("label", "predict")
    kind = model.kind
    assert kind is not None
    check_out(out, file, "predictions")
    search = search_of(model, columns)
    table = open_table(file, search, screen.say)
    rows, _ = rows_for(table, kind, search, screen.say, labelled=False)
    filled = with_text(rows, file, "judge", "left without an answer", screen)
    predictions = [EMPTY] * len(rows)
    for number, prediction in zip(filled, model.predict([pair_of(rows[number]) for number in filled]), strict=True):
        predictions[number] = prediction
    tell_cut(model, len(rows), screen)
    if as_json:
        print(json.dumps({"predictions": [vars(prediction) for prediction in predictions]}, ensure_ascii=False))
    text = rendered(table, predictions, model.classes, out.suffix if out else ".tsv")
    if out:
        write_text(out, text)
        screen.say(f"{len(rows):,} predictions written to {out}.")
    elif not as_json:
        sys.stdout.write(text)


def with_text(rows: Sequence[Row], file: Path, verb: str, others: str, screen: Screen) -> list[int]:
    """The numbers of the rows that have text; what the others get is said with their lines."""
    blank = [row.line for row in rows if row.blank]
    if len(blank) == len(rows):
        raise InputError(f"{file} has no text to {verb}.")
    if blank:
        screen.say(f"{file}: {several(len(blank), 'row')} without text, {others} ({lines_of(blank, file)}).")
    return [number for number, row in enumerate(rows) if not row.blank]


def check_out(out: Path | None, file: Path, what: str) -> None:
    """A table can be written there, and not over what is read."""
    if out and out.suffix not in OUTPUTS:
        raise SettingError(f"--out {out}: {what} are written as {', '.join(OUTPUTS)}. Name such a file.")
    if out and is_same(out, file):
        raise SettingError(f"--out {out} is the file that is read. Name another, or it would be overwritten.")


def is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def rendered(table: Table, predictions: list[Prediction], classes: Sequence[str], suffix: str) -> str:
    """The table with new columns `prediction` and `probability:CLASS`."""
    cells: list[list[Any]] = []
    for prediction in predictions:
        label = round(prediction.label, 6) if isinstance(prediction.label, float) else prediction.label
        found = prediction.probabilities or dict.fromkeys(classes)
        cells.append([label, *(value if (value := found[name]) is None else round(value, 6) for name in classes)])
    return beside(table, ["prediction", *(f"probability:{name}" for name in classes)], cells, suffix)


def beside(table: Table, names: Sequence[str], cells: Sequence[Sequence[Any]], suffix: str) -> str:
    """The table with new columns behind its own, as a file of that kind holds it."""
    columns = [*table.columns, *(free(name, table.columns) for name in names)]
    lines = [[*row, *new] for row, new in zip(table.rows, cells, strict=True)]
    if suffix == ".jsonl":
        return "".join(
            json.dumps(dict(zip(columns, line, strict=True)), ensure_ascii=False, default=str) + "\n" for line in lines
        )
    if suffix == ".csv":
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])
        return file.getvalue()
    return "".join("\t".join(flat(cell) for cell in line) + "\n" for line in [columns, *lines])


def free(name: str, taken: Sequence[str]) -> str:
    """The name, or, where the file has such a column already, `name 2`, `name 3`, and so on."""
    numbered = (f"{name} {number}" for number in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def flat(cell: object) -> str:
    """TSV has no quotes: a tab or a line break inside a cell becomes a space; nothing stays nothing."""
    if cell is None:
        return ""
    return " ".join(str(cell).split()) if any(c in str(cell) for c in "\t\r\n") else str(cell)


def embed_file(
    model: Model, file: Path, out: Path, level: str, screen: Screen, columns: Columns = Columns()
) -> dict[str, Any]:
    """Vectors as .npy: (rows, width), 0 for a blank line; or (tokens, width) with a .jsonl to say which is which."""
    if out.suffix != ".npy":
        raise SettingError(f"--out {out}: vectors are written as .npy. Name such a file.")
    if level not in ("sentence", "token"):
        raise SettingError(f"--level takes sentence or token; found '{level}'.")
    index = out.with_suffix(".jsonl")  # beside the vectors of tokens
    if level == "token":
        check_index(index, file)
    search = search_of(model, columns)
    rows = plain_rows(open_table(file, search, screen.say), search, screen.say)
    pairs = [pair_of(row) for row in rows]
    filled = with_text(rows, file, "embed", "whose vectors are 0", screen)
    found = model.embed([pairs[number] for number in filled], level=level)
    width = model.architecture.width
    vectors: Any = [np.zeros(width if level == "sentence" else (0, width), dtype=np.float32) for _ in rows]
    for number, vector in zip(filled, found, strict=True):
        vectors[number] = vector
    tell_cut(model, len(rows), screen)
    told: dict[str, Any] = {"out": str(out), "rows": len(rows), "width": width}
    if level == "token":
        write_text(index, token_index(model, pairs, vectors))
        told |= {"tokens": sum(map(len, vectors)), "index": str(index)}
    vectors = np.concatenate(vectors) if level == "token" else np.stack(vectors)
    partial = unfinished(out)
    with explained(out.parent):
        try:
            with open(partial, "wb") as opened:
                np.save(opened, vectors)
            partial.replace(out)
        finally:
            partial.unlink(missing_ok=True)
    which = f", and the tokens that they belong to, to {index}" if level == "token" else ""
    screen.say(f"{vectors.shape[0]:,} vectors of {vectors.shape[1]} numbers written to {out}{which}.")
    return told


def check_index(index: Path, file: Path) -> None:
    """The tokens can be written there: not over what is read, nor over a file that is not such an index."""
    if is_same(index, file):
        raise InputError(
            f"{index}, where the tokens would be written, is the file that is read.\n"
            "Name another --out, or it would be overwritten."
        )
    if index.exists() and not is_index(index):
        raise InputError(
            f"{index}, where the tokens would be written, is there already and holds something else.\n"
            "Name another --out, or it would be overwritten."
        )


def is_index(path: Path) -> bool:
    """Whether every line is one that `token_index` writes; an empty file has nothing to lose."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = (json.loads(line) for line in lines)
            return all(isinstance(line, dict) and line.keys() == {"begin", "tokens"} for line in found)
    except (OSError, ValueError, RecursionError):
        return False


def token_index(model: Model, pairs: list[Any], vectors: list[np.ndarray]) -> str:
    """For each row: its tokens, and where its vectors begin."""
    vocabulary = model.tokenizer.vocabulary
    special = {number for part in vocabulary.frame(2) for number in part}
    lines, begin = [], 0
    for row, mine in zip(model.rows(pairs), vectors, strict=True):
        kept = [token for token in row.tokens.tolist() if token not in special]
        lines.append(json.dumps({"begin": begin, "tokens": vocabulary.names(kept)}, ensure_ascii=False) + "\n")
        begin += len(mine)
    return "".join(lines)


def tell_cut(model: Model, rows: int, screen: Screen) -> None:
    if model.cut:
        screen.say(f"! {model.told_cut(rows)}")
