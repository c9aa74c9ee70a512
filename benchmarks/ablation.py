"""What RoBERTa changed in BERT, one change after another: no sentence task, larger batches, longer, more text.

python -m benchmarks.ablation --corpus FILE --valid FILE --more FILE --steps 2000 --out FOLDER

The same command resumes where an earlier one stopped.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.shared import table
from benchmarks.small_budget import finished, plm, sets
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.errors import PlmError

TIMES = 4  # how much larger, how much longer


def main() -> None:
    asked = parse()
    try:
        rows = [(change, *figures(result)) for change, result in results(asked)]
    except PlmError as error:
        sys.exit(f"ablation: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"ablation: the command above ended with code {error.returncode}.")
    print(
        f"\n{table(('each line keeps the changes above it', 'steps', 'tokens', 'held-out loss of masked words'), rows)}"
    )
    print("\nThe held-out text is the same throughout, but it is cut into rows as the line's training text is.")


def results(asked: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Each change on top of those before it."""
    batch = settle(find(asked.recipe), asked.set).recipe.schedule.batch
    settings, corpora, steps = list(asked.set), [asked.corpus], asked.steps
    out = [("as the recipe is", run(asked, 0, corpora, steps, settings))]
    settings.append("sentence_task=none")
    out.append(("no sentence task", run(asked, 1, corpora, steps, settings)))
    out.append(
        (
            "rows keep to a document",
            run(asked, 2, corpora, steps, [*settings, "corruption.full_sentences=DocSentences"]),
        )
    )
    settings.append(f"schedule.batch={TIMES * batch}")
    out.append((f"batch {TIMES} times as large", run(asked, 3, corpora, steps, settings)))
    steps *= TIMES
    out.append((f"{TIMES} times as long", run(asked, 4, corpora, steps, settings)))
    if asked.more:
        out.append(("more text", run(asked, 5, [*corpora, *asked.more], steps, settings)))
    return out


def run(asked: argparse.Namespace, number: int, corpora: list[Path], steps: int, settings: list[str]) -> dict[str, Any]:
    folder = asked.out / str(number)
    options = ["--steps", str(steps), "--seed", str(asked.seed), "--valid", str(asked.valid), "--out", str(folder)]
    if number:
        options += ["--tokenizer", str(asked.out / "0")]  # losses compare only with the same vocabulary
        settings = [setting for setting in settings if not setting.startswith("tokenizer.")]
    texts = [str(path) for path in corpora]
    return finished(folder) or plm("pretrain", asked.recipe, *texts, *options, *sets(settings))


def figures(result: dict[str, Any]) -> tuple[str, str, str]:
    return str(result["steps"]), f"{result['tokens']:,}", f"{result['valid/masked_lm']:.4f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation", description="What RoBERTa changed in BERT, one change after another."
    )
    parser.add_argument("--corpus", type=Path, required=True, help="text to pretrain on")
    parser.add_argument("--valid", type=Path, required=True, help="held-out text, the same for all")
    parser.add_argument("--more", nargs="+", type=Path, default=[], help="further text for the last line")
    parser.add_argument("--out", type=Path, required=True, help="folder for all runs; finished ones are not repeated")
    parser.add_argument("--recipe", default="bert-mini", help="one with pairs of texts")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting for all runs, as for plm")
    return parser.parse_args()


if __name__ == "__main__":
    main()
