"""What `plm evaluate` prints of a fine-tuned model: scores with intervals first, then the report behind them."""

from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len, set_cell_size
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from plmkit.cli.show import console
from plmkit.data.reading.cells import where
from plmkit.language import tr
from plmkit.tasks.label_lists import thresholds_line
from plmkit.tasks.report.calibration import Agreement, Calibration
from plmkit.tasks.report.report import ClassScore, Confused, Mistake, Mistakes, Report
from plmkit.terminal.labels import label

GRID = 15  # classes whose confusion matrix is printed; of more, the most frequent confusions are
LISTED = 40  # classes that are printed one by one; of more, the weakest are
SHOWN = 10  # mistakes, and confusions
WIDTH = 100  # cells that tables and texts may take
NAME = 24  # cells of the name of a class


def title(task: str, kind: str, *, first: bool) -> None:
    """Above the report of one of several tasks."""
    console.print(Text(("" if first else "\n") + tr("Task {task} ({kind})", task=task, kind=kind), style="bold"))


def report(found: Report, file: Path) -> None:
    headline(found)
    class_scores(found.per_class, found.means, tr("By slot") if found.per_intent else tr("By class"))
    class_scores(found.per_intent, found.intent_means, tr("By intent"))
    if found.thresholds:
        console.print(Text("\n" + thresholds_line(found.thresholds)))
    if "confusion" in found.scores and len(found.scores["classes"]) <= GRID:
        confusion(found.scores["classes"], found.scores["confusion"])
    else:
        confused(found.confused)
    if found.calibration:
        console.print(Text("\n" + calibrated(found.calibration, intent=bool(found.per_intent))))
    agreement(found.agreement)
    mistakes(found.mistakes, file)


def headline(found: Report) -> None:
    table = Table(box=None, show_header=False)
    for name, value in found.scores.items():
        if isinstance(value, float):
            interval = found.intervals.get(name)
            span = tr("95% interval {low:.4f} to {high:.4f}", low=interval.low, high=interval.high) if interval else ""
            table.add_row(label(name), f"{value:.4f}", Text(span, style="dim"))
        elif isinstance(value, int):
            table.add_row(label(name), f"{value:,}")
    console.print(table)


def class_scores(rows: Sequence[ClassScore], means: Sequence[ClassScore], heading: str) -> None:
    if not rows:
        return
    shown = rows
    if len(rows) > LISTED:
        shown = sorted(rows, key=lambda one: one.f1)[: LISTED // 2]
        lowest = tr("{count} of {all}, those with the lowest F1", count=len(shown), all=len(rows))
        title = tr("{heading}: {lowest}", heading=heading, lowest=lowest)
    else:
        title = heading
    table = Table(
        tr("class"), *map(label, ("precision", "recall", "f1", "support")), box=None, title=f"\n{title}",
        title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    for one in shown:
        table.add_row(Text(named(one.name)), *numbers(one))
    for one in means:
        table.add_row(label(one.name), *numbers(one), style="dim")
    console.print(table)


def numbers(one: ClassScore) -> list[str]:
    return [f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.support:,}"]


def confusion(names: Sequence[str], matrix: Sequence[Sequence[int]]) -> None:
    """Rows are labels, columns predictions; columns have the numbers of the classes where names would be too wide."""
    wide = sum(max(cell_len(name), 5) + 2 for name in names) + max(map(cell_len, names)) > WIDTH
    heads = [str(number) for number, _ in enumerate(names, start=1)] if wide else list(names)
    table = Table(
        escape(tr("true \\ predicted")), *map(escape, heads), box=None, title="\n" + tr("Confusion matrix"),
        title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in table.columns[1:]:
        column.justify = "right"
    for number, (name, row) in enumerate(zip(names, matrix, strict=True)):
        cells = [
            Text(f"{count:,}" if count else "·", style=shade(place, number, count)) for place, count in enumerate(row)
        ]
        table.add_row(Text(f"{number + 1} ").append(named(name)) if wide else Text(name), *cells)
    console.print(table)


def shade(place: int, number: int, count: int) -> str:
    if place == number:
        return "bold"
    return "yellow" if count else "dim"


def confused(found: Sequence[Confused]) -> None:
    if not found:
        return
    table = Table(
        tr("true class"), tr("predicted as"), label("rows"), tr("share of its class"), box=None,
        title="\n" + tr("Most frequent confusions"), title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in table.columns[2:]:
        column.justify = "right"
    for one in found[:SHOWN]:
        table.add_row(*(Text(named(name)) for name in (one.label, one.prediction)), f"{one.rows:,}", f"{one.share:.1%}")
    console.print(table)


def calibrated(found: Calibration, *, intent: bool = False) -> str:
    if found.temperature is None:
        return tr(
            "{title}: expected calibration error {ece:.4f} ({bins} bins).",
            title=tr("Calibration of the intent") if intent else tr("Calibration"),
            ece=found.scaled.ece,
            bins=found.bins,
        )
    if found.unscaled is None:
        return tr(
            "Calibration: expected calibration error {ece:.4f} ({bins} bins); no temperature was fitted on dev.",
            ece=found.scaled.ece,
            bins=found.bins,
        )
    return tr(
        "Calibration: expected calibration error {before:.4f}, and {after:.4f} with the temperature {temperature:g} "
        "that was fitted on dev ({bins} bins). The probabilities of plm predict have it.",
        before=found.unscaled.ece,
        after=found.scaled.ece,
        temperature=found.temperature,
        bins=found.bins,
    )


def agreement(found: Sequence[Agreement]) -> None:
    if not found:
        return
    table = Table(
        tr("predictions"), tr("mean prediction"), tr("mean label"), label("rows"), box=None,
        title="\n" + tr("Labels by prediction, in tenths of the rows"), title_justify="left", title_style="bold",
    )  # fmt: skip
    for column in table.columns:
        column.justify = "right"
    for one in found:
        table.add_row(f"{one.low:.3g} – {one.high:.3g}", f"{one.prediction:.3g}", f"{one.label:.3g}", f"{one.rows:,}")
    console.print(table)


def mistakes(found: Mistakes, file: Path) -> None:
    shown = found.hardest[:SHOWN]
    if not shown:
        return
    title = (
        tr("The {count} largest errors", count=len(shown))
        if found.measure == "error"
        else tr("The {count} hardest of {all:,} mistakes", count=len(shown), all=found.count)
    )
    console.print(Text(f"\n{title}", style="bold"))
    for one in shown:
        console.print(
            Text(
                tr(
                    "{place}: predicted {prediction}, expected {label}",
                    place=place_of(one, file),
                    prediction=clipped(one.prediction or tr("(nothing)"), WIDTH),
                    label=clipped(one.label or tr("(nothing)"), WIDTH),
                )
            ).append(sized(one.size, found.measure), style="dim")
        )
        for text in filter(None, (one.text, one.other)):
            console.print(Text("    ").append(both_ends(text, WIDTH), style="dim"))


def place_of(one: Mistake, file: Path) -> str:
    """Its line; or its id or its number, where several rows are on one line."""
    if one.number is None:
        return where(file.name, one.line)
    if one.id:
        return tr("{path}, id {id}", path=file.name, id=one.id)
    return tr("{path}, row {number:,}", path=file.name, number=one.number)


def sized(size: float | None, measure: str) -> str:
    return "" if size is None else tr(" ({measure} {size:.3g})", measure=label(measure), size=size)


def named(name: str) -> str:
    """The name of a class; of a long one, both ends, since names often differ in the last one."""
    line = " ".join(name.split())
    return line if cell_len(line) <= NAME else f"{clipped(line, NAME - 9)}{line[-8:]}"


def both_ends(text: str, cells: int) -> str:
    """The beginning and the end of a text: the question about a context comes last."""
    line = " ".join(text.split())
    half = (cells - 3) // 2
    end = set_cell_size(line[::-1], half)[::-1].lstrip()
    return line if cell_len(line) <= cells else f"{clipped(line, half + 1)} {end}"


def clipped(text: str, cells: int) -> str:
    """One line of at most so many cells."""
    line = " ".join(text.split())
    return line if cell_len(line) <= cells else set_cell_size(line, cells - 1).rstrip() + "…"
