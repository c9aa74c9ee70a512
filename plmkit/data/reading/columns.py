"""Which columns of a table hold its text."""

from collections.abc import Sequence
from typing import Any

from plmkit.errors import InputError, nearest

KNOWN = ("content", "sentence", "document", "body", "article", "passage", "paragraph", "context", "abstract")


def choose_column(columns: Sequence[str], wanted: str | None, name: str) -> str:
    """The wanted column, or the one that is called like text; `a+b` stands for two."""
    if wanted is None:
        if guess := _guess(columns):
            return guess
        raise InputError(
            f"{name} has no column 'text'. {found(columns)}\nName the one with the text: --set run.column=NAME."
        )
    for part in columns_of(wanted, columns):
        if part not in columns:
            raise InputError(
                f"{name} has no column '{part}'.{nearest(part, columns)} {found(columns)}\n"
                "Name one of them: --set run.column=NAME."
            )
    return wanted


def columns_of(column: str, columns: Sequence[str]) -> list[str]:
    """The columns that a setting names: one, or several joined by `+`."""
    return [column] if column in columns else column.split("+")


def _guess(columns: Sequence[str]) -> str | None:
    folded = {column.casefold(): column for column in reversed(columns)}
    if "text" in folded:
        return folded["text"]
    if "text_a" in folded:
        return "+".join(folded[name] for name in ("text_a", "text_b") if name in folded)
    candidates = [folded[name] for name in KNOWN if name in folded]
    return candidates[0] if len(candidates) == 1 else None


def found(columns: Sequence[str]) -> str:
    """A sentence that lists the columns, shortened where needed."""
    return f"Columns found: {listed(columns)}."


def listed(names: Sequence[str]) -> str:
    """Up to ten names on one line."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(short(name) for name in names[:10]) or "none") + more


def short(name: str) -> str:
    """A name on one line; a file without a header shows whole texts as names."""
    line = " ".join(name.split())
    return line if len(line) <= 40 else line[:39] + "…"


def text_of(value: Any, where: str, column: str) -> str:
    """A cell that must be text; a missing value is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: column '{column}' holds {type(value).__name__}, not text.")
    return value
