"""Cells of a table: text, numbers, missing values; whether the first row is a header; places as messages show them."""

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from plmkit.errors import InputError
from plmkit.language import comma, tr

UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})  # white space, control characters, zero-width marks
MOST_DIGITS = 18  # of a count; Python itself refuses to parse some thousands
LONG = 40  # characters; names of columns are shorter
SENTENCE = re.compile(r"[。，！？；]|[.!?]$|[,;] ")


def is_blank(text: str) -> bool:
    """Whether nothing in it is visible."""
    return not text.strip() or all(unicodedata.category(letter) in UNSEEN for letter in text)


def is_missing(value: object) -> bool:
    """A missing value of JSON or Parquet."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def folded(name: str) -> str:
    """A name or a label without differences of case, width and white space."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def number_of(text: str) -> float | None:
    """A finite number, or None."""
    try:
        number = float("_" if "_" in text else text)  # Python reads 1_0 as ten
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def count_of(text: str) -> int | None:
    """A whole number from 0 on, written in digits, or None."""
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def found(columns: Sequence[str]) -> str:
    """A sentence that lists the columns, shortened where needed."""
    return tr("Columns found: {listed}.", listed=listed(columns).removesuffix("."))


def listed(names: Sequence[str]) -> str:
    """Up to ten names on one line."""
    more = tr(" and {count} more", count=len(names) - 10) if len(names) > 10 else ""
    return (comma().join(short(name) for name in names[:10]) or tr("none")) + more


def short(name: str) -> str:
    """A name on one line; a file without a header shows whole texts as names."""
    line = " ".join(name.split())
    return line if len(line) <= 40 else line[:39] + "…"


def text_of(value: Any, where: str, column: str) -> str:
    """A cell that must be text; a missing value is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(
            tr(
                "{where}: column '{column}' contains {type}, not text.",
                where=where,
                column=column,
                type=type(value).__name__,
            )
        )
    return value


def where(path: str | Path, line: int) -> str:
    """The place of a row, as messages show it."""
    if is_parquet(path):
        return tr("{path}, row {line}", path=path, line=line)
    return tr("{path}, line {line}", path=path, line=line)


def stored_place(path: str | Path, line: int) -> str:
    """The same in English, to be stored."""
    return f"{path}, {'row' if is_parquet(path) else 'line'} {line}"


def shown_place(stored: str) -> str:
    """A stored place in the reader's language."""
    path, _, place = stored.rpartition(", ")
    return where(path, int(place.split()[1]))


def is_parquet(path: str | Path) -> bool:
    return str(path).lower().endswith(".parquet")


def numbered(width: int) -> tuple[str, ...]:
    """The names of columns in a table without a header."""
    return tuple(str(number) for number in range(1, width + 1))


def is_data(first: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Whether a first row looks like the others: it has sentences, numbers, or a value that is repeated below."""
    if tuple(first) in (numbered(len(first)), tuple(map(str, range(len(first))))):
        return False  # a program has numbered the columns
    if any(len(cell) > LONG or SENTENCE.search(cell) or number_of(cell) is not None for cell in first):
        return True
    below = [set(column) for column in zip_longest(*rows)]
    return any(not is_blank(cell) and cell in column for cell, column in zip(first, below, strict=False))


def shaped(rows: Sequence[Sequence[object]], roles: Sequence[str], but: Collection[str] = ()) -> dict[str, str]:
    """The numbered columns that look like the roles: texts are the longest, of the rest labels vary least."""
    width = min((len(row) for row in rows), default=0)
    cells = {name: [str(row[place]) for row in rows] for place, name in enumerate(numbered(width)) if name not in but}
    texts = [role for role in roles if role != "label"]
    longest = sorted(cells, key=lambda name: -sum(map(len, cells[name])))[: len(texts)]
    chosen = dict(zip(texts, sorted(longest, key=int), strict=False))
    rest = [name for name in cells if name not in longest]
    if "label" in roles and rest:
        chosen["label"] = min(rest, key=lambda name: len(set(cells[name])))
    return chosen
