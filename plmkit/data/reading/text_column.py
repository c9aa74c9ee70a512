"""The column of a table that is text to pretrain on."""

from collections.abc import Sequence

from plmkit.data.reading.cells import folded, short
from plmkit.data.reading.columns import Heading
from plmkit.errors import InputError
from plmkit.language import tr

ROLES = ("text",)


def choose_column(heading: Heading, wanted: str | None) -> tuple[str, list[str]]:
    """The column to read, and other candidates; `a+b` stands for two columns."""
    if wanted is not None:
        chosen, others = [heading.exactly(part, "text", ROLES) for part in columns_of(wanted, heading.columns)], []
    else:
        chosen, *others = candidates(heading)
    if twice := [name for name in chosen if heading.columns.count(name) > 1]:
        raise InputError(
            tr(
                "{name} has two columns named '{column}'. {advice}",
                name=heading.name,
                column=short(twice[0]),
                advice=tr("Rename one."),
            )
        )
    return "+".join(chosen), ["+".join(other) for other in others]


def candidates(heading: Heading) -> list[list[str]]:
    """Columns that may be the text, best first: named `text`, both texts of a pair, of another usual name."""
    single = [[name] for name in heading.guesses(ROLES, but=())["text"]]
    pair = [heading.usual("text_a")[:1], heading.usual("text_b")[:1]]
    if all(pair) and not (single and folded(single[0][0]) == "text"):
        both = [name for names in pair for name in names]
        return [both, *(names for names in single if names[0] not in both)]
    if not single:
        raise heading.lacks("text", ROLES)
    return single


def columns_of(column: str, columns: Sequence[str]) -> list[str]:
    """The columns that a setting names: one, or several joined by `+`."""
    return [column] if column in columns else column.split("+")
