"""What the user should hear about how files are read, one sentence for all files of a kind."""

from collections.abc import Sequence

from plmkit.data.reading.files import File
from plmkit.errors import printable

ONE_AND_MANY = {  # what is said of one file, and of several
    "blank-lines": ("", ""),  # as documented, so nothing needs saying
    "document-per-line": (
        "{} has no blank lines: each line is taken as one document.",
        "{} have no blank lines: each line is taken as one document.",
    ),
    "document-per-file": (
        "{} has no blank lines, and its lines are short: the whole file is taken as one document.",
        "{} have no blank lines, and their lines are short: each file is taken as one document.",
    ),
    "unknown": (
        "{} is of no known type: read as plain text.",
        "{} are of no known type: read as plain text.",
    ),
    "skipped": (
        "{} was skipped: hidden, or of no known type.",
        "{} were skipped: hidden, or of no known type.",
    ),
    "model": ("{} holds a model: skipped.", "{} hold models: skipped."),
    "empty": ("{} has no text: skipped.", "{} have no text: skipped."),
    "twice": ("{} was given more than once: read once.", "{} were given more than once: read once."),
    "semicolon": ("{} is separated by semicolons.", "{} are separated by semicolons."),
    "tab": ("{} is separated by tabs.", "{} are separated by tabs."),
}


class Remarks:
    """Remarks gathered file by file."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}

    def add(self, kind: str, file: File) -> None:
        """Remember that a remark holds for a file; `column NAME` is a kind, too, and may go on with advice."""
        self.files.setdefault(kind, []).append(printable(file.path.name))

    def notes(self) -> tuple[str, ...]:
        """The remarks as sentences."""
        return tuple(note for kind, names in self.files.items() if (note := _say(kind, names)))


def _say(kind: str, names: Sequence[str]) -> str:
    if kind.startswith("column "):
        column, _, others = kind.removeprefix("column ").partition("\n")
        advice = f" To read another: {others}." if others else ""
        return f"The text of {name_some(names)} is read from column {column.replace('+', ' and ')}.{advice}"
    one, many = ONE_AND_MANY[kind]
    return (one if len(names) == 1 else many).format(name_some(names))


def name_some(names: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and 7 more`."""
    if len(names) > 3:
        return f"{names[0]}, {names[1]} and {len(names) - 2:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
