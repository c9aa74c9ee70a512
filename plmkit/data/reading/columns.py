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
    shown = [column if len(column) <= 30 else column[:30] + "…" for column in columns[:12]]
    return f"Columns found: {', '.join(shown) or 'none'}{', …' if len(columns) > 12 else ''}."


def text_of(value: Any, where: str, column: str) -> str:
    """A cell that must be text; a missing value is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: column '{column}' holds {type(value).__name__}, not text.")
    return value
