"""What callers from Python hand over, looked at before it is used: a mistake gets a sentence, not a traceback."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plmkit.errors import InputError, SettingError
from plmkit.language import tr


def one_text(value: Any, verb: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(tr("{verb} takes one text, a str; found {kind_of}.", verb=verb, kind_of=kind_of(value)))
    return value


def text_or_pair(row: Any, number: int) -> tuple[str, str | None]:
    """A text, a pair, or a row of a table with `text` or `text_a` and `text_b`."""
    if isinstance(row, str):
        return row, None
    if isinstance(row, Mapping):
        first, second = row.get("text", row.get("text_a")), row.get("text_b")
        if not isinstance(first, str) or not isinstance(second, str | None):
            raise InputError(
                tr("A row needs `text`, or `text_a` and `text_b`; found {row}.", row=", ".join(map(str, row)))
            )
        return first, second
    if isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str | None):
        return row[0], row[1]
    raise InputError(
        tr(
            "Row {number} is {kind_of}. A row is a text, a pair of texts, or a dict with `text`.",
            number=number,
            kind_of=kind_of(row),
        )
    )


def count(value: Any, name: str, what: str) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = value if isinstance(value, int | float) and not isinstance(value, bool) else kind_of(value)
        raise SettingError(tr("{name} is {what}, 1 or more; found {found}.", name=name, what=what, found=found))
    return value


def folder(value: Any) -> Path:
    """A path, as text or as a Path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(
            tr(
                'A model is loaded from a folder, such as plmkit.load("runs/mine"); found {kind_of}.',
                kind_of=kind_of(value),
            )
        )
    return Path(os.fsdecode(value))


def kind_of(value: Any) -> str:
    """`None`, `a float (0.5)`, `a tuple of 3`."""
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[0] in "aeiou" else "a"
    if isinstance(value, tuple | list | dict | set):
        return tr("{article} {name} of {value_count}", article=article, name=name, value_count=len(value))
    return f"{article} {name} ({value})" if isinstance(value, bool | int | float) else f"{article} {name}"
