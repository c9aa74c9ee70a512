"""ERNIE 2's three schedules, and what each of its tasks is worth: trained without it, for the same number of steps.

python -m benchmarks.ernie2 --corpus FILE... --task NAME=FOLDER --out FOLDER
    [--recipe ernie2-tiny] [--steps 336] [--questions FILE.jsonl] [--rows 1000] [--seeds 3]

The paper has no such ablation. Each task's folder holds train.tsv and dev.tsv, and test.tsv if there is one, as for
benchmarks.small_budget. `--questions` makes the query–title table of the relevance task from questions with answers in
paragraphs, one paragraph per line (title, context, qas with question and answers of text and start): the sentence with
the answer counts as clicked, another of its paragraph as shown. The same command resumes where an earlier one stopped,
also with the figures alone, on another machine.
"""

import argparse
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.shared import say, table
from benchmarks.small_budget import LabelledSet, cut_rows, keep, known, mean_and_deviation, plm, sets
from plmkit.catalogue import find
from plmkit.config.pretraining_tasks import tasks_of
from plmkit.errors import PlmError
from plmkit.schedules.task_stages import TASK_STAGES
from plmkit.storage.files import write_json, write_text

SCRATCH, FULL = "random start", "continual"
SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*")
Figures = dict[str, dict[str, Any]]


def main() -> None:
    asked = parse()
    try:
        tasks = [cut_rows(asked, name, folder) for name, folder in asked.tasks.items()]
        if asked.questions:
            asked.corpus.append(write_titles(asked.questions, asked.out / "titles.tsv", asked.seed))
        figures = measured(asked, tasks)
    except PlmError as error:
        sys.exit(f"ernie2: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"ernie2: the command above ended with code {error.returncode}.")
    write_json(asked.figures / "ernie2.json", {"recipe": asked.recipe, "steps": asked.steps, "runs": figures})
    names = list(asked.tasks)
    print(f"\n{asked.recipe}, {asked.steps:,} steps each\n")
    print(schedules_table(figures, names))
    print()
    print(left_out_table(figures, names, tasks_of(find(asked.recipe))))
    print(f"\nAll figures: {asked.figures / 'ernie2.json'}")


def measured(asked: argparse.Namespace, tasks: list[LabelledSet]) -> Figures:
    """Each schedule, and the first of them without each task that the corpus allows."""
    runs = {kind: [f"tasks={kind}"] for kind in TASK_STAGES}
    figures = {name: one_run(asked, name, settings, tasks) for name, settings in runs.items()}
    figures[SCRATCH] = {"tasks": {task.name: tuned(asked, SCRATCH, task) for task in tasks}}
    for name in tasks_of(find(asked.recipe)):
        if name in figures[FULL]["trained"]:
            figures[f"without {name}"] = one_run(asked, f"without-{name}", [f"without={name}"], tasks)
    return figures


def one_run(asked: argparse.Namespace, name: str, settings: list[str], tasks: list[LabelledSet]) -> dict[str, Any]:
    """The pretraining, and its scores on every task."""
    out, figures = asked.out / name / "pretrained", asked.figures / name / "pretrained.json"
    options = ["--steps", str(asked.steps), "--seed", str(asked.seed), "--out", str(out)]
    if asked.tokenizer:
        options += ["--tokenizer", str(asked.tokenizer)]
    corpora = [str(path) for path in asked.corpus]
    if (result := known(figures, out)) is None or "trained" not in result:
        result = plm("pretrain", asked.recipe, *corpora, *options, *sets(asked.set), *sets(settings))
        result = keep(figures, {**result, "trained": trained(asked.recipe, out)})
    return {**result, "tasks": {task.name: tuned(asked, name, task) for task in tasks}}


def trained(recipe: str, out: Path) -> dict[str, int]:
    """The pretraining tasks with the number of lines of the log that have a loss of theirs."""
    made = find(recipe)
    heads = {f"train/{head}": stream.name for stream in made.streams for head in stream.heads or ()}
    found: dict[str, int] = {}
    for line in map(json.loads, (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()):
        for key in line.keys() & heads.keys():
            found[heads[key]] = found.get(heads[key], 0) + 1
    return found


def tuned(asked: argparse.Namespace, name: str, task: LabelledSet) -> list[float]:
    """Test accuracy of every seed."""
    out, figures = asked.out / name / task.name, asked.figures / name / f"{task.name}.json"
    start = FULL if name == SCRATCH else name
    extra = ["task.scratch=true"] if name == SCRATCH else []
    given = [text for part, path in task.files.items() for text in (f"--{part}", str(path))]
    options = ["--seed", str(asked.seed), "--seeds", str(asked.seeds), "--epochs", f"{asked.epochs:g}"]
    result = known(figures, out) or keep(figures, plm(
        "finetune", str(asked.out / start / "pretrained"), "--task", task.kind, *given, *options, "--out", str(out),
        *sets(asked.task_set), *sets(extra),
    ))  # fmt: skip
    scores = [run["test"]["accuracy"] for run in result["seeds"]]
    say(f"{name}: {task.name} {mean_and_deviation(scores)}")
    return scores


# --- queries and titles


def write_titles(questions: Path, path: Path, seed: int) -> Path:
    lines = ["query\ttitle\tlabel", *("\t".join(row) for row in titles_of(questions, random.Random(seed)))]
    write_text(path, "\n".join(lines) + "\n")
    return path


def titles_of(questions: Path, rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """A question with the sentence of its answer (0), and with another of the paragraph (1)."""
    with open(questions, encoding="utf-8") as file:
        for paragraph in map(json.loads, file):
            sentences = [match for match in SENTENCE.finditer(paragraph["context"]) if match[0].strip()]
            for asked in paragraph["qas"]:
                if not asked["answers"]:
                    continue
                start = asked["answers"][0]["start"]
                holding = [one for one in sentences if one.start() <= start < one.end()]
                others = [one for one in sentences if one not in holding]
                for label, some in enumerate((holding, others)):
                    if some:
                        yield plain(asked["question"]), plain(rng.choice(some)[0]), str(label)


def plain(text: str) -> str:
    return " ".join(text.split())


# --- tables


def schedules_table(figures: Figures, tasks: list[str]) -> str:
    """Accuracy, and the loss of the first task at the end: what plain continual training forgets."""
    rows = [row_of(name, figures[name], tasks) for name in (*TASK_STAGES, SCRATCH)]
    return table(("schedule", "held-out loss of masked tokens", *tasks), rows)


def left_out_table(figures: Figures, tasks: list[str], names: tuple[str, ...]) -> str:
    """Eight rows: with all tasks, and without each."""
    rows = [row_of("all tasks", figures[FULL], tasks)]
    for name in names:
        if f"without {name}" in figures:
            rows.append(row_of(f"without {name}", figures[f"without {name}"], tasks))
        else:
            rows.append((f"without {name}", "not built from this text", *("" for _ in tasks)))
    return table(("pretraining", "held-out loss of masked tokens", *tasks), rows)


def row_of(name: str, found: dict[str, Any], tasks: list[str]) -> tuple[str, ...]:
    loss = found.get("valid/knowledge/masked_lm")
    scores = (mean_and_deviation(found["tasks"][task]) for task in tasks)
    return (name, "" if loss is None else f"{loss:.3f}", *scores)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ernie2", description="ERNIE 2's schedules, and its tasks left out one by one."
    )
    parser.add_argument("--corpus", nargs="+", type=Path, required=True, help="text, and query–title tables if any")
    parser.add_argument("--out", type=Path, required=True, help="folder for all runs; finished ones are not repeated")
    parser.add_argument("--figures", type=Path, help="folder for what each run came to; OUT/figures unless given")
    parser.add_argument("--task", action="append", default=[], metavar="NAME=FOLDER", help="labelled rows; repeatable")
    parser.add_argument("--recipe", default="ernie2-tiny")
    parser.add_argument("--steps", type=int, default=336, help="of each pretraining; of 7 tasks a multiple of 56")
    parser.add_argument("--questions", type=Path, help="questions on paragraphs, for the relevance task")
    parser.add_argument("--tokenizer", type=Path, help="a vocabulary; without one, it is trained on the corpus")
    parser.add_argument("--rows", type=int, default=1_000, help="maximum number of training rows per task")
    parser.add_argument("--epochs", type=float, default=3.0, help="of fine-tuning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--set", action="append", default=[], help="a setting of the pretraining, as for plm")
    parser.add_argument("--task-set", action="append", default=[], help="a setting of the fine-tuning, as for plm")
    asked = parser.parse_args()
    asked.figures = asked.figures or asked.out / "figures"
    asked.tasks = {}
    for task in asked.task:
        name, equals, folder = task.partition("=")
        if not equals or not all((Path(folder) / f"{part}.tsv").is_file() for part in ("train", "dev")):
            parser.error(f"--task {task}: give NAME=FOLDER, with train.tsv, dev.tsv and perhaps test.tsv in it")
        asked.tasks[name] = Path(folder)
    if not asked.tasks:
        parser.error("--task NAME=FOLDER: give at least one task to compare on")
    return asked


if __name__ == "__main__":
    main()
