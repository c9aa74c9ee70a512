"""Messages, progress and charts of a running command: on stderr, so that stdout has results only."""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from plmkit.language import tr
from plmkit.terminal.labels import label

if TYPE_CHECKING:
    from plmkit.training.loop import Report

REPORT_BYTES = 1_000_000  # a smaller corpus is read too fast to report


Update = Callable[..., None]  # takes a report, losses, speed, scores, and the place in the epochs
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from the top, then by column
BLANK = 0x2800


class Screen:
    """Messages and progress bars; a quiet one shows warnings, which start with `!`, and nothing else."""

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.console = console or Console(stderr=True)
        self.quiet = quiet

    @classmethod
    def silent(cls) -> "Screen":
        """For a process that leaves the screen to another one."""
        return cls(Console(file=io.StringIO()), quiet=True)

    def say(self, text: str) -> None:
        if self.quiet and not text.startswith("!"):
            return
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def bar(self) -> Progress:
        """One line: name, bar, share, status, time left; not shown without a terminal."""
        return Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
            console=self.console,
            refresh_per_second=4,
            redirect_stdout=False,  # results go to stdout while the bar is shown on stderr
            disable=self.quiet or not self.console.is_terminal,
        )

    @contextmanager
    def reading(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar over bytes, with MB/s; the function it yields takes the number of bytes done since the last call."""
        start = time.perf_counter()
        with self.bar() as progress:
            task = progress.add_task(what, total=total, status="", left="")

            def advance(count: int) -> None:
                progress.advance(task, count)
                done, seconds = progress.tasks[0].completed, time.perf_counter() - start
                left = time_left(seconds, done / total) if total else ""
                progress.update(task, status=f"{done / 1e6 / max(1e-9, seconds):.1f} MB/s", left=left)

            yield advance
            progress.update(task, completed=total)
        if not self.console.is_terminal and total > REPORT_BYTES:
            seconds = time.perf_counter() - start
            size = total / 1e6
            self.say(f"{what}: {size:,.1f} MB ({seconds:,.1f} s, {size / seconds:.1f} MB/s)")

    @contextmanager
    def counting(self, what: str, total: int, unit: str = "") -> Iterator[Callable[[float], None]]:
        """A bar over rows; the function it yields takes the number of rows done since the last call.

        With a unit, such as `rows`, their number per second is shown.
        """
        start = time.perf_counter()
        with self.bar() as progress:
            task = progress.add_task(what, total=total, status="", left="")

            def advance(count: float) -> None:
                progress.advance(task, count)
                done, seconds = progress.tasks[0].completed, time.perf_counter() - start
                status = f"{done / max(1e-9, seconds):,.0f} {unit}/s" if unit else ""
                progress.update(task, status=status, left=time_left(seconds, done / total) if total else "")

            yield advance

    @contextmanager
    def training(self, name: str | None = None, after: int = 0) -> Iterator[Update]:
        """A bar over the budget, with losses, speed and time left; without a terminal, ten lines.

        `after` is the number of trainings of the same length that follow this one.
        """
        shown = 0
        with self.bar() as progress:
            task = progress.add_task(name or tr("training"), total=1.0, status="", left="")

            def update(
                report: "Report", losses: dict[str, float], speed: float, scores: dict[str, float], where: str = ""
            ) -> None:
                nonlocal shown
                status = tr("{losses} {speed:,.0f} tokens/s", losses=brief(losses), speed=speed)
                if scores:
                    status += tr(" held-out {loss:.3f}", loss=next(iter(scores.values())))
                left = time_left(report.state.seconds - report.state.before, report.progress, after)
                progress.update(task, completed=report.progress, status=status, left=left)
                tenth = int(report.progress * 10)
                if not self.console.is_terminal and tenth > shown:
                    shown = tenth
                    step = tr("step {step:,}", step=report.state.step)
                    places = tr(", ").join(filter(None, [where, step]))
                    self.say(f"{report.progress:4.0%} {places} {status}{tr(', ')}{left}")

            yield update


def brief(losses: dict[str, float]) -> str:
    return " ".join(f"{label(name)} {loss:.3f}" for name, loss in losses.items())


def time_left(seconds: float, share: float, after: int = 0) -> str:
    """`2:05 left`: this share took `seconds`, and `after` more trainings of this length follow."""
    if share <= 0:
        return ""
    left = round(seconds * ((1 - min(1.0, share) + after) / share))
    hours, minutes = divmod(left // 60, 60)
    clock = f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"
    return tr("{time} left", time=clock)


def duration(seconds: float) -> str:
    """`2.5 seconds`, `40 seconds`, `1.5 minutes`."""
    if seconds < 60:
        return tr("{seconds} seconds", seconds=f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}")
    return tr("{minutes:.1f} minutes", minutes=seconds / 60)


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
