"""What the user should hear about how files are read, one sentence for all files of a kind."""

from collections.abc import Sequence

from plmkit.data.reading.files import File
from plmkit.errors import printable
from plmkit.language import tr

ONE_AND_MANY = {  # what is said of one file, and of several
    "blank-lines": ("", ""),  # as documented, so nothing needs saying
    "document-per-line": (
        tr("{{}} has no blank lines: each line is taken as one document."),
        tr("{{}} have no blank lines: each line is taken as one document."),
    ),
    "document-per-file": (
        tr("{{}} has no blank lines, and its lines are short: the whole file is taken as one document."),
        tr("{{}} have no blank lines, and their lines are short: each file is taken as one document."),
    ),
    "unknown": (
        tr("{{}} is of no known type: read as plain text."),
        tr("{{}} are of no known type: read as plain text."),
    ),
    "skipped": (
        tr("{{}} was skipped: hidden, or of no known type."),
        tr("{{}} were skipped: hidden, or of no known type."),
    ),
    "model": (tr("{{}} holds a model: skipped."), tr("{{}} hold models: skipped.")),
    "empty": (tr("{{}} has no text: skipped."), tr("{{}} have no text: skipped.")),
    "twice": (tr("{{}} was given more than once: read once."), tr("{{}} were given more than once: read once.")),
    "semicolon": (tr("{{}} is separated by semicolons."), tr("{{}} are separated by semicolons.")),
    "tab": (tr("{{}} is separated by tabs."), tr("{{}} are separated by tabs.")),
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
        advice = tr(" To read another: {others}.", others=others) if others else ""
        return tr(
            "The text of {name_some} is read from column {column}.{advice}",
            name_some=name_some(names),
            column=column.replace("+", " and "),
            advice=advice,
        )
    one, many = ONE_AND_MANY[kind]
    return (one if len(names) == 1 else many).format(name_some(names))


def name_some(names: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and 7 more`."""
    if len(names) > 3:
        return tr(
            "{names}, {names_2} and {names_count:,} more", names=names[0], names_2=names[1], names_count=len(names) - 2
        )
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
