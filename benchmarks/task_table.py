"""Every kind of task on real sets: pretrained for minutes, published, from random weights, and without a network.

python -m benchmarks.task_table --data FOLDER --model zh=RUN --model en=RUN --real zh=DIR --real en=DIR --out DIR
    [--rows 2000] [--scored 1000] [--seeds 3] [--epochs 3] [--only sst2 ...] [--start ...] [--theirs [--their-seeds 1]]

`--data` holds one folder per set with train and, as far as there are any, dev and test: TSV, or JSON lines. Where one
of the two is missing, the other is the test and a tenth of the training rows is dev. Rows of `qa` are questions; the
questions about a text stay together. The same command resumes where an earlier one stopped. Several at the same time
may write to one `--out` if they differ in `--only` or `--start`.

`--theirs` trains the published models with transformers' Trainer too, at the same settings, from the same folders;
it reads the settings of our run from the published model, which has to be done before. `slots` and `rank` have no
example script in transformers, and are trained by ours alone.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared import say, table
from benchmarks.small_budget import keep, known, mean, mean_and_deviation, plm, sets
from benchmarks.task_floor import floor_scores
from benchmarks.task_trainer import THEIRS, train_theirs
from plmkit.storage.files import read_json, write_text
from plmkit.tasks.registry import find_kind

PARTS = ("train", "dev", "test")
PRETRAINED, SCRATCH, REAL, TRAINER = "pretrained", "random weights", "published", "published, transformers"
NO_NETWORK = "without a network"
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
        alone = [ALONE] if find_kind(self.kind)().has_linear_model and start != PRETRAINED else []
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
        write_floor(asked, one, files)
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


def write_floor(asked: argparse.Namespace, one: Set, files: dict[str, Path]) -> None:
    """What needs no network, unless that is done; it takes seconds."""
    figures = figures_of(asked, one, NO_NETWORK)
    if not figures.is_file():
        keep(figures, {**floor_scores(one.kind, files), "about": about(asked, one, NO_NETWORK, files)})


def about(asked: argparse.Namespace, one: Set, start: str, files: dict[str, Path], **more: float) -> dict[str, Any]:
    """What a result belongs to."""
    counts = {part: sum(map(size_of, groups_of(path, None)[1])) for part, path in files.items()}
    return {"set": vars(one), "start": start, "rows": counts, "epochs": asked.epochs, **more}


def figures_of(asked: argparse.Namespace, one: Set, start: str) -> Path:
    return asked.out / "figures" / f"{stem_of(one, start)}.json"


def stem_of(one: Set, start: str) -> str:
    return f"{one.name}-{start.replace(',', '').replace(' ', '-')}"


def one_run(asked: argparse.Namespace, one: Set, start: tuple[str, Path], files: dict[str, Path]) -> None:
    """Fine-tune and score, unless that is done."""
    name, model = start
    figures, out = figures_of(asked, one, name), asked.out / "runs" / stem_of(one, name)
    if figures.is_file():
        return
    seeds = asked.their_seeds or asked.seeds if name == TRAINER else asked.seeds
    before = processor_seconds()
    if name == TRAINER:
        say(f"\n{one.name}: transformers' Trainer")
        result = train_theirs(one.kind, model, files, our_settings(asked, one), seeds)
    else:
        given = [text for part, path in files.items() for text in (f"--{part}", str(path))]
        settings = [*one.settings(name), *asked.set]
        options = ["--task", one.kind, "--epochs", f"{asked.epochs:g}", "--seeds", str(seeds), "--out", str(out)]
        result = known(figures, out) or plm("finetune", str(model), *given, *options, *sets(settings))
    seconds = round(processor_seconds() - before, 1)
    keep(figures, {**result, "about": about(asked, one, name, files, cpu_seconds=seconds)})


def our_settings(asked: argparse.Namespace, one: Set) -> dict[str, Any]:
    """The settings of our run from the published model, which theirs has too."""
    kept = asked.out / "runs" / stem_of(one, REAL) / "run.json"
    if not figures_of(asked, one, REAL).is_file() or not kept.is_file():
        sys.exit(f"task_table: theirs has the settings of ours, but {kept.parent} is not finished. Run '{REAL}' first.")
    return read_json(kept)


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
    """Whole groups, up to this many rows."""
    taken: list[str] = []
    rows = 0
    for group in groups:
        rows += size_of(group)
        if taken and rows > most:
            break
        taken += group
    return taken


def size_of(lines: list[str]) -> int:
    """Rows in these lines: of a text with questions, each is one."""
    return sum(len(json.loads(line)["qas"]) if line.startswith("{") and '"qas"' in line else 1 for line in lines)


# --- table


def report(out: Path) -> str:
    """Test scores of whatever is finished, in per cent; after the sign, the standard deviation over seeds."""
    found = [read_json(path) for path in sorted((out / "figures").glob("*.json"))]
    cells = {(one["about"]["set"]["name"], one["about"]["start"]): one for one in found}
    names = [start for start in (SCRATCH, PRETRAINED, REAL, TRAINER) if any(key[1] == start for key in cells)]
    beside = ("points", "times as fast") if TRAINER in names else ()
    rows = []
    for one in SETS:
        own = {start: cells[one.name, start] for start in (NO_NETWORK, *names) if (one.name, start) in cells}
        if own:
            shown = [cell_of(own[start], one.measure) if start in own else "" for start in names]
            floor = floor_of(own[NO_NETWORK], one) if NO_NETWORK in own else ""
            compared = comparison(own[REAL], own[TRAINER], one.measure) if {REAL, TRAINER} <= own.keys() else ("", "")
            count = next(iter(own.values()))["about"]["rows"]["train"]
            rows.append((one.name, one.kind, f"{count:,}", one.measure, floor, *shown, *compared[: len(beside)]))
    return table(("set", "kind", "rows", "score", NO_NETWORK, *names, *beside), rows)


def scores_of(figures: dict[str, Any], measure: str) -> list[float]:
    return [run["test"][measure] for run in figures["seeds"]]


def minutes_of(figures: dict[str, Any]) -> float:
    """Of the processor, per seed."""
    return float(figures["about"]["cpu_seconds"]) / 60 / len(figures["seeds"])


def cell_of(figures: dict[str, Any], measure: str) -> str:
    return f"{mean_and_deviation(scores_of(figures, measure))} ({minutes_of(figures):.1f} min)"


def comparison(ours: dict[str, Any], theirs: dict[str, Any], measure: str) -> tuple[str, str]:
    """By how many points ours is ahead of theirs, on the mean over seeds, and how many times as fast."""
    points = 100 * (mean(scores_of(ours, measure)) - mean(scores_of(theirs, measure)))
    return f"{points:+.1f}", f"{minutes_of(theirs) / minutes_of(ours):.1f}" if minutes_of(ours) else ""


def floor_of(figures: dict[str, Any], one: Set) -> str:
    """The linear model where the kind has one, else the best answer that needs no network."""
    if linear := figures.get("linear"):
        return f"{100 * linear['test']:.1f} (linear model)"
    known = [each for each in figures["baselines"] if each["measure"] == one.measure]
    best = max(known, key=lambda each: each["score"], default=None)
    return "" if best is None else f"{100 * best['score']:.1f} ({best['answer']})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.task_table", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--model", action="append", default=[], metavar="LANGUAGE=RUN", help="pretrained for minutes")
    parser.add_argument("--real", action="append", default=[], metavar="LANGUAGE=DIR", help="a published model")
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and figures")
    parser.add_argument("--rows", type=int, default=2000, help="maximum number of training rows [2000]")
    parser.add_argument("--scored", type=int, default=1000, help="maximum number of rows of dev, and of test [1000]")
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning [3]")
    parser.add_argument("--their-seeds", type=int, help="of transformers' Trainer; as many as of ours by default")
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
