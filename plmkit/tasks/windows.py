"""Long texts in overlapping windows, each of whose units is answered where it has the most context."""

import numpy as np

LENGTH_BONUS = 0.01  # per token: of two windows with as much context, the longer one (google-research/bert, run_squad)


def windows_of(starts: np.ndarray, total: int, room: int) -> list[tuple[int, int]]:
    """The first unit and the one after the last of each window of at most `room` tokens, which overlap by half.

    Unit i begins at token `starts[i]`, and none is longer than half the room.
    """
    if total <= room:
        return [(0, len(starts))]
    ends = np.append(starts[1:], total)
    found: list[tuple[int, int]] = []
    first = 0
    while True:
        stop = int(np.searchsorted(ends, starts[first] + room, side="right"))
        found.append((first, stop))
        if stop == len(starts):
            return found
        following = min(starts[first] + room // 2, total - room)  # the last window is a full one
        first = min(max(first + 1, int(np.searchsorted(starts, following))), stop)


def windows_needed(total: int, room: int) -> int:
    """The fewest windows of `room` tokens that overlap by about half and together hold all of a text."""
    return 1 if total <= room else 1 - (room - total) // max(1, room // 2)


def spread(total: int, room: int, windows: int) -> list[tuple[int, int]]:
    """The first token of each window and the one after its last, at even distances from the beginning to the end."""
    firsts = np.linspace(0, max(0, total - room), windows).round().astype(int).tolist()
    return [(first, min(first + room, total)) for first in firsts]


def context(places: np.ndarray, start: int, end: int) -> np.ndarray:
    """How much a window from token `start` to before `end` shows on both sides of each place."""
    seen: np.ndarray = np.minimum(places - start, end - 1 - places) + LENGTH_BONUS * (end - start)
    return seen
