"""A curve in the terminal, drawn with the dots of Braille letters: two columns and four rows in each character."""

from collections.abc import Sequence

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from the top, then by column
BLANK = 0x2800


def curve(points: Sequence[tuple[float, float]], width: int = 56, height: int = 8) -> list[str]:
    """The points as lines of text, the highest and the lowest value named at the left."""
    if len(points) < 2:
        return []
    levels = columns(points, 2 * width)
    low, high = min(levels), max(levels)
    rows = [round((high - level) / (high - low or 1.0) * (4 * height - 1)) for level in levels]
    cells = [[BLANK] * width for _ in range(height)]
    for column, row in enumerate(rows):
        before = rows[column - 1] if column else row
        down = 1 if row > before else -1
        for dot in {row, *range(before + down, row, down)}:  # a steep piece is drawn without gaps
            cells[dot // 4][column // 2] |= DOTS[dot % 4][column % 2]
    lines = ["".join(map(chr, line)).rstrip(chr(BLANK)) for line in cells]
    named = {0: f"{high:.2f}", height - 1: f"{low:.2f}"}
    return [f"{named.get(number, ''):>7} ┤{line}" for number, line in enumerate(lines)]


def columns(points: Sequence[tuple[float, float]], count: int) -> list[float]:
    """The mean value in each of `count` equal parts of the way; a part without a point has the value before it."""
    first, last = points[0][0], points[-1][0]
    parts: list[list[float]] = [[] for _ in range(count)]
    for place, value in points:
        share = (place - first) / (last - first) if last > first else 0.0
        parts[min(count - 1, int(share * count))].append(value)
    levels: list[float] = []
    for part in parts:
        levels.append(sum(part) / len(part) if part else levels[-1])
    return levels
