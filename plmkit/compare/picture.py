"""The scores of several tasks, each by every way that trained it, as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plmkit.compare.ways import way_titles
from plmkit.insight.picture import Say, write_figure
from plmkit.language import tr
from plmkit.terminal.labels import label

STEM = "comparison"
LOWER_CENTER = 8  # of matplotlib


def draw_comparison(compared: Sequence[dict[str, Any]], folder: Path, say: Say) -> None:
    """comparison.png and comparison.svg: for every task a bar per way, and the gaps between training rows and dev."""
    scored = [one for one in compared if one["measure"]]
    for suffix in (".png", ".svg") if scored else ():
        shown = [
            tr("score"),
            tr("train − dev"),
            *way_titles().values(),
            *(title_of(one).replace("\n", " ") for one in scored),
        ]
        write_figure(lambda: figure_of(scored), shown, folder / (STEM + suffix), say)


def figure_of(compared: Sequence[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    ways = {way: title for way, title in way_titles().items() if way in compared[0]}
    figure = Figure(figsize=(2.5 + 1.3 * len(compared), 5.2), layout="constrained")
    for axes, shown in zip(figure.subplots(2, 1, sharex=True), ("score", "gap"), strict=True):
        for number, (way, title) in enumerate(ways.items()):
            places = [place + (number - (len(ways) - 1) / 2) * 0.8 / len(ways) for place in range(len(compared))]
            values = [one[way][shown] for one in compared]
            axes.bar(
                places, [one["mean"] for one in values], yerr=[one["std"] for one in values], width=0.8 / len(ways),
                capsize=3, label=title, color=f"C{number}",
            )  # fmt: skip
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_ylabel(tr("score") if shown == "score" else tr("train − dev"))
    figure.align_ylabels()
    figure.axes[1].set_xticks(range(len(compared)), [title_of(one) for one in compared])
    figure.axes[0].legend(frameon=False, ncols=len(ways), loc=LOWER_CENTER, bbox_to_anchor=(0.5, 1.0))
    return figure


def title_of(one: dict[str, Any]) -> str:
    """The task and its score."""
    return f"{one['task']}\n{label(one['part'])} {label(one['measure'])}"
