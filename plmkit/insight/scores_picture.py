"""Scores by layer as files: JSON, and pictures for a paper."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plmkit.insight.probing import Probed
from plmkit.storage.files import new_file, reported_os_errors, write_text

STEM = "probe"


def write_scores(models: Sequence[Probed], folder: Path) -> None:
    """probe.json, probe.png and probe.svg in a folder, which is created if needed."""
    from matplotlib import rc_context

    with reported_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / f"{STEM}.json", json.dumps({"models": [asdict(one) for one in models]}, indent=1) + "\n")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "plmkit"}):
        figure = figure_of(models)
        for suffix in ("png", "svg"):
            with reported_os_errors(folder), new_file(folder / f"{STEM}.{suffix}") as partial:
                figure.savefig(partial, format=suffix, dpi=200, bbox_inches="tight")


def figure_of(models: Sequence[Probed]) -> Any:
    """A line per model, with its standard deviation; its baseline is dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2))
    axes = figure.subplots()
    for one in models:
        layers, scores = [part.layer for part in one.scores], [part.score for part in one.scores]
        deviations = [part.deviation for part in one.scores]
        drawn = axes.errorbar(layers, scores, yerr=deviations, marker="o", capsize=3, label=Path(one.model).name)
        axes.axhline(one.baseline, color=drawn[0].get_color(), linestyle="--", linewidth=0.8)
    axes.set(
        xlabel="layer", ylabel=models[0].metric, xticks=sorted({part.layer for one in models for part in one.scores})
    )
    axes.legend(frameon=False)
    return figure
