"""Prompts and files from the command line: texts as they are written, and how likely texts are."""

import json
import math
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.reading.columns import Columns
from plmkit.data.reading.whole import read_table
from plmkit.errors import InputError, SettingError
from plmkit.generation.likelihood import text_logs
from plmkit.generation.row import CONTEXT, LENGTH, Text
from plmkit.generation.writing import Writing
from plmkit.inference.model import Model
from plmkit.tasks.asked import asked_table
from plmkit.tasks.output import beside, check_out, records_of
from plmkit.tasks.rows import Row, plain_rows
from plmkit.tasks.use import search_of, tell_cut, with_text
from plmkit.terminal.screen import Screen

BETWEEN = "\n---\n"  # of several texts


def prompts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """Those of the command line and those of a file, each line one; blank lines are none."""
    lines = [str(row[0]) for row in read_table(file).rows] if file else []
    if file and file.suffix != ".txt":
        raise InputError(f"--file {file}: prompts are read from a .txt file, one on each line.")
    prompts = [*given, *(line for line in lines if line.strip())]
    if not prompts:
        raise InputError('There is no prompt. Give some text to go on from, as in: plm generate MODEL "The river"')
    return prompts


def write_texts(model: Model, prompts: Sequence[str], writing: Writing, screen: Screen, *, as_json: bool) -> None:
    """Each text behind its prompt as it is written, in order; as JSON when all are there."""
    if as_json:
        texts = model.author.generate(prompts, writing)
        print(json.dumps({"texts": [vars(text) for text in texts]}, ensure_ascii=False))
    else:
        texts = streamed(model, prompts, writing)
    tell_ends(texts, writing, model, screen)


def streamed(model: Model, prompts: Sequence[str], writing: Writing) -> list[Text]:
    """A prompt is printed when something follows it, so that one that cannot be leaves stdout empty."""
    texts: list[Text] = []
    begun = False
    for piece in model.author.told(prompts, writing):
        if not begun:
            sys.stdout.write((BETWEEN if texts else "") + shown(prompts[len(texts) // writing.n]))
        if begun := isinstance(piece, str):
            sys.stdout.write(shown(piece))
            sys.stdout.flush()
        else:
            texts.append(piece)
    sys.stdout.write("\n")
    return texts


def shown(text: str) -> str:
    """On a terminal without what would move its cursor or colour it."""
    if not sys.stdout.isatty():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def tell_ends(texts: Sequence[Text], writing: Writing, model: Model, screen: Screen) -> None:
    """What was asked for and did not come."""
    sys.stdout.flush()
    cut = [text for text in texts if text.ended == CONTEXT]
    if cut:
        screen.say(
            f"! This model reads {model.author.longest:,} tokens at most, with the prompt: {of_texts(cut, texts)} "
            f"after {min(text.tokens for text in cut):,} of {writing.tokens:,} tokens."
        )
    endless = [text for text in texts if text.ended in (LENGTH, CONTEXT)]
    if writing.stop and endless:
        advice = "Shorten the prompt" if len(cut) == len(endless) else "Allow more with --tokens"
        raise SettingError(
            f"No stop string came: {of_texts(endless, texts)} after {max(text.tokens for text in endless):,} tokens.\n"
            f"{advice}, or give another --stop; what was written is printed."
        )


def of_texts(some: Sequence[Text], texts: Sequence[Text]) -> str:
    return "the text ends" if len(texts) == 1 else f"{len(some)} of {len(texts)} texts end"


def score_file(
    model: Model, source: str, out: Path | None, screen: Screen, *, as_json: bool, columns: Columns = Columns()
) -> None:
    """The rows as they were, with how likely each is beside them."""
    check_out(out, source, "scores")
    search = search_of(model, columns)
    table = asked_table(source, search, screen.say)
    rows = plain_rows(table, search, screen.say)
    with_text(rows, table, "score", "which have no score", screen)
    texts = texts_of(rows)
    left_to_right = model.architecture.generates != "no"
    found = logs_of(model, texts) if left_to_right else pseudo_logs_of(model, texts)
    tokens, total = sum(count for count, _ in found), math.fsum(log for _, log in found)
    if not tokens:
        raise InputError(f"{table.path} has no text to score.")
    prefix = "" if left_to_right else "pseudo_"
    names = ["tokens", f"{prefix}log_probability", f"{prefix}perplexity"]
    cells: list[list[Any]] = [
        [count, round(log, 6), round(math.exp(-log / count), 6)] if count else [0, None, None] for count, log in found
    ]
    sheet = beside(table, names, cells)
    if out:
        sheet.write(out)
    if as_json:
        given = zip(records_of(table), cells, strict=True)
        scored = [{"row": row, **dict(zip(names, line, strict=True))} for row, line in given]
        whole = dict(zip(names, [tokens, total, math.exp(-total / tokens)], strict=True))
        print(json.dumps({"rows": scored, "all": whole}, ensure_ascii=False))
    elif not out:
        sys.stdout.write(sheet.text(".tsv"))
    kind = "perplexity" if left_to_right else "pseudo-perplexity (each token hidden in turn; of a masked model)"
    tell_cut(model, len(texts), screen)
    screen.say(f"{len(texts):,} texts, {tokens:,} tokens, {kind} {math.exp(-total / tokens):,.2f}.")


def texts_of(rows: Sequence[Row]) -> list[str]:
    """One text a row, of a pair both; none where a text is missing."""
    return ["" if row.blank else " ".join(filter(None, (row.text, row.other))) for row in rows]


def logs_of(model: Model, texts: Sequence[str]) -> list[tuple[int, float]]:
    return [(len(logs), float(np.sum(logs))) for logs in text_logs(model.author, texts)]


def pseudo_logs_of(model: Model, texts: Sequence[str]) -> list[tuple[int, float]]:
    """How many texts were too long is kept in `model.cut`."""
    found, cut = [], 0
    for text in texts:
        score = model.pseudo_score(text) if text.strip() else None
        found.append((score.tokens, score.pseudo_log_probability) if score else (0, 0.0))
        cut += model.cut if score else 0
    model.cut = cut
    return found
