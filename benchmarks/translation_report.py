"""Tables and a picture of what benchmarks.translation has finished.

python -m benchmarks.translation_report OUT... [--picture docs/pictures/translation.png]
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.shared import table
from plmkit.storage.files import read_json

Runs = dict[str, list[dict[str, Any]]]  # by the name of the network, a run per seed
BASELINE, ATTENTIVE = "rnn-mini", "rnn-attention-mini"


def figures_of(out: Path, name: str, seed: int) -> Path:
    return out / "figures" / f"{name}-{seed}.json"


def report(folders: Sequence[Path], picture: Path | None) -> None:
    every = {str(folder): runs_in(folder) for folder in folders}
    every = {name: runs for name, runs in every.items() if runs}
    for runs in every.values():
        first = next(iter(runs.values()))[0]
        print(f"\n{first['data']}, {first['pair']}: {first['minutes']:g} minutes of {first['cores']} core(s)\n")
        print(f"{summary(runs)}\n\n{each(runs)}\n")
        print(f"BLEU: {first['bleu']['signature']}\nchrF: {first['chrf']['signature']}")
        if gain := gains(runs):
            print(
                f"{ATTENTIVE} above {BASELINE}: {spread(gain)} BLEU over {len(gain)} seed(s), at least {min(gain):.1f}"
            )
    if picture and every:
        draw(list(every.values()), picture)


def runs_in(folder: Path) -> Runs:
    """In the order in which they are trained."""
    from benchmarks.translation import NAMES

    found = {name: sorted((folder / "figures").glob(f"{name}-[0-9]*.json")) for name in NAMES}
    return {name: [read_json(path) for path in paths] for name, paths in found.items() if paths}


def summary(runs: Runs) -> str:
    """Means over seeds, with standard deviations."""
    groups = [group_name(group) for group in next(iter(runs.values()))[0]["by_length"]]
    head = ("network", "parameters", "tokens/s", "tokens", "seeds", "BLEU", "chrF", *groups)
    rows = []
    for name, some in runs.items():
        by_group = [[run["by_length"][number]["bleu"] for run in some] for number in range(len(groups))]
        rows.append((
            name, f"{some[0]['parameters']:,}", f"{some[0]['tokens_per_second']:,.0f}",
            f"{statistics.mean(run['tokens'] for run in some) / 1e6:.1f} M", str(len(some)),
            *(spread([run[score]["score"] for run in some]) for score in ("bleu", "chrf")),
            *(f"{statistics.mean(values):.1f}" for values in by_group),
        ))  # fmt: skip
    return table(head, rows)


def each(runs: Runs) -> str:
    """Every run, with bootstrap intervals."""
    rows = [
        (
            name, str(run["seed"]), f"{run['steps']:,}", minutes(run["cpu_seconds"]), run["dtype"],
            *(interval(run[score]) for score in ("bleu", "chrf")),
        )
        for name, some in runs.items()
        for run in some
    ]  # fmt: skip
    return table(("network", "seed", "steps", "CPU minutes", "precision", "BLEU (95 %)", "chrF (95 %)"), rows)


def minutes(seconds: float | None) -> str:
    return "resumed" if seconds is None else f"{seconds / 60:.1f}"


def gains(runs: Runs) -> list[float]:
    """BLEU that attention adds, seed by seed."""
    both = [{run["seed"]: run["bleu"]["score"] for run in runs.get(name, [])} for name in (BASELINE, ATTENTIVE)]
    return [both[1][seed] - both[0][seed] for seed in both[0] if seed in both[1]]


def group_name(group: dict[str, Any]) -> str:
    return f"{group['from']}+ words" if group["to"] is None else f"{group['from']}–{group['to']}"


def spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


def interval(score: dict[str, Any]) -> str:
    return f"{score['score']:.1f} ({score['low']:.1f} to {score['high']:.1f})"


def draw(every: Sequence[Runs], path: Path) -> None:
    """BLEU by source length, the mean over seeds and the range."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(every), figsize=(4.8 * len(every), 3.4), squeeze=False)
    for plot, runs in zip(axes[0], every, strict=True):
        for name, some in runs.items():
            groups = [group_name(group) for group in some[0]["by_length"]]
            scores = [[run["by_length"][number]["bleu"] for run in some] for number in range(len(groups))]
            (line,) = plot.plot(groups, list(map(statistics.mean, scores)), marker="o", label=name)
            plot.fill_between(groups, list(map(min, scores)), list(map(max, scores)), alpha=0.2, color=line.get_color())
        first = next(iter(runs.values()))[0]
        plot.set(title=f"{first['data']}, {first['pair']}", xlabel="words of the source", ylabel="BLEU")
        plot.set_ylim(bottom=0, top=1.35 * plot.get_ylim()[1])  # room for the legend
    axes[0][0].legend(fontsize="small", ncols=2, loc="upper right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translation_report", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="OUT", help="--out of benchmarks.translation")
    parser.add_argument("--picture", type=Path, help="draw BLEU by source length here")
    asked = parser.parse_args()
    report(asked.folders, asked.picture)


if __name__ == "__main__":
    main()
