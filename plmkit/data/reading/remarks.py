"""Remarks for the user on how files are read, one sentence for all files of a kind."""

from collections.abc import Sequence
from dataclasses import dataclass

from plmkit.data.reading.files import File
from plmkit.errors import printable
from plmkit.language import comma, tr


@dataclass(frozen=True, kw_only=True)
class ReadColumn:
    """The remark that a column was chosen as the text, and the options that choose another."""

    column: str
    options: str


class Remarks:
    """Remarks collected file by file."""

    def __init__(self) -> None:
        self.files: dict[str | ReadColumn, list[str]] = {}

    def add(self, kind: str | ReadColumn, file: File) -> None:
        """Record that a remark applies to a file."""
        self.files.setdefault(kind, []).append(printable(file.path.name))

    def notes(self) -> tuple[str, ...]:
        """The remarks as sentences."""
        return tuple(note for kind, names in self.files.items() if (note := sentence(kind, names)))


def sentence(kind: str | ReadColumn, names: Sequence[str]) -> str:
    """What is remarked of these files; empty for blank lines, which are the documented layout."""
    files = name_some(names)
    if isinstance(kind, ReadColumn):
        column = kind.column.replace("+", tr(" and "))
        advice = tr(" To read another: {options}.", options=kind.options) if kind.options else ""
        return tr(
            "The text of {files} is read from column {column}.{advice}", files=files, column=column, advice=advice
        )
    one, several = of_one_and_of_several(kind, files)
    return one if len(names) == 1 else several


def of_one_and_of_several(kind: str, files: str) -> tuple[str, str]:
    return {
        "blank-lines": ("", ""),
        "document-per-line": (
            tr("{file} has no blank lines: each line is read as one document.", file=files),
            tr("{files} have no blank lines: each line is read as one document.", files=files),
        ),
        "document-per-file": (
            tr(
                "{file} has no blank lines, and its lines are short: the whole file is read as one document.",
                file=files,
            ),
            tr(
                "{files} have no blank lines, and their lines are short: each file is read as one document.",
                files=files,
            ),
        ),
        "unknown": (
            tr("{file} has an unknown type: read as plain text.", file=files),
            tr("{files} have an unknown type: read as plain text.", files=files),
        ),
        "skipped": (
            tr("{file} was skipped: hidden, or of an unknown type.", file=files),
            tr("{files} were skipped: hidden, or of an unknown type.", files=files),
        ),
        "model": (
            tr("{file} contains a model: skipped.", file=files),
            tr("{files} contain models: skipped.", files=files),
        ),
        "empty": (tr("{file} has no text: skipped.", file=files), tr("{files} have no text: skipped.", files=files)),
        "twice": (
            tr("{file} was given more than once: read once.", file=files),
            tr("{files} were given more than once: read once.", files=files),
        ),
        "semicolon": (
            tr("{file} is separated by semicolons.", file=files),
            tr("{files} are separated by semicolons.", files=files),
        ),
        "tab": (tr("{file} is separated by tabs.", file=files), tr("{files} are separated by tabs.", files=files)),
    }[kind]


def name_some(names: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and 7 more`."""
    if len(names) > 3:
        return tr("{first}, {second} and {count:,} more", first=names[0], second=names[1], count=len(names) - 2)
    return in_words(names)


def in_words(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return tr(" and ").join(filter(None, [comma().join(names[:-1]), names[-1]]))
