"""What minutes of pretraining are worth: `plm pretrain`, then fine-tuning with and without it, and a linear model.

python -m benchmarks.small_budget --corpus FILE... --tokenizer FOLDER --task NAME=FOLDER --minutes 10 --out FOLDER

Each task's folder holds train.tsv, dev.tsv and test.tsv with the columns text (or text_a) and label. The same command
goes on where an earlier one was stopped.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.shared import say, table
from plmkit.errors import PlmError
from plmkit.files import write_json
from plmkit.run import read_run
from plmkit.tasks.rows import Row, read_rows

PARTS = ("train", "dev", "test")
STARTS = {"scratch": ["--set", "task.scratch=true"], "pretrained": []}


def main() -> None:
    asked = parse()
    try:
        pretrained = pretrain(asked)
        tasks = {name: one_task(asked, name, folder) for name, folder in asked.tasks.items()}
    except PlmError as error:
        sys.exit(f"small_budget: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"small_budget: the command above ended with code {error.returncode}.")
    told = {"recipe": asked.recipe, "minutes": asked.minutes, "pretrained": pretrained, "tasks": tasks}
    write_json(asked.out / "small_budget.json", told)
    print(f"\n{pretrained_line(asked, pretrained)}\n")
    if tasks:
        print(scores_table(tasks))
    print(f"\nAll figures: {asked.out / 'small_budget.json'}")


def pretrain(asked: argparse.Namespace) -> dict[str, Any]:
    """Minutes on the corpus, or what an earlier call came to."""
    out = asked.out / "pretrained"
    options = ["--minutes", f"{asked.minutes:g}", "--seed", str(asked.seed), "--out", str(out)]
    for name in ("tokenizer", "valid"):
        if getattr(asked, name):
            options += [f"--{name}", str(getattr(asked, name))]
    corpora = [str(path) for path in asked.corpus]
    return finished(out) or plm("pretrain", asked.recipe, *corpora, *options, *sets(asked.set))


def one_task(asked: argparse.Namespace, name: str, folder: Path) -> dict[str, Any]:
    """Accuracy on the test rows: of the linear model, from scratch, and pretrained."""
    files = {part: folder / f"{part}.tsv" for part in PARTS}
    given = [text for part, path in files.items() for text in (f"--{part}", str(path))]
    scores: dict[str, Any] = {"linear": linear_scores(asked.out / f"{name}-linear.json", files)}
    say(f"{name}: linear model {scores['linear']['test']:.4f}")
    for start, extra in STARTS.items():
        out = asked.out / f"{name}-{start}"
        options = ["--seed", str(asked.seed), "--seeds", str(asked.seeds), "--out", str(out)]
        if asked.epochs:
            options += ["--epochs", f"{asked.epochs:g}"]
        result = finished(out) or plm(
            "finetune", str(asked.out / "pretrained"), "--task", "classify",
            *given, *options, *sets(asked.task_set), *extra,
        )  # fmt: skip
        scores[start] = {part: [run[part]["accuracy"] for run in result["seeds"]] for part in ("dev", "test")}
        say(f"{name}: {start} {spread(scores[start]['test'])}")
    return scores


def plm(*arguments: str) -> dict[str, Any]:
    """Run the command that a user would, and return what it tells; its progress goes to the screen."""
    say(f"\n$ plm {shlex.join(arguments)}")
    command = [sys.executable, "-m", "plmkit.cli", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, encoding="utf-8")
    return json.loads(done.stdout)


def finished(folder: Path) -> dict[str, Any] | None:
    """The result of the run in the folder, if it came to its end."""
    about = read_run(folder)
    return about["result"] if about and about["state"] == "finished" else None


def sets(assignments: Sequence[str]) -> list[str]:
    return [text for assignment in assignments for text in ("--set", assignment)]


# --- the linear model


def linear_scores(kept: Path, files: dict[str, Path]) -> dict[str, Any]:
    """TF-IDF and logistic regression with fixed settings; kept in a file for the next call."""
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rows = {part: read_rows(path, paired=False) for part, path in files.items()}
    analyzer = "char" if is_chinese(rows["train"]) else "word"
    vectors = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, 2), min_df=2)
    model = make_pipeline(vectors, LogisticRegression(C=10.0, max_iter=1000))
    texts = {part: [row.text for row in rows[part]] for part in PARTS}
    labels = {part: [row.label for row in rows[part]] for part in PARTS}
    model.fit(texts["train"], labels["train"])
    scores = {part: float(model.score(texts[part], labels[part])) for part in ("dev", "test")}
    write_json(kept, {**scores, "grams": f"{analyzer} 1-2"})
    return linear_scores(kept, files)


def is_chinese(rows: Sequence[Row]) -> bool:
    """Is most of the text written without spaces between words?"""
    letters = [letter for row in rows[:1000] for letter in row.text if letter.isalpha()]
    return sum("\u3040" <= letter <= "\u9fff" for letter in letters) > len(letters) / 2


# --- words


def pretrained_line(asked: argparse.Namespace, result: dict[str, Any]) -> str:
    held = ", ".join(f"{name} {value:.3f}" for name, value in result.items() if name.startswith("valid/"))
    steps = f"{result['steps']:,} steps, {result['tokens']:,} tokens"
    return f"{asked.recipe}, {asked.minutes:g} minutes: {steps}; held-out loss: {held or 'none'}"


def scores_table(tasks: dict[str, dict[str, Any]]) -> str:
    """Test accuracy in per cent; after the sign, the standard deviation over the seeds."""
    rows = []
    for name, scores in tasks.items():
        gain = mean(scores["pretrained"]["test"]) - mean(scores["scratch"]["test"])
        cells = (spread(scores[start]["test"]) for start in STARTS)
        rows.append((name, f"{100 * scores['linear']['test']:.1f}", *cells, f"{100 * gain:+.1f}"))
    return table(("test accuracy", "TF-IDF + linear", *STARTS, "gain"), rows)


def spread(values: Sequence[float]) -> str:
    deviation = (sum((value - mean(values)) ** 2 for value in values) / max(1, len(values) - 1)) ** 0.5
    return f"{100 * mean(values):.1f} ± {100 * deviation:.1f}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small_budget", description="What minutes of pretraining are worth."
    )
    parser.add_argument("--corpus", nargs="+", type=Path, required=True, help="text to pretrain on")
    parser.add_argument("--out", type=Path, required=True, help="folder for all runs; finished ones are not repeated")
    parser.add_argument("--task", action="append", default=[], metavar="NAME=FOLDER", help="labelled rows; repeatable")
    parser.add_argument("--tokenizer", type=Path, help="a vocabulary; without one, it is learnt from the corpus")
    parser.add_argument("--valid", type=Path, help="held-out text; without it, a part of the corpus")
    parser.add_argument("--recipe", default="bert-mini")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--epochs", type=float, help="of fine-tuning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--set", action="append", default=[], help="a setting of the pretraining, as for plm")
    parser.add_argument("--task-set", action="append", default=[], help="a setting of the fine-tuning, as for plm")
    asked = parser.parse_args()
    asked.tasks = {}
    for task in asked.task:
        name, equals, folder = task.partition("=")
        missing = [part for part in PARTS if not (Path(folder) / f"{part}.tsv").is_file()]
        if not equals or missing:
            parser.error(f"--task {task}: give NAME=FOLDER, with {', '.join(f'{part}.tsv' for part in PARTS)} in it")
        asked.tasks[name] = Path(folder)
    return asked


if __name__ == "__main__":
    main()
