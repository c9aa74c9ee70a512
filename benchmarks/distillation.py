"""A student with and without its teacher: test accuracy over seeds, on labelled rows and with further unlabelled ones.

python -m benchmarks.distillation TEACHER FOLDER --out OUT [--student bert-tiny] [--labelled 2000] [--length 64]

FOLDER has train.tsv, dev.tsv and test.tsv with the columns label and text_a. The teacher is fine-tuned on the first
rows of train.tsv, the student on the same ones; the texts of all others are the unlabelled rows.
"""

import argparse
import csv
import json
from dataclasses import replace
from pathlib import Path

from plmkit.api import Distilling, distillation, finetune
from plmkit.data.reading.columns import Columns
from plmkit.inference.loading import load
from plmkit.terminal.screen import Screen
from plmkit.training.run_folder import RunFolder

WAYS: dict[str, dict[str, object]] = {  # soft targets alone, with labels too, states first, and with unlabelled rows
    "soft": {},
    "soft, labels": {"sets": ("distill.label_weight=1.0",)},
    "soft, unlabelled": {"unlabelled": True},
    "soft, labels, unlabelled": {"unlabelled": True, "sets": ("distill.label_weight=1.0",)},
    "minilm, unlabelled": {"unlabelled": True, "method": "minilm"},
}


def parts_of(folder: Path, out: Path, labelled: int, most: int) -> tuple[Path, Path]:
    """The first rows with their labels, and the texts of up to `most` others, as two files."""
    with open(folder / "train.tsv", encoding="utf-8") as file:
        rows = [(row["label"], row["text_a"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    out.mkdir(parents=True, exist_ok=True)
    first, rest = out / "labelled.tsv", out / "unlabelled.tsv"
    first.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows[:labelled]), "utf-8")
    rest.write_text("text\n" + "".join(f"{text}\n" for _, text in rows[labelled : labelled + most]), "utf-8")
    return first, rest


def with_text(file: Path, out: Path) -> Path:
    """The same rows with our names of the columns."""
    made = out / file.name
    head, *rows = file.read_text(encoding="utf-8").splitlines()
    assert head.split("\t") == ["label", "text_a"], head
    made.write_text("\n".join(["label\ttext", *rows]) + "\n", encoding="utf-8")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--student", default="bert-tiny")
    parser.add_argument("--labelled", type=int, default=2000)
    parser.add_argument("--unlabelled", type=int, default=8000)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", default=",".join(map(str, range(len(WAYS)))))
    given = parser.parse_args()
    train, rest = parts_of(given.folder, given.out, given.labelled, given.unlabelled)
    dev, test = (with_text(given.folder / name, given.out) for name in ("dev.tsv", "test.tsv"))
    teacher, screen = given.out / "teacher", Screen(quiet=True)
    finetune(
        given.teacher, "classify", train, teacher, dev=dev, test=test, epochs=3, quiet=True,
        settings={"task.length": given.length, "task.ngrams": False, "run.threads": 1},
    )  # fmt: skip
    report = load(teacher, device="cpu").evaluate(test)
    print(f"teacher: {report.scores['accuracy']:.4f}", flush=True)
    common = Distilling(
        teacher=teacher, student=given.student, data=(str(train),), out=given.out, dev=dev, test=test,
        epochs=given.epochs, seeds=given.seeds, columns=Columns(text="text", label="label"), alone=True,
    )  # fmt: skip
    for number in map(int, given.ways.split(",")):
        name = list(WAYS)[number]
        way = dict(WAYS[name])
        if way.pop("unlabelled", False):
            way["unlabelled"] = rest
        sets = (f"task.length={given.length}", "run.threads=1", *way.pop("sets", ()))  # type: ignore[misc]
        out = given.out / f"way-{number}"
        found = distillation(replace(common, out=out, sets=sets, **way), screen)  # type: ignore[arg-type]
        runs = {"distilled": out, "alone": out / "alone"}
        line = {
            run: {part: RunFolder(folder).record.result["over_seeds"][part]["accuracy"] for part in ("dev", "test")}  # type: ignore[union-attr]
            for run, folder in runs.items()
        }
        print(name, json.dumps(line), json.dumps([dict(one) for one in found.compared]), flush=True)


if __name__ == "__main__":
    main()
