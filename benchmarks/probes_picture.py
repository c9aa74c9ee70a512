"""The picture of what layers know, drawn from the table of it in benchmarks/README.md.

python -m benchmarks.probes_picture docs/pictures/probes.png
"""

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

README = Path(__file__).with_name("README.md")
SECTION = "## What layers know"
GROUP = re.compile(r"\*\*(?P<title>.+)\*\* \((?P<baseline>.+): (?P<score>[\d.]+)\)")
SCORE = re.compile(r"\**(?P<score>[\d.]+) ± (?P<deviation>[\d.]+)\**")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The models that were probed for one thing; scores and standard deviations by layer, in percent."""

    title: str
    baseline: str
    baseline_score: float
    models: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def panels_of(text: str) -> list[Panel]:
    """The rows of the section's table; a row in bold begins a panel."""
    panels: list[Panel] = []
    for line in text.split(SECTION)[1].split("\n## ")[0].splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        scores = [(float(found["score"]), float(found["deviation"])) for found in map(SCORE.fullmatch, cells) if found]
        if begun := GROUP.fullmatch(name):
            panels.append(Panel(title=begun["title"], baseline=begun["baseline"], baseline_score=float(begun["score"])))
        elif scores:
            panels[-1].models[name] = scores
    return panels


def draw(panels: list[Panel], picture: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.7 * len(panels), 4.2), layout="constrained")
    for panel, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        for name, scores in panel.models.items():
            values, deviations = zip(*scores, strict=True)
            axes.errorbar(range(len(values)), values, yerr=deviations, marker="o", capsize=3, label=name)
        lowest = min(score for scores in panel.models.values() for score, _ in scores)
        if panel.baseline_score > lowest - 10:  # far below all, it would only flatten the lines
            axes.axhline(panel.baseline_score, color="gray", linestyle="--", linewidth=0.8, label=panel.baseline)
        axes.set(title=panel.title, xlabel="layer (0: embeddings)", ylabel="accuracy or F1 (%)")
        axes.set_xticks(range(max(map(len, panel.models.values()))))
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize="small")
    figure.savefig(picture, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probes_picture", description=__doc__)
    parser.add_argument("picture", type=Path, help="PNG or SVG file to write")
    draw(panels_of(README.read_text(encoding="utf-8")), parser.parse_args().picture)


if __name__ == "__main__":
    main()
