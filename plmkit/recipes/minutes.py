"""The note of recipes for a small machine."""

FOR_MINUTES = "{changed} are set for runs of minutes on a small machine; all else is the paper's."


def for_minutes(*changed: str) -> str:
    """The note of a recipe that departs from its paper in these points only."""
    *first, last = changed
    named = " and ".join((", ".join(first), last))
    return FOR_MINUTES.format(changed=named[0].upper() + named[1:])
