"""What a command says while it works: to stderr, so that stdout stays clean."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from plmkit.training.loop import Report

NAMES = {"masked_lm": "masked", "next_sentence": "next"}


class Screen:
    """Messages and progress bars."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def bar(self, transient: bool = False) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=4,
            transient=transient,
        )

    @contextmanager
    def reading(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar over bytes, with MB/s; the function it gives takes how many more are done."""
        with self.bar() as progress:
            task = progress.add_task(what, total=total, status="")

            def advance(count: int) -> None:
                progress.advance(task, count)
                speed = progress.tasks[0].speed
                if speed:
                    progress.update(task, status=f"{speed / 1e6:.1f} MB/s")

            yield advance
            progress.update(task, completed=total)

    @contextmanager
    def training(
        self, name: str = "training"
    ) -> Iterator[Callable[[Report, dict[str, float], float, dict[str, float]], None]]:
        """A bar over the budget, with losses and speed; plain lines where there is no terminal."""
        shown = [0]
        with self.bar() as progress:
            task = progress.add_task(name, total=1.0, status="")

            def update(report: Report, losses: dict[str, float], speed: float, scores: dict[str, float]) -> None:
                status = f"step {report.state.step:,}  {brief(losses)}  {speed:,.0f} tokens/s"
                if scores:
                    held = {name.removeprefix("valid/"): value for name, value in scores.items()}
                    status += f"  held out: {brief(held)}"
                progress.update(task, completed=report.progress, status=status)
                tenth = int(report.progress * 10)
                if not self.console.is_terminal and tenth > shown[0]:
                    shown[0] = tenth
                    self.say(f"{report.progress:4.0%}  {status}")

            yield update


def brief(losses: dict[str, float]) -> str:
    return " ".join(f"{NAMES.get(name, name)} {loss:.3f}" for name, loss in losses.items())
