"""What recipes for a small machine say of themselves."""


def for_minutes(*changed: str) -> str:
    """The note of a recipe that leaves its paper in these points, and in no other."""
    *first, last = changed
    named = f"{', '.join(first)} and {last}"
    return f"{named[0].upper()}{named[1:]} are set for minutes on a small machine; all else is the paper's."
