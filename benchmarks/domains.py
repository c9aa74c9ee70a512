"""Domains as tasks of one kind: a language model of text C, trained on text A alone or on A and B for as many steps.

python -m benchmarks.domains --a FILE --b FILE --c FILE --steps 300 --out FOLDER

The same command resumes where an earlier one stopped.
"""

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.finetuned import processor_minutes
from benchmarks.shared import table
from benchmarks.small_budget import finished
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.errors import PlmError
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest


def main() -> None:
    asked = parse()
    try:
        with processor_minutes():
            print(loss_table(losses(asked)))
    except PlmError as error:
        sys.exit(f"domains: {error}")


def losses(asked: argparse.Namespace) -> dict[str, list[float]]:
    """The validation loss on C per token, by what was trained on; a loss per seed."""
    found: dict[str, list[float]] = {"A and B": [], "A alone": []}
    for seed in range(asked.seeds):
        for name, corpora in (("A and B", (asked.a, asked.b)), ("A alone", (asked.a,))):
            found[name].append(loss_after(asked, name, tuple(map(str, corpora)), seed))
    return found


def loss_after(asked: argparse.Namespace, name: str, corpora: tuple[str, ...], seed: int) -> float:
    out, first = asked.out / f"{name}-{seed}", asked.out / "A and B-0"
    settings = ["run.threads=1", *asked.set]
    if out != first:  # losses compare only with the same vocabulary
        settings = [setting for setting in settings if not setting.startswith("tokenizer.")]
    result = finished(out)
    if result is None:
        request = PretrainRequest(
            settings=settle(find(asked.recipe), settings), corpora=corpora, out=out, budget=Budget(steps=asked.steps),
            valid=str(asked.c), tokenizer=None if out == first else first, seed=seed,
        )  # fmt: skip
        result = pretrain(request, Screen(quiet=True)).result
    return float(next(value for measure, value in result.items() if measure.startswith("valid/")))


def loss_table(found: dict[str, list[float]]) -> str:
    rows = [
        (name, f"{statistics.mean(some):.4f} ± {statistics.stdev(some) if len(some) > 1 else 0.0:.4f}")
        for name, some in found.items()
    ]
    return table(("trained on, for as many steps", "validation loss on C"), rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.domains", description="A language model of text C, trained on A, or on A and B."
    )
    for name in ("a", "b", "c"):
        parser.add_argument(f"--{name}", type=Path, required=True, help=f"text of domain {name.upper()}")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="gpt2-tiny")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE; repeatable")
    return parser.parse_args()


if __name__ == "__main__":
    main()
