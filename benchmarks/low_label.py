"""How many labels a task needs, from several models: scores with 1 %, 10 % and all of its training rows.

python -m benchmarks.low_label --model pretrained=runs/mine --model joint=runs/many \\
    --task nli --train train.tsv --dev dev.tsv --test test.tsv --out FOLDER

Every seed draws its own rows. The same command resumes where an earlier one stopped. The curve is drawn in FOLDER.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.finetuned import BATCH, epochs_for, lines_of, processor_minutes, result_of, with_deviation
from benchmarks.shared import table
from plmkit.errors import PlmError
from plmkit.insight.picture import write_figure
from plmkit.tasks.registry import find_kind
from plmkit.tasks.taking_up import TaskFiles
from plmkit.tasks.task_list import TaskList

SHARES = (0.01, 0.1, 1.0)
Curves = dict[str, dict[float, list[float]]]  # by model and share, the scores of the seeds


def curves(
    models: Mapping[str, Path], files: TaskFiles, out: Path, *, shares: Sequence[float], seeds: int, epochs: float,
    sets: Sequence[str] = (),
) -> Curves:  # fmt: skip
    rows = len(lines_of(files.train)) - 1
    found: Curves = {}
    for name, model in models.items():
        for share in shares:
            own = [f"task.batch={BATCH}", "task.ngrams=false", f"task.train_share={share}", *sets]
            most = epochs_for(round(share * rows), epochs)
            runs = [
                result_of(
                    TaskList(tasks=(files,)), model, out / name / f"{share:g}-{seed}", sets=own, epochs=most, seed=seed
                )
                for seed in range(seeds)
            ]
            found.setdefault(name, {})[share] = [score_of(files, run) for run in runs]
    return found


def score_of(files: TaskFiles, result: dict[str, Any]) -> float:
    scores = result["test" if files.test else "dev"]
    return float(scores[files.task.chosen_by(scores)])


def curve_table(found: Curves, measure: str) -> str:
    """A line per share, a column per model, and the difference of the last from the first."""
    names = list(found)
    rows = []
    for share in found[names[0]]:
        means = [sum(found[name][share]) / len(found[name][share]) for name in names]
        cells = [with_deviation(found[name][share]) for name in names]
        rows.append((f"{share:.0%}", *cells, f"{100 * (means[-1] - means[0]):+.1f}"))
    return table((f"labels ({measure})", *names, "difference"), rows)


def draw(found: Curves, measure: str, out: Path) -> None:
    """low_label.png and low_label.svg: scores over the share of the labels, with standard deviations."""
    for suffix in (".png", ".svg"):
        write_figure(lambda: figure_of(found, measure), list(found), out / f"low_label{suffix}", print)


def figure_of(found: Curves, measure: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2))
    axes = figure.subplots()
    for name, by_share in found.items():
        means = [statistics.mean(one) for one in by_share.values()]
        deviations = [statistics.stdev(one) if len(one) > 1 else 0.0 for one in by_share.values()]
        axes.errorbar(list(by_share), means, yerr=deviations, marker="o", capsize=3, label=name)
    axes.set(xscale="log", xlabel="share of the training rows", ylabel=measure)
    shares = sorted({share for by_share in found.values() for share in by_share})
    axes.set_xticks(shares, [f"{share:.0%}" for share in shares])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return figure


def main() -> None:
    asked = parse()
    models = dict(named(text) for text in asked.model)
    files = TaskFiles(task=find_kind(asked.task)(), train=asked.train, dev=asked.dev, test=asked.test)
    measure = files.task.measure
    try:
        with processor_minutes():
            found = curves(
                models, files, asked.out, shares=asked.shares, seeds=asked.seeds, epochs=asked.epochs, sets=asked.set
            )
            print(curve_table(found, measure))
    except PlmError as error:
        sys.exit(f"low_label: {error}")
    draw(found, measure, asked.out)


def named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    return name, Path(path or name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.low_label", description="How many labels a task needs.")
    parser.add_argument("--model", action="append", required=True, help="NAME=FOLDER; repeatable")
    parser.add_argument("--task", required=True, help="kind of the task")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE; repeatable")
    return parser.parse_args()


if __name__ == "__main__":
    main()
