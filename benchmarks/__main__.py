"""`python -m benchmarks`: speeds side by side, and memory."""

import argparse
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import (
    answering_speed,
    attend_speed,
    compression_speed,
    contention,
    distillation_speed,
    elmo_speed,
    ernie2_speed,
    evaluation_speed,
    finetuning_speed,
    generation_speed,
    gpt_speed,
    kinds_speed,
    precision_speed,
    prediction_speed,
    preparation_speed,
    pretraining_speed,
    ranking_speed,
    recipe_speed,
    resident,
    search_speed,
    translation_speed,
    xlnet_speed,
)
from benchmarks.shared import Options, lines_table, say

BENCHMARKS = {
    "pretraining_speed": pretraining_speed,
    "precision_speed": precision_speed,
    "preparation_speed": preparation_speed,
    "finetuning_speed": finetuning_speed,
    "kinds_speed": kinds_speed,
    "prediction_speed": prediction_speed,
    "evaluation_speed": evaluation_speed,
    "generation_speed": generation_speed,
    "gpt_speed": gpt_speed,
    "recipe_speed": recipe_speed,
    "translation_speed": translation_speed,
    "ernie2_speed": ernie2_speed,
    "resident": resident,
    "xlnet_speed": xlnet_speed,
    "elmo_speed": elmo_speed,
    "answering_speed": answering_speed,
    "contention": contention,
    "attend_speed": attend_speed,
    "search_speed": search_speed,
    "ranking_speed": ranking_speed,
    "compression_speed": compression_speed,
    "distillation_speed": distillation_speed,
}
SMALL_BUDGET = """What ten minutes of pretraining are worth is measured on text of your own:
  python -m benchmarks.small_budget --corpus FILE... --task NAME=FOLDER --minutes 10 --seeds 3 --out FOLDER"""


def main() -> None:
    asked = parse()
    # what is measured needs no network, and must not wait for one
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if asked.quick:
        os.environ["OMP_NUM_THREADS"] = "1"  # on a busy machine, threads that wait for each other take minutes
    results: dict[str, Any] = {}
    with TemporaryDirectory(prefix="plmkit-bench-") as folder:
        options = Options(
            folder=Path(folder), rounds=asked.rounds or (1 if asked.quick else 5), quick=asked.quick,
            corpus=asked.corpus, seed=asked.seed,
        )  # fmt: skip
        for name in asked.only or BENCHMARKS:
            lines = BENCHMARKS[name].run(options)
            results[name] = [line.as_json() for line in lines]
            rounds = "1 round" if options.rounds == 1 else f"median of {options.rounds} rounds"
            print(f"\n{BENCHMARKS[name].TITLE} ({rounds})\n\n{lines_table(lines)}\n", flush=True)
    if asked.quick:
        say("A quick run shows that the benchmarks run; its figures mean nothing.")
    if asked.json:
        about = {"machine": machine(), "quick": asked.quick, "rounds": options.rounds, "results": results}
        asked.json.write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(SMALL_BUDGET)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Our speeds against Hugging Face's.")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="run this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, in seconds, to see that everything runs")
    parser.add_argument("--rounds", type=int, help="turns of each side [5; quick: 1]")
    parser.add_argument("--corpus", type=Path, help="a text file of your own, a blank line between its documents")
    parser.add_argument("--seed", type=int, default=0, help="of the made text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    asked = parser.parse_args()
    if asked.rounds is not None and asked.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if asked.corpus and not asked.corpus.is_file():
        parser.error(f"there is no file {asked.corpus}")
    return asked


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    names = ("torch", "transformers", "datasets", "tokenizers")
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


if __name__ == "__main__":
    main()
