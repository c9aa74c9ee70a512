"""What fine-tuning on several tasks at once is worth, printed."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from plmkit.compare.task_ways import mean_of_tasks
from plmkit.compare.ways import way_titles
from plmkit.language import tr
from plmkit.tasks.scores import summary_of
from plmkit.terminal.labels import label

console = Console(highlight=False)


def comparison(compared: Sequence[dict[str, Any]]) -> None:
    """For every task and way to train it: the score, its difference from the first way, and the gap."""
    table = Table(tr("task"), tr("trained"), tr("score"), tr("difference"), tr("train − dev"), box=None)
    for column in table.columns:
        column.no_wrap = True
    for one in compared:
        if one["measure"] is None:
            table.add_row(one["task"], "–")  # neither dev nor test
            continue
        title = f"{one['task']} ({label(one['part'])} {label(one['measure'])})"
        add_ways(table, title, {way: one[way] for way in way_titles() if way in one})
    ways = [way for way in way_titles() if any(way in one for one in compared)]
    add_ways(table, tr("mean of all tasks"), {way: mean_of_tasks(compared, way) for way in ways})
    console.print(table)


def add_ways(table: Table, title: str, ways: dict[str, dict[str, Any]]) -> None:
    """A line per way; differences are from the first."""
    reached = [found["score"]["mean"] for found in ways.values()]
    for number, (way, found) in enumerate(ways.items()):
        difference = f"{reached[number] - reached[0]:+.3f}" if number else ""
        table.add_row(
            "" if number else title, way_titles()[way], with_deviation(found["score"]), difference,
            with_deviation(found["gap"]),
        )  # fmt: skip


def with_deviation(found: dict[str, float]) -> str:
    return f"{found['mean']:.3f} ± {found['std']:.3f}"


def forgetting(seeds: Sequence[dict[str, Any]]) -> None:
    """For every task of a sequential training, its score right after its own training and at the end."""
    table = Table(tr("task"), tr("dev after its own training"), tr("dev at the end"), tr("change"), box=None)
    for name in seeds[0]["forgetting"]:
        own, end = (summary_of([one["forgetting"][name][when] for one in seeds]) for when in ("own", "end"))
        table.add_row(name, with_deviation(own), with_deviation(end), f"{end['mean'] - own['mean']:+.3f}")
    console.print(table)
