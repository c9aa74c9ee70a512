"""What n-grams are worth to a classifier: a tuned linear model, a pretrained network alone, and both together.

python -m benchmarks.ngrams --on classify MODEL FOLDER --on regress MODEL FOLDER ... --seeds 3 --out FOLDER

Each FOLDER of rows holds train.tsv, and dev.tsv or test.tsv or both. Without test.tsv, dev.tsv is the test; where dev
is missing, a tenth of the training rows takes its place. Everything is chosen on dev. The same command resumes where
an earlier one stopped.
"""

import argparse
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared import table
from benchmarks.small_budget import PARTS, keep, known, mean, mean_and_deviation, plm, sets, tsv
from plmkit.errors import PlmError
from plmkit.storage.files import write_json, write_text
from plmkit.tasks.rows import read_rows

FORMS = {"alone": ["task.ngrams=false"], "together": []}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Labelled rows, what kind of task they are, and the model that is fine-tuned on them."""

    kind: str
    model: Path
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name


def main() -> None:
    asked = parse()
    try:
        found = {case.name: figures(asked, case) for case in asked.cases}
    except PlmError as error:
        sys.exit(f"ngrams: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"ngrams: the command above ended with code {error.returncode}.")
    write_json(asked.out / "ngrams.json", found)
    for part in ("dev", "test"):
        print(f"\n{scores_table(part, found)}")
    print(f"\nAll figures: {asked.out / 'ngrams.json'}")


def figures(asked: argparse.Namespace, case: Case) -> dict[str, Any]:
    """The scores of the linear model, and of each seed of the network alone and with n-grams."""
    given = [text for part, path in files(asked, case).items() for text in (f"--{part}", str(path))]
    results = {}
    for form, settings in FORMS.items():
        folder = asked.out / f"{case.name}-{form}"
        results[form] = known(folder.with_suffix(".json"), folder) or keep(folder.with_suffix(".json"), plm(
            "finetune", str(case.model), "--task", case.kind, *given, "--seeds", str(asked.seeds),
            "--out", str(folder), *sets(asked.set), *sets(settings),
        ))  # fmt: skip
    (linear,) = results["together"]["linear"].values()
    measure = linear["measure"]
    scores = {
        part: {"linear": [linear[part]]}
        | {form: [run[part][measure] for run in result["seeds"]] for form, result in results.items()}
        for part in ("dev", "test")
    }
    return {
        "measure": measure,
        **scores,
        "mixes": [mix for run in results["together"]["seeds"] for mix in run["mix"].values()],
    }


def files(asked: argparse.Namespace, case: Case) -> dict[str, Path]:
    """The files of the folder, or new ones where dev or test is missing."""
    own = {part: case.folder / f"{part}.tsv" for part in PARTS}
    rows = {part: read_rows(path, paired=None) for part, path in own.items() if path.is_file()}
    if len(rows) == len(PARTS):
        return own
    random.Random(0).shuffle(rows["train"])
    tenth = len(rows["train"]) // 10
    test = rows["test"] if "test" in rows else rows["dev"]
    cut = {"train": rows["train"][tenth:], "dev": rows["train"][:tenth], "test": test}
    for part, some in cut.items():
        write_text(
            asked.out / "rows" / case.name / f"{part}.tsv", tsv(some, any(row.other is not None for row in some))
        )
    return {part: asked.out / "rows" / case.name / f"{part}.tsv" for part in PARTS}


def scores_table(part: str, found: dict[str, dict[str, Any]]) -> str:
    """Scores in per cent; after the sign, the standard deviation over the seeds."""
    rows = []
    for name, figures in found.items():
        scores = figures[part]
        lead = 100 * (mean(scores["together"]) - mean(scores["linear"]))
        shown = (mean_and_deviation(scores[form]) for form in ("linear", "alone", "together"))
        rows.append((f"{name}, {figures['measure']}", *shown, f"{lead:+.1f}"))
    return table((part, "linear", "network alone", "together", "together − linear"), rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ngrams", description="What n-grams are worth to a classifier."
    )
    parser.add_argument(
        "--on", nargs=3, action="append", required=True, metavar=("KIND", "MODEL", "FOLDER"),
        help="a kind of task, a pretrained model and a folder of labelled rows; repeatable",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="folder for all runs; finished ones are not repeated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting of the fine-tuning, as for plm")
    asked = parser.parse_args()
    asked.cases = [Case(kind=kind, model=Path(model), folder=Path(folder)) for kind, model, folder in asked.on]
    return asked


if __name__ == "__main__":
    main()
