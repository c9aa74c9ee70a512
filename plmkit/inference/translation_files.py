"""Translations from the command line: of a text, of lines, or of a column of a table."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plmkit.data.reading.cells import is_missing
from plmkit.data.reading.columns import Columns, Search
from plmkit.data.reading.files import format_of
from plmkit.data.reading.pairs import choose_source, lacks_header
from plmkit.data.reading.tables import numbered_lines
from plmkit.data.reading.whole import Table, lines_table
from plmkit.data.writing import TABLES, Sheet, check_out, free
from plmkit.errors import SettingError
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import LENGTH
from plmkit.inference.model import Model
from plmkit.inference.translating import Translation
from plmkit.language import several, tr
from plmkit.storage.files import write_text
from plmkit.tasks.contract import Row
from plmkit.tasks.tables import input_table, is_file
from plmkit.tasks.use import MANY, report_unread, with_text
from plmkit.terminal.screen import Screen

OUT = (".txt", *TABLES)


def translate_file(
    model: Model, given: str, out: Path | None, options: GenerationOptions, screen: Screen, *, as_json: bool,
    column: str | None = None, header: bool = True,
) -> list[list[Translation]]:  # fmt: skip
    """Translate every row; lines become lines, and a table gets new columns."""
    translator = model.translator
    check_out(out, given, tr("translations"), OUT)
    table = source_table(given, column, header, screen)
    texts = texts_of(table, column)
    rows = [Row(text=text, line=line) for text, line in zip(texts, table.lines, strict=True)]
    translated = with_text(rows, table, tr("which get no translation"), screen)
    found, unread = translator.translate(texts, options, screen if len(rows) > MANY else None)
    report_unread(unread, screen)
    report_long(found, screen)
    if out:
        write(out, table, found)
        written = sum(len(found[number]) for number in translated)
        screen.say(tr("{translations} written to {out}.", translations=several(written, "translation"), out=out))
    if as_json:
        flat = [{**vars(one), "rank": rank} for best in found for rank, one in enumerate(best, start=1)]
        print(json.dumps({"translations": flat}, ensure_ascii=False))
    elif not out:
        sys.stdout.write(lines_of(found) if table.plain else sheet_of(table, found).text(".tsv"))
    return found


def source_table(given: str, column: str | None, header: bool, screen: Screen) -> Table:
    """The rows of a file, of stdin or of one text; a table of pairs without a header is read without one."""
    path = Path(given)
    if is_file(given) and path.is_file() and format_of(path)[0] in (None, "txt"):  # test.en, test.de, test.txt
        if not header:
            raise SettingError(tr("--no-header is for .csv and .tsv; {path} needs no header. Leave it out.", path=path))
        return lines_table(path, [line for _, line in numbered_lines(given, format_of(path)[1])])
    table = input_table(given, Search(named=Columns(header=header)), screen.say)
    if table.dialect and header and column is None and lacks_header(table.heading):
        screen.say(tr("{file} has no header row: its first column is the source.", file=table.path))
        return input_table(given, Search(named=Columns(header=False)), screen.say)
    return table


def texts_of(table: Table, column: str | None) -> list[str]:
    if table.plain and column is not None:
        raise SettingError(
            tr(
                "{path}: plain text has no columns, so {option} would have no effect. Leave it out.",
                option="--source",
                path=table.path,
            )
        )
    place = 0 if table.plain else table.columns.index(choose_source(table.heading, column))
    return ["" if is_missing(row[place]) else str(row[place]) for row in table.rows]


def report_long(found: Sequence[Sequence[Translation]], screen: Screen) -> None:
    long = sum(best[0].ended == LENGTH for best in found)
    if long:
        screen.say(
            tr(
                "! {long:,} of {texts:,} translations reached the maximum length without an end: the model may need "
                "more training.",
                long=long,
                texts=len(found),
            )
        )


def write(out: Path, table: Table, found: Sequence[Sequence[Translation]]) -> None:
    if out.suffix == ".txt":
        write_text(out, lines_of(found))
    else:
        sheet_of(table, found).write(out)


def lines_of(found: Sequence[Sequence[Translation]]) -> str:
    """A line per translation; of several per text, with the score before each."""
    lines = [
        one.text if len(best) == 1 else f"{'' if one.score is None else f'{one.score:.4f}'}\t{one.text}"
        for best in found
        for one in best
    ]
    return "".join(f"{line}\n" for line in lines)


def sheet_of(table: Table, found: Sequence[Sequence[Translation]]) -> Sheet:
    """The rows with their translations, each row as often as it has some."""
    several_each = any(len(best) > 1 for best in found)
    names = ["rank"] * several_each + ["translation", "score"]
    rows: list[list[Any]] = []
    for row, best in zip(table.rows, found, strict=True):
        for rank, one in enumerate(best, start=1):
            score = None if one.score is None else round(one.score, 6)
            rows.append([*row, *[rank] * several_each, one.text, score])
    return Sheet(columns=[*table.columns, *(free(name, table.columns) for name in names)], rows=rows)
