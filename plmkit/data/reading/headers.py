"""Whether the first row of a table names its columns, and what the columns hold where it does not."""

import re
from collections.abc import Collection, Sequence
from itertools import zip_longest

from plmkit.data.reading.cells import is_blank, number_of

LONG = 40  # characters; names of columns are shorter
SENTENCE = re.compile(r"[。，！？；]|[.!?]$|[,;] ")


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
