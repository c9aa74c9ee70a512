"""What helps a fine-tuned model on rows that it has not seen: pretraining, or a language-model loss beside the task's.

python -m benchmarks.generalisation pretraining --model runs/mine --task classify --train FILE --dev FILE --out FOLDER
python -m benchmarks.generalisation lm --model runs/gpt --task classify --train FILE --dev FILE --out FOLDER

Each is trained on a small and on a larger number of rows. The same command resumes where an earlier one stopped.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.finetuned import BATCH, epochs_for, lines_of, processor_minutes, result_of, with_deviation
from benchmarks.shared import table
from plmkit.errors import PlmError
from plmkit.tasks.registry import find_kind
from plmkit.tasks.taking_up import TaskFiles
from plmkit.tasks.task_list import TaskList

COMPARED = {
    "pretraining": {"pretrained": "task.scratch=false", "from scratch": "task.scratch=true"},
    "lm": {"λ = 0": "task.lm_weight=0", "λ = 0.5": "task.lm_weight=0.5"},
}
TITLES = ("rows", "", "loss, epoch 1", "dev, epoch 1", "train", "dev", "train − dev")


def main() -> None:
    asked = parse()
    try:
        with processor_minutes():
            print(table(TITLES, [row for rows in asked.rows for row in lines_for(asked, rows)]))
    except PlmError as error:
        sys.exit(f"generalisation: {error}")
    if asked.compared == "lm":
        print("\nThe loss with λ = 0.5 contains half of that of the language model.")


def lines_for(asked: argparse.Namespace, rows: int) -> list[tuple[str, ...]]:
    """A line per way to train on so many rows."""
    files = TaskFiles(task=find_kind(asked.task)(), train=asked.train, dev=asked.dev)
    share = min(1.0, rows / (len(lines_of(asked.train)) - 1))
    lines = []
    for title, setting in COMPARED[asked.compared].items():
        sets = [f"task.batch={BATCH}", "task.ngrams=false", f"task.train_share={share}", "run.log_steps=1", setting]
        epochs = epochs_for(rows, asked.epochs)
        runs = []
        for seed in range(asked.seeds):
            out = asked.out / f"{asked.compared}-{setting}-{rows}-{seed}"
            result = result_of(
                TaskList(tasks=(files,)), asked.model, out, sets=[*sets, *asked.set], epochs=epochs, seed=seed,
                gaps=True,
            )  # fmt: skip
            runs.append(figures_of(out, result, seed, files.task.measure))
        loss = statistics.mean(run["loss"] for run in runs)
        shown = [with_deviation([run[name] for run in runs]) for name in ("first", "train", "dev", "gap")]
        lines.append((f"{rows:,}", title, f"{loss:.3f}", *shown))
    return lines


def figures_of(out: Path, result: dict[str, Any], seed: int, measure: str) -> dict[str, float]:
    """The mean loss of the first epoch and the score on dev after it, from the log; then those of the best epoch."""
    log = [json.loads(line) for line in lines_of(out / "metrics.jsonl")]
    first = next(line for line in log if f"dev/{seed}/{measure}" in line)
    early = [
        line[f"train/{seed}/loss"] for line in log if f"train/{seed}/loss" in line and line["step"] <= first["step"]
    ]
    train, dev = result["train"][measure], result["dev"][measure]
    return {
        "loss": statistics.mean(early), "first": first[f"dev/{seed}/{measure}"], "train": train, "dev": dev,
        "gap": train - dev,
    }  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generalisation", description="What helps a fine-tuned model on rows it has not seen."
    )
    parser.add_argument("compared", choices=COMPARED)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--task", default="classify", help="kind of the task")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", type=int, default=(200, 2000), help="training rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE; repeatable")
    return parser.parse_args()


if __name__ == "__main__":
    main()
