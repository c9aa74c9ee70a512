"""Every kind of task on real sets: pretrained for minutes, published, from random weights, and without a network.

python -m benchmarks.task_table --data FOLDER --model zh=RUN --model en=RUN --real zh=DIR --real en=DIR --out DIR
    [--rows 2000] [--scored 1000] [--seeds 3] [--epochs 3] [--only sst2 ...] [--theirs]

`--data` holds one folder per set with train and, as far as there are any, dev and test: TSV, or JSON lines. Where one
of the two is missing, the other is the test and a tenth of the training rows is dev. The same command resumes where an
earlier one stopped. `--theirs` trains the published models with transformers' Trainer too, at the same settings.
"""

import argparse
import random
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared import say, table
from benchmarks.small_budget import keep, known, mean_and_deviation, plm, sets
from benchmarks.task_trainer import THEIRS, train_theirs
from plmkit.storage.files import read_json, write_text
from plmkit.tasks.registry import find_kind

PARTS = ("train", "dev", "test")
PRETRAINED, SCRATCH, REAL, TRAINER = "pretrained", "random weights", "published", "published, transformers"
ALONE = "task.ngrams=false"  # but for what is pretrained for minutes, which is mixed with a linear model as by default


@dataclass(frozen=True, kw_only=True)
class Set:
    """A labelled set: what is done with it, and the score that is shown."""

    name: str
    language: str
    kind: str
    measure: str
    length: int = 128  # tokens per row
    group: int | None = None  # column of a TSV file whose rows stay together

    def settings(self, start: str) -> list[str]:
        """Of a fine-tuning from there."""
        alone = [ALONE] if find_kind(self.kind).has_linear_model and start != PRETRAINED else []
        scratch = ["task.scratch=true"] if start == SCRATCH else []
        trainers = ["task.shape=linear_to_zero"] if start == REAL else []  # the schedule of transformers' Trainer
        return [f"task.length={self.length}", "run.threads=1", *alone, *scratch, *trainers]


SETS = (
    Set(name="chnsenticorp", language="zh", kind="classify", measure="accuracy"),
    Set(name="lcqmc", language="zh", kind="pair", measure="accuracy"),
    Set(name="ocnli", language="zh", kind="nli", measure="accuracy"),
    Set(name="msra_ner", language="zh", kind="tag", measure="f1"),
    Set(name="cluener", language="zh", kind="tag", measure="f1"),
    Set(name="cmrc2018", language="zh", kind="qa", measure="f1", length=256),
    Set(name="c3", language="zh", kind="choose", measure="accuracy"),
    Set(name="sst2", language="en", kind="classify", measure="accuracy"),
    Set(name="mrpc", language="en", kind="pair", measure="accuracy"),
    Set(name="rte", language="en", kind="nli", measure="accuracy"),
    Set(name="stsb", language="en", kind="regress", measure="pearson"),
    Set(name="snips", language="en", kind="slots", measure="exact_match"),
    Set(name="ud_english_ewt", language="en", kind="tag", measure="accuracy"),
    Set(name="squad_v1.1", language="en", kind="qa", measure="f1", length=256),
    Set(name="trecqa", language="en", kind="rank", measure="mrr", group=1),
)


def main() -> None:
    asked = parse()
    for one in SETS:
        if asked.only and one.name not in asked.only:
            continue
        files = cut_files(asked, one)
        for start in starts(asked, one):
            try:
                one_run(asked, one, start, files)
            except subprocess.CalledProcessError as error:
                sys.exit(f"task_table: the command above ended with code {error.returncode}.")
    print(report(asked.out))


def starts(asked: argparse.Namespace, one: Set) -> list[tuple[str, Path]]:
    """Where training starts from, by its name in the table."""
    found: dict[str, Path] = {}
    if model := asked.model.get(one.language):
        found |= {PRETRAINED: model, SCRATCH: model}
    if real := asked.real.get(one.language):
        found |= {REAL: real, **({TRAINER: real} if asked.theirs and one.kind in THEIRS else {})}
    return [(name, path) for name, path in found.items() if not asked.start or name in asked.start]


def one_run(asked: argparse.Namespace, one: Set, start: tuple[str, Path], files: dict[str, Path]) -> None:
    """Fine-tune and score, unless that is done."""
    name, model = start
    stem = f"{one.name}-{name.replace(',', '').replace(' ', '-')}"
    figures, out = asked.out / "figures" / f"{stem}.json", asked.out / "runs" / stem
    if figures.is_file():
        return
    seeds = asked.seeds if name != SCRATCH else 1
    before = processor_seconds()
    if name == TRAINER:
        say(f"\n{one.name}: transformers' Trainer")
        ours = read_json(asked.out / "runs" / f"{one.name}-{REAL}" / "run.json")
        result = train_theirs(one.kind, model, files, ours, seeds)
    else:
        given = [text for part, path in files.items() for text in (f"--{part}", str(path))]
        settings = [*one.settings(name), *asked.set]
        options = ["--task", one.kind, "--epochs", f"{asked.epochs:g}", "--seeds", str(seeds), "--out", str(out)]
        result = known(figures, out) or plm("finetune", str(model), *given, *options, *sets(settings))
    seconds = processor_seconds() - before
    about = {"set": vars(one), "start": name, "rows": asked.rows, "cpu_seconds": round(seconds, 1)}
    keep(figures, {**result, "about": about})


def processor_seconds() -> float:
    """Of this process and those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# --- files


def cut_files(asked: argparse.Namespace, one: Set) -> dict[str, Path]:
    """Train, dev and test with at most as many rows as asked for, drawn at random."""
    folder = asked.data / one.name
    found = {part: path for part in PARTS for path in folder.glob(f"{part}.*") if path.suffix in (".tsv", ".jsonl")}
    if "train" not in found or len(found) < 2:
        sys.exit(f"task_table: {folder} has no train and dev or test")
    header = groups_of(found["train"], one.group)[0]
    groups = {part: shuffled(groups_of(path, one.group)[1]) for part, path in found.items()}
    if len(found) < len(PARTS):  # what is not the training rows is the test
        tenth = len(groups["train"]) // 10
        test = groups.pop("dev" if "dev" in groups else "test")
        groups = {"train": groups["train"][tenth:], "dev": groups["train"][:tenth], "test": test}
    files = {}
    for part, own in groups.items():
        files[part] = asked.out / "rows" / one.name / f"{part}{found['train'].suffix}"
        write_text(files[part], header + "".join(first_lines(own, asked.rows if part == "train" else asked.scored)))
    return files


def shuffled(groups: list[list[str]]) -> list[list[str]]:
    random.Random(0).shuffle(groups)
    return groups


def groups_of(path: Path, column: int | None) -> tuple[str, list[list[str]]]:
    """The header of a TSV file, and its lines; those of one group are together."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    header = lines.pop(0) if path.suffix == ".tsv" else ""
    if column is None:
        return header, [[line] for line in lines]
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(line.split("\t")[column], []).append(line)
    return header, list(groups.values())


def first_lines(groups: list[list[str]], most: int) -> list[str]:
    """Whole groups, up to this many lines."""
    taken: list[str] = []
    for group in groups:
        if taken and len(taken) + len(group) > most:
            break
        taken += group
    return taken


# --- table


def report(out: Path) -> str:
    """Test scores of whatever is finished, in per cent; after the sign, the standard deviation over seeds."""
    found = [read_json(path) for path in sorted((out / "figures").glob("*.json"))]
    cells = {(one["about"]["set"]["name"], one["about"]["start"]): one for one in found}
    names = [start for start in (SCRATCH, PRETRAINED, REAL, TRAINER) if any(key[1] == start for key in cells)]
    rows = []
    for one in SETS:
        own = [cells.get((one.name, start)) for start in names]
        if any(own):
            shown = [cell_of(cell, one.measure) if cell else "" for cell in own]
            floor = cells.get((one.name, PRETRAINED)) or cells.get((one.name, REAL))
            rows.append((one.name, one.kind, one.measure, floor_of(floor, one) if floor else "", *shown))
    return table(("set", "kind", "score", "without a network", *names), rows)


def cell_of(figures: dict[str, Any], measure: str) -> str:
    values = [run["test"][measure] for run in figures["seeds"]]
    return f"{mean_and_deviation(values)} ({figures['about']['cpu_seconds'] / 60:.1f} min)"


def floor_of(figures: dict[str, Any], one: Set) -> str:
    """The linear model where the kind has one, else the best answer that needs no network."""
    if linear := figures.get("linear"):
        return f"{100 * next(iter(linear.values()))['test']:.1f} (linear model)"
    every = figures.get("baselines", {}).get("test") or [figures["baseline"]["test"]]
    best = max((each for each in every if each["measure"] == one.measure), key=lambda each: each["score"], default=None)
    return "" if best is None else f"{100 * best['score']:.1f} ({best['answer']})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.task_table", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--model", action="append", default=[], metavar="LANGUAGE=RUN", help="pretrained for minutes")
    parser.add_argument("--real", action="append", default=[], metavar="LANGUAGE=DIR", help="a published model")
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and figures")
    parser.add_argument("--rows", type=int, default=2000, help="maximum number of training rows [2000]")
    parser.add_argument("--scored", type=int, default=1000, help="maximum number of rows of dev, and of test [1000]")
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning; one from random weights [3]")
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--only", nargs="+", choices=[one.name for one in SETS], help="these sets")
    parser.add_argument("--start", nargs="+", choices=(PRETRAINED, SCRATCH, REAL, TRAINER), help="these columns")
    parser.add_argument("--theirs", action="store_true", help="also train the published models with the Trainer")
    parser.add_argument("--set", action="append", default=[], help="a setting of the fine-tuning, as for plm")
    asked = parser.parse_args()
    for name in ("model", "real"):
        setattr(
            asked, name, {key: Path(path) for key, _, path in (text.partition("=") for text in getattr(asked, name))}
        )
    return asked


if __name__ == "__main__":
    main()
