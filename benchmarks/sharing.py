"""What ALBERT's sharing costs: the same network with all, some or no weights in common, loss compared with parameters.

python -m benchmarks.sharing --corpus FILE --valid FILE --steps 2000 --out FOLDER

The same command resumes where an earlier one stopped.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.shared import table
from benchmarks.small_budget import finished, plm, sets
from plmkit.architectures.shared_encoder import SHARINGS
from plmkit.catalogue import find
from plmkit.config.counting import parameters
from plmkit.config.machine import settle
from plmkit.errors import PlmError
from plmkit.tokenizers.tokenizer import load_tokenizer


def main() -> None:
    asked = parse()
    try:
        rows = [(sharing, *figures(asked, sharing)) for sharing in SHARINGS]
    except PlmError as error:
        sys.exit(f"sharing: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"sharing: the command above ended with code {error.returncode}.")
    print(f"\n{table(('in common', 'parameters', 'steps', 'seconds', 'held-out loss of masked words'), rows)}")


def figures(asked: argparse.Namespace, sharing: str) -> tuple[str, ...]:
    settings = [*asked.set, f"architecture.sharing={sharing}"]
    result = run(asked, sharing, settings)
    tokens = len(load_tokenizer(asked.out / SHARINGS[0]).vocabulary)
    count = parameters(settle(find(asked.recipe), settings).recipe, tokens)
    return f"{count:,}", str(result["steps"]), f"{result['seconds']:.0f}", f"{result['valid/masked_lm']:.4f}"


def run(asked: argparse.Namespace, sharing: str, settings: list[str]) -> dict[str, Any]:
    folder, first = asked.out / sharing, asked.out / SHARINGS[0]
    options = [
        "--steps",
        str(asked.steps),
        "--seed",
        str(asked.seed),
        "--valid",
        str(asked.valid),
        "--out",
        str(folder),
    ]
    if folder != first:
        options += ["--tokenizer", str(first)]  # losses compare only with the same vocabulary
        settings = [setting for setting in settings if not setting.startswith("tokenizer.")]
    return finished(folder) or plm("pretrain", asked.recipe, str(asked.corpus), *options, *sets(settings))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description="What ALBERT's sharing costs.")
    parser.add_argument("--corpus", type=Path, required=True, help="text to pretrain on")
    parser.add_argument("--valid", type=Path, required=True, help="held-out text, the same for all")
    parser.add_argument("--out", type=Path, required=True, help="folder for all runs; finished ones are not repeated")
    parser.add_argument("--recipe", default="albert-mini", help="one whose layers share")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting for all runs, as for plm")
    return parser.parse_args()


if __name__ == "__main__":
    main()
