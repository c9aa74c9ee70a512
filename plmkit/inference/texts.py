"""Text from the command line: generate texts for prompts, and score the texts of a file."""

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
from plmkit.data.writing import beside, check_out, records_of
from plmkit.errors import InputError, SettingError
from plmkit.generation.likelihood import text_log_probabilities
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import CONTEXT, LENGTH, GeneratedText
from plmkit.inference.masked import pseudo_score
from plmkit.inference.model import Model
from plmkit.inference.reader import Unread
from plmkit.language import tr
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import plain_rows
from plmkit.tasks.tables import input_table
from plmkit.tasks.use import report_unread, search_of, with_text
from plmkit.terminal.screen import Screen

BETWEEN = "\n---\n"  # between two texts


def prompts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """The prompts of the command line and those of a file, one per line, without blank lines."""
    lines = [str(row[0]) for row in read_table(file).rows] if file else []
    if file and file.suffix != ".txt":
        raise InputError(tr("--file {file}: prompts must be in a .txt file, one per line.", file=file))
    prompts = [*given, *(line for line in lines if line.strip())]
    if not prompts:
        raise InputError(tr('The prompt is missing. Give a text to continue, as in: plm generate MODEL "The river"'))
    return prompts


def print_texts(
    model: Model, prompts: Sequence[str], options: GenerationOptions, screen: Screen, *, as_json: bool
) -> None:
    """Print each text after its prompt as it is generated, in order; JSON when all are complete."""
    if as_json:
        texts = model.engine.generate(prompts, options)
        print(json.dumps({"texts": [vars(text) for text in texts]}, ensure_ascii=False))
    else:
        texts = streamed(model, prompts, options)
    report_ends(texts, options, model, screen)


def streamed(model: Model, prompts: Sequence[str], options: GenerationOptions) -> list[GeneratedText]:
    """A prompt is printed with the first text after it, so that a refused one leaves stdout empty."""
    texts: list[GeneratedText] = []
    started = False
    for piece in model.engine.stream(prompts, options):
        if not started:
            sys.stdout.write((BETWEEN if texts else "") + printable(prompts[len(texts) // options.n]))
        if started := isinstance(piece, str):
            sys.stdout.write(printable(piece))
            sys.stdout.flush()
        else:
            texts.append(piece)
    sys.stdout.write("\n")
    return texts


def printable(text: str) -> str:
    """On a terminal, without characters that would move its cursor or change its colours."""
    if not sys.stdout.isatty():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def report_ends(texts: Sequence[GeneratedText], options: GenerationOptions, model: Model, screen: Screen) -> None:
    """Report texts that are shorter than requested, or did not reach a stop string."""
    sys.stdout.flush()
    cut = [text for text in texts if text.ended == CONTEXT]
    if cut:
        screen.say(
            tr(
                "! The context of this model is {max_length:,} tokens, including the prompt: {texts} after "
                "{lowest:,} of {tokens:,} tokens.",
                max_length=model.engine.max_length,
                texts=ended(cut, texts),
                lowest=min(text.tokens for text in cut),
                tokens=options.tokens,
            )
        )
    endless = [text for text in texts if text.ended in (LENGTH, CONTEXT)]
    if options.stop and endless:
        advice = tr("Shorten the prompt") if len(cut) == len(endless) else tr("Allow more with --tokens")
        raise SettingError(
            tr(
                "No stop string was generated: {texts} after {highest:,} tokens.\n"
                "{advice}, or use another --stop; the generated text is printed.",
                texts=ended(endless, texts),
                highest=max(text.tokens for text in endless),
                advice=advice,
            )
        )


def ended(some: Sequence[GeneratedText], texts: Sequence[GeneratedText]) -> str:
    return (
        tr("the text ends")
        if len(texts) == 1
        else tr("{count} of {total} texts end", count=len(some), total=len(texts))
    )


def score_file(
    model: Model, source: str, out: Path | None, screen: Screen, *, as_json: bool, columns: Columns = Columns()
) -> None:
    """The rows of a file with their log-probability and perplexity."""
    check_out(out, source, tr("scores"))
    search = search_of(model, columns)
    table = input_table(source, search, screen.say)
    rows = plain_rows(table, search, screen.say)
    with_text(rows, table, tr("left without a score"), screen)
    texts = texts_of(rows)
    causal = model.architecture.generates != "no"
    found, cut = (log_probabilities(model, texts), 0) if causal else pseudo_log_likelihoods(model, texts)
    tokens, total = sum(count for count, _ in found), math.fsum(log for _, log in found)
    if not tokens:
        raise InputError(tr("{file} has no text to score.", file=table.path))
    prefix = "" if causal else "pseudo_"
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
    measure = tr("perplexity") if causal else tr("pseudo-perplexity (each token masked in turn)")
    report_unread(Unread(cut=cut, texts=len(texts), length=model.max_length), screen)
    screen.say(
        tr(
            "{texts:,} texts, {tokens:,} tokens, {measure} {value:,.2f}.",
            texts=len(texts),
            tokens=tokens,
            measure=measure,
            value=math.exp(-total / tokens),
        )
    )


def texts_of(rows: Sequence[Row]) -> list[str]:
    """One text per row, the two texts of a pair joined; empty if a text is missing."""
    return ["" if row.blank else " ".join(filter(None, (row.text, row.other))) for row in rows]


def log_probabilities(model: Model, texts: Sequence[str]) -> list[tuple[int, float]]:
    return [(len(logs), float(np.sum(logs))) for logs in text_log_probabilities(model.engine, texts)]


def pseudo_log_likelihoods(model: Model, texts: Sequence[str]) -> tuple[list[tuple[int, float]], int]:
    """The number of tokens and the score of each text; and how many texts were truncated."""
    found: list[tuple[int, float]] = []
    cut = 0
    for text in texts:
        if not text.strip():
            found.append((0, 0.0))
            continue
        score, was_cut = pseudo_score(model, text)
        found.append((score.tokens, score.pseudo_log_probability))
        cut += was_cut
    return found, cut
