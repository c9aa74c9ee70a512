"""What recipes for a small machine say of themselves."""

from plmkit.language import tr


def for_minutes(*changed: str) -> str:
    """The note of a recipe that leaves its paper in these points, and in no other."""
    *first, last = changed
    named = tr("{first} and {last}", first=", ".join(first), last=last)
    return tr(
        "{upper}{named} are set for minutes on a small machine; all else is the paper's.",
        upper=named[0].upper(),
        named=named[1:],
    )
