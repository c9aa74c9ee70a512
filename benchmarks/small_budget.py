"""What minutes of pretraining are worth: each recipe pretrained and fine-tuned, a random start, and a linear model.

python -m benchmarks.small_budget --corpus FILE... --tokenizer FOLDER --task NAME=FOLDER --minutes 10 --out FOLDER
    [--tokens 3000000] [--recipe bert-mini --recipe electra-mini ...] [--rows 4000]

Each task's folder holds train.tsv and dev.tsv, and test.tsv if there is one, with the columns text (or text_a and
text_b) and label. Without test.tsv, dev.tsv is the test, and a tenth of the training rows takes its place. The same
command resumes where an earlier one stopped, also with the figures alone, on another machine.
"""

import argparse
import json
import random
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared import say, table
from plmkit.errors import PlmError
from plmkit.storage.files import write_json, write_text
from plmkit.tasks.contract import Row
from plmkit.tasks.rows import read_rows
from plmkit.training.run_folder import RunFolder

PARTS = ("train", "dev", "test")
LINEAR, SCRATCH, FROZEN = "TF-IDF + linear", "random start", "frozen"


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """A task: its three files, and whether a row has two texts."""

    name: str
    files: dict[str, Path]
    paired: bool

    @property
    def kind(self) -> str:
        return "pair" if self.paired else "classify"


def main() -> None:
    asked = parse()
    try:
        tasks = [cut_rows(asked, name, folder) for name, folder in asked.tasks.items()]
        pretrained = {recipe: pretrain(asked, recipe) for recipe in asked.recipe}
        scores = {task.name: one_task(asked, task) for task in tasks}
    except PlmError as error:
        sys.exit(f"small_budget: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"small_budget: the command above ended with code {error.returncode}.")
    measured = {"budget": " ".join(budget(asked)), "rows": asked.rows, "pretrained": pretrained, "tasks": scores}
    write_json(asked.figures / "small_budget.json", measured)
    print("".join(f"\n{pretrained_line(asked, name, result)}" for name, result in pretrained.items()) + "\n")
    if scores:
        print(scores_table(scores))
    print(f"\nAll figures: {asked.figures / 'small_budget.json'}")


def pretrain(asked: argparse.Namespace, recipe: str) -> dict[str, Any]:
    """Minutes on the corpus, or what an earlier call came to."""
    out = asked.out / recipe / "pretrained"
    options = [*budget(asked), "--seed", str(asked.seed), "--out", str(out)]
    for name in ("tokenizer", "valid"):
        if getattr(asked, name):
            options += [f"--{name}", str(getattr(asked, name))]
    corpora = [str(path) for path in asked.corpus]
    figures = asked.figures / recipe / "pretrained.json"
    return known(figures, out) or keep(figures, plm("pretrain", recipe, *corpora, *options, *sets(asked.set)))


def budget(asked: argparse.Namespace) -> list[str]:
    """Minutes, or the tokens of that many minutes on an idle machine, where this one is busy."""
    return ["--tokens", str(asked.tokens)] if asked.tokens else ["--minutes", f"{asked.minutes:g}"]


def one_task(asked: argparse.Namespace, task: LabelledSet) -> dict[str, Any]:
    """Accuracy on the test rows: of the linear model, from a random start, and of each recipe."""
    scores: dict[str, Any] = {LINEAR: linear_scores(asked.figures / "linear" / f"{task.name}.json", task)}
    say(f"{task.name}: {LINEAR} {mean_and_deviation(scores[LINEAR]['test'])}")
    runs = {SCRATCH: (asked.recipe[0], ["task.scratch=true"])} | {recipe: (recipe, []) for recipe in asked.recipe}
    if asked.frozen:
        runs |= {f"{recipe}, {FROZEN}": (recipe, ["task.frozen=true"]) for recipe in asked.recipe}
    for name, (recipe, extra) in runs.items():
        folder = "-".join([task.name, *name.removeprefix(recipe).replace(",", "").split()])
        figures, out = asked.figures / recipe / f"{folder}.json", asked.out / recipe / folder
        options = ["--seed", str(asked.seed), "--seeds", str(asked.seeds), "--out", str(out)]
        if asked.epochs:
            options += ["--epochs", f"{asked.epochs:g}"]
        given = [text for part, path in task.files.items() for text in (f"--{part}", str(path))]
        result = known(figures, out) or keep(figures, plm(
            "finetune", str(asked.out / recipe / "pretrained"), "--task", task.kind,
            *given, *options, *sets(asked.task_set), *sets(extra),
        ))  # fmt: skip
        scores[name] = {part: [run[part]["accuracy"] for run in result["seeds"]] for part in ("dev", "test")}
        say(f"{task.name}: {name} {mean_and_deviation(scores[name]['test'])}")
    return scores


def cut_rows(asked: argparse.Namespace, name: str, folder: Path) -> LabelledSet:
    """The task's own files, or new ones where rows are to be fewer or a file is missing."""
    files = {part: folder / f"{part}.tsv" for part in PARTS}
    paired = any(row.other is not None for row in read_rows(files["dev"], paired=None))
    if asked.rows is None and files["test"].is_file():
        return LabelledSet(name=name, files=files, paired=paired)
    rows = {part: read_rows(path, paired=paired) for part, path in files.items() if path.is_file()}
    random.Random(asked.seed).shuffle(rows["train"])
    if "test" not in rows:
        tenth = len(rows["train"]) // 10
        rows = {"train": rows["train"][tenth:], "dev": rows["train"][:tenth], "test": rows["dev"]}
    rows["train"] = rows["train"][: asked.rows]
    rows["dev"] = rows["dev"][: asked.rows]
    cut = {part: asked.out / "rows" / name / f"{part}.tsv" for part in PARTS}
    for part, path in cut.items():
        write_text(path, tsv(rows[part], paired))
    return LabelledSet(name=name, files=cut, paired=paired)


def tsv(rows: Sequence[Row], paired: bool) -> str:
    header = ("label", "text_a", "text_b") if paired else ("label", "text")
    lines = [header, *((str(row.label), row.text, *([row.other] if paired else [])) for row in rows)]
    return "".join("\t".join(clean(cell) for cell in line) + "\n" for line in lines)


def clean(cell: str | None) -> str:
    return " ".join((cell or "").split())


def plm(*arguments: str) -> dict[str, Any]:
    """Run the command that a user would, and return what it tells; its progress goes to the screen."""
    say(f"\n$ plm {shlex.join(arguments)}")
    command = [sys.executable, "-m", "plmkit.cli", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, encoding="utf-8")
    return json.loads(done.stdout)


def known(figures: Path, folder: Path) -> dict[str, Any] | None:
    """The result of a run that came to its end: its figures are kept even where its folder is gone."""
    if figures.is_file():
        return json.loads(figures.read_text(encoding="utf-8"))
    result = finished(folder)
    return None if result is None else keep(figures, result)


def finished(folder: Path) -> dict[str, Any] | None:
    """The result of the run in the folder, if it came to its end."""
    record = RunFolder(folder).record
    return record.result if record and record.is_finished else None


def keep(figures: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Without the folder: it is another one elsewhere."""
    result = {name: value for name, value in result.items() if name != "out"}
    write_json(figures, result)
    return result


def sets(assignments: Sequence[str]) -> list[str]:
    return [text for assignment in assignments for text in ("--set", assignment)]


# --- the linear model


def linear_scores(kept: Path, task: LabelledSet) -> dict[str, Any]:
    """TF-IDF and logistic regression with fixed settings; kept in a file for the next call."""
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    rows = {part: read_rows(path, paired=task.paired) for part, path in task.files.items()}
    analyzer = "char" if is_chinese(rows["train"]) else "word"
    vectors = TfidfVectorizer(analyzer=analyzer, ngram_range=(1, 2), min_df=2)
    vectors.fit([text for row in rows["train"] for text in (row.text, row.other) if text is not None])
    model = LogisticRegression(C=10.0, max_iter=1000)
    model.fit(features(rows["train"], vectors), [row.label for row in rows["train"]])
    scores = {
        part: [float(model.score(features(rows[part], vectors), [row.label for row in rows[part]]))]
        for part in ("dev", "test")
    }
    write_json(kept, {**scores, "grams": f"{analyzer} 1-2"})
    return linear_scores(kept, task)


def features(rows: Sequence[Row], vectors: Any) -> Any:
    """TF-IDF of a text; of two, what they share and where they differ."""
    from scipy.sparse import hstack

    first = vectors.transform([row.text for row in rows])
    if rows[0].other is None:
        return first
    second = vectors.transform([row.other for row in rows])
    return hstack([first.multiply(second), abs(first - second)]).tocsr()


def is_chinese(rows: Sequence[Row]) -> bool:
    """Is most of the text written without spaces between words?"""
    letters = [letter for row in rows[:1000] for letter in row.text if letter.isalpha()]
    return sum("\u3040" <= letter <= "\u9fff" for letter in letters) > len(letters) / 2


# --- words


def pretrained_line(asked: argparse.Namespace, recipe: str, result: dict[str, Any]) -> str:
    held = ", ".join(f"{name} {value:.3f}" for name, value in result.items() if name.startswith("valid/"))
    steps = f"{result['steps']:,} steps, {result['tokens']:,} tokens"
    return f"{recipe}, {' '.join(budget(asked))}: {steps}; held-out loss: {held or 'none'}"


def scores_table(tasks: dict[str, dict[str, Any]]) -> str:
    """Test accuracy in per cent; after the sign, the standard deviation over the seeds."""
    names = list(next(iter(tasks.values())))
    rows = [(name, *(mean_and_deviation(scores[name]["test"]) for scores in tasks.values())) for name in names]
    return table(("test accuracy", *tasks), rows)


def mean_and_deviation(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
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
    parser.add_argument("--figures", type=Path, help="folder for what each run came to; OUT/figures unless given")
    parser.add_argument("--task", action="append", default=[], metavar="NAME=FOLDER", help="labelled rows; repeatable")
    parser.add_argument("--tokenizer", type=Path, help="a vocabulary; without one, it is trained on the corpus")
    parser.add_argument("--valid", type=Path, help="held-out text; without it, a part of the corpus")
    parser.add_argument("--recipe", action="append", help="repeatable; bert-mini unless given")
    parser.add_argument("--rows", type=int, help="maximum number of training rows per task")
    parser.add_argument("--frozen", action="store_true", help="also with only the last layer trained")
    parser.add_argument("--minutes", type=float, default=10.0, help="of pretraining")
    parser.add_argument("--tokens", type=int, help="of pretraining, in place of minutes")
    parser.add_argument("--epochs", type=float, help="of fine-tuning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--set", action="append", default=[], help="a setting of the pretraining, as for plm")
    parser.add_argument("--task-set", action="append", default=[], help="a setting of the fine-tuning, as for plm")
    asked = parser.parse_args()
    asked.figures = asked.figures or asked.out / "figures"
    asked.recipe = list(dict.fromkeys(asked.recipe or ["bert-mini"]))
    asked.tasks = {}
    for task in asked.task:
        name, equals, folder = task.partition("=")
        if not equals or not all((Path(folder) / f"{part}.tsv").is_file() for part in ("train", "dev")):
            parser.error(f"--task {task}: give NAME=FOLDER, with train.tsv, dev.tsv and perhaps test.tsv in it")
        asked.tasks[name] = Path(folder)
    return asked


if __name__ == "__main__":
    main()
