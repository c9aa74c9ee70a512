"""Checks of arguments from Python: a mistake gets a message that says what was expected."""

import os
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from plmkit.errors import InputError, SettingError
from plmkit.language import comma, tr


def one_text(value: Any, verb: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(tr("{verb} takes one text (str); found {kind}.", verb=verb, kind=kind_of(value)))
    return value


def text_or_pair(row: Any, number: int) -> tuple[str, str | None]:
    """A text, a pair, or a row of a table with `text` or `text_a` and `text_b`."""
    if isinstance(row, str):
        return row, None
    if isinstance(row, Mapping):
        first, second = row.get("text", row.get("text_a")), row.get("text_b")
        if not isinstance(first, str) or not isinstance(second, str | None):
            raise InputError(
                tr("A row needs `text`, or `text_a` and `text_b`; found {row}.", row=comma().join(map(str, row)))
            )
        return first, second
    if isinstance(row, tuple | list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str | None):
        return row[0], row[1]
    raise InputError(
        tr(
            "Row {number} is {kind}. A row is a text, a pair of texts, or a dict with `text`.",
            number=number,
            kind=kind_of(row),
        )
    )


def count(value: Any, name: str) -> int:
    """A whole number, 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = value if isinstance(value, int | float) and not isinstance(value, bool) else kind_of(value)
        raise SettingError(tr("{name} must be a whole number, 1 or more; found {value}.", name=name, value=found))
    return value


def number(value: Any, name: str, *, whole: bool = False) -> Any:
    """A number; a whole one where parts make no sense."""
    if isinstance(value, bool) or not isinstance(value, Real) or (whole and not float(value).is_integer()):
        raise InputError(
            tr("{name} must be a whole number; found {kind}.", name=name, kind=kind_of(value))
            if whole
            else tr("{name} must be a number; found {kind}.", name=name, kind=kind_of(value))
        )
    return int(float(value)) if whole else value


def folder(value: Any) -> Path:
    """A path, given as str or as Path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(
            tr(
                'A model is loaded from a folder, as in plmkit.load("runs/mine"); found {kind}.',
                kind=kind_of(value),
            )
        )
    return Path(os.fsdecode(value))


def kind_of(value: Any) -> str:
    """`None`, `a float (0.5)`, `a tuple of 3`."""
    if value is None:
        return "None"
    name = type(value).__name__
    kind = tr("an {name}", name=name) if name[0] in "aeiou" else tr("a {name}", name=name)
    if isinstance(value, tuple | list | dict | set):
        return tr("{kind} of {count}", kind=kind, count=len(value))
    return f"{kind} ({value})" if isinstance(value, bool | int | float) else kind
