"""What attention is worth to translation: three networks of ours and Hugging Face's Marian, equal minutes each.

python -m benchmarks.translation --data DIR --source en --target de --minutes 20 --cores 2 --speeds --out DIR
python -m benchmarks.translation --data DIR --source en --target de --minutes 20 --cores 2 --threads 1 --out DIR
    [--only rnn-mini --only marian ...] [--seeds 3]

The folder holds train.tsv and test.tsv, and dev.tsv if there is one, with a column for each language. The minutes are
those of `--cores` cores of an idle machine: the speed of a network on as many threads is measured first (`--speeds`
does only that) and gives the number of its steps, so that other programs slow a run down and do not shorten it, and
several runs, each on fewer threads, can share the machine. The same command resumes where an earlier one stopped;
`python -m benchmarks.translation_report OUT...` shows whatever is finished.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.marian import MarianRun
from benchmarks.shared import say
from benchmarks.translation_report import figures_of, report
from plmkit.catalogue import find
from plmkit.config.machine import Settings, settle
from plmkit.data.samples import Position
from plmkit.errors import PlmError
from plmkit.generation.options import GenerationOptions
from plmkit.inference.loading import load
from plmkit.inference.translating import BEAMS
from plmkit.inference.translation_scores import Pairs, bleu, bleu_tokenizer, by_length, chrf, read_pairs, words_in
from plmkit.preparation.prepare import Material, prepare
from plmkit.storage.files import write_json
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_dtype, name_of, set_threads
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest
from plmkit.training.step import Step

MARIAN = "marian"  # with the shape and the settings of transformer-mini
NAMES = ("rnn-mini", "rnn-attention-mini", "transformer-mini", MARIAN)
WARM, MEASURED = 40, 200  # steps before the speed is measured, and while it is
SHARES = (0.25, 0.5, 0.75, 0.9)  # of the test sources, by length: the borders of the groups that are scored apart
Steps = Callable[[int], int]  # train for some steps; returns their tokens


def main() -> None:
    asked = parse()
    try:
        if asked.speeds:
            for name in asked.only or NAMES:
                speed = speed_of(asked, name, settings_of(asked, name))
                say(f"{name}: {speed['tokens_per_second']:,.0f} tokens/s on {asked.cores} core(s), {speed['dtype']}")
            return
        test = read_pairs(str(asked.data / "test.tsv"), (asked.source, asked.target), True, Screen())
        for seed in range(asked.seeds):
            for name in asked.only or NAMES:
                one_run(asked, name, seed, test)
    except PlmError as error:
        sys.exit(f"translation: {error}")
    report([asked.out], asked.picture)


def one_run(asked: argparse.Namespace, name: str, seed: int, test: Pairs) -> None:
    """Train, translate the test sources and write the figures, unless they are there."""
    kept = figures_of(asked.out, name, seed)
    if kept.is_file():
        return
    settings = settings_of(asked, name)
    speed = speed_of(asked, name, settings)
    steps = max(1, round(60 * asked.minutes * speed["tokens_per_second"] / speed["tokens_per_step"]))
    say(f"{name}, seed {seed}: {steps:,} steps, {speed['tokens_per_second']:,.0f} tokens/s on {asked.cores} core(s)")
    set_threads(asked.threads)
    train = train_marian if name == MARIAN else train_ours
    trained, texts = train(asked, settings, speed["dtype"], steps, seed, test)
    about = {
        "name": name, "seed": seed, "data": asked.data.name, "pair": f"{asked.source}-{asked.target}",
        "minutes": asked.minutes, "cores": asked.cores, "threads": asked.threads, **speed,
    }  # fmt: skip
    write_json(kept, {**about, **trained, **scores(test, texts)})


def settings_of(asked: argparse.Namespace, name: str) -> Settings:
    sets = [f"run.column={asked.source}+{asked.target}", f"run.threads={asked.threads}", *asked.set]
    return settle(find("transformer-mini" if name == MARIAN else name), sets)


def material_of(asked: argparse.Namespace, settings: Settings, seed: int) -> Material:
    return prepare(settings, (str(asked.data / "train.tsv"),), held_out(asked), seed, Screen(quiet=True))


def held_out(asked: argparse.Namespace) -> str | None:
    dev = asked.data / "dev.tsv"
    return str(dev) if dev.is_file() else None


# --- speed


def speed_of(asked: argparse.Namespace, name: str, settings: Settings) -> dict[str, Any]:
    """Tokens of both sides per second on all cores of the budget, and per step; measured once, for all seeds."""
    kept = asked.out / "figures" / f"speed-{name}.json"
    found = read(kept)
    if found is None:
        set_threads(asked.cores)
        material = material_of(asked, settings, 0)
        if name == MARIAN:  # in the precision that is faster for it
            kinds = (torch.float32, torch.bfloat16)
            found = max(
                (measured(marian_steps(settings, material, kind), kind) for kind in kinds),
                key=lambda one: one["tokens_per_second"],
            )
        else:
            dtype = choose_dtype(torch.device("cpu"), settings.run.dtype, settings.recipe.architecture.width)
            found = measured(our_steps(settings, material, dtype), dtype)
        write_json(kept, found)
    return found


def measured(train: Steps, dtype: torch.dtype) -> dict[str, Any]:
    train(WARM)
    started = time.perf_counter()
    tokens = train(MEASURED)
    seconds = time.perf_counter() - started
    return {"tokens_per_second": tokens / seconds, "tokens_per_step": tokens / MEASURED, "dtype": name_of(dtype)}


def our_steps(settings: Settings, material: Material, dtype: torch.dtype) -> Steps:
    recipe, schedule = settings.recipe, settings.recipe.schedule
    network = recipe.build(material.tokenizer.vocabulary).train()
    step = Step(
        network, schedule.optimizer.build(network.named_parameters(), schedule.learning_rate), clip=schedule.clip,
        dtype=dtype,
    )  # fmt: skip
    source, position = material.source(recipe, 0), Position()

    def train(steps: int) -> int:
        nonlocal position
        tokens = 0
        for _ in range(steps):
            batch, position = source.next(position, step=0, progress=0.0, rows=schedule.batch)
            step.gradients(batch)
            step.clipped()
            step.update(0.1)
            tokens += batch.token_count
        return tokens

    return train


def marian_steps(settings: Settings, material: Material, dtype: torch.dtype) -> Steps:
    run = MarianRun(settings.recipe, material, 0, dtype)

    def train(steps: int) -> int:
        before = run.tokens
        run.train(steps, of=10_000)
        return run.tokens - before

    return train


# --- training


def train_ours(
    asked: argparse.Namespace, settings: Settings, dtype: str, steps: int, seed: int, test: Pairs
) -> tuple[dict[str, Any], list[str]]:
    """What `plm pretrain` and `plm translate` do."""
    out = asked.out / settings.recipe.name / f"seed-{seed}"
    request = PretrainRequest(
        settings=replace(settings, run=replace(settings.run, dtype=dtype)), corpora=(str(asked.data / "train.tsv"),),
        out=out, budget=Budget(steps=steps), seed=seed, valid=held_out(asked),
    )  # fmt: skip
    resumed, started = out.exists(), time.process_time()
    done = pretrain(request, Screen())
    if not done.is_finished:
        sys.exit(130)  # Ctrl-C, after which the run was saved
    seconds = None if resumed else time.process_time() - started  # of the last part only
    model = load(out)
    found, _ = model.translator.translate(test.sources, GenerationOptions(beams=BEAMS))
    trained = {"parameters": model.network.parameter_count, "cpu_seconds": seconds, **done.result}
    return trained, [best[0].text for best in found]


def train_marian(
    asked: argparse.Namespace, settings: Settings, dtype: str, steps: int, seed: int, test: Pairs
) -> tuple[dict[str, Any], list[str]]:
    """A plain loop over the batches of transformer-mini with this seed, and transformers' `generate`."""
    material = material_of(asked, settings, seed)
    run = MarianRun(settings.recipe, material, seed, getattr(torch, dtype))
    started = time.perf_counter()
    while run.steps < steps:
        run.train(min(100, steps - run.steps), of=steps)
        say(f"  {MARIAN}: step {run.steps:,} of {steps:,}, {run.seconds / 60:.1f} minutes of the processor")
    tokenizer = material.tokenizer
    rows = [tokenizer.vocabulary.source_row(tokenizer.encode_plain(text)) for text in test.sources]
    texts = [tokenizer.decode(tokens).strip() for tokens in run.translate(rows, BEAMS)]
    weights = [weight for weight in run.marian.network.parameters() if weight.requires_grad]
    trained = {
        "parameters": sum(weight.numel() for weight in weights), "cpu_seconds": run.seconds, "steps": run.steps,
        "tokens": run.tokens, "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip
    return trained, texts


# --- scores


def scores(test: Pairs, texts: Sequence[str]) -> dict[str, Any]:
    tokenizer = bleu_tokenizer(test.targets)
    borders = sorted({int(border) for border in np.quantile(list(map(words_in, test.sources)), SHARES)})
    return {
        "bleu": asdict(bleu(texts, test.targets, tokenizer)),
        "chrf": asdict(chrf(texts, test.targets)),
        "by_length": list(by_length(test.sources, texts, test.targets, tokenizer, borders)),
        "first": [list(one) for one in zip(test.sources[:3], test.targets[:3], texts[:3], strict=True)],
    }


def read(path: Path) -> dict[str, Any] | None:
    from plmkit.storage.files import read_json

    return read_json(path) if path.is_file() else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.translation", description="BLEU of equal minutes, with attention and without."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of train.tsv, test.tsv and perhaps dev.tsv")
    parser.add_argument("--source", required=True, help="column of the sources, such as en")
    parser.add_argument("--target", required=True, help="column of the targets")
    parser.add_argument("--minutes", type=float, default=20.0, help="for each run, of all its cores [20]")
    parser.add_argument("--cores", type=int, default=2, help="whose minutes each run has [2]")
    parser.add_argument("--threads", type=int, default=1, help="of the training, whose steps are those of --cores [1]")
    parser.add_argument("--speeds", action="store_true", help="only measure speeds, on an otherwise idle machine")
    parser.add_argument("--seeds", type=int, default=3, help="of each network [3]")
    parser.add_argument("--only", action="append", choices=NAMES, help="train this one; may be repeated")
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and figures")
    parser.add_argument("--picture", type=Path, help="draw BLEU by source length here")
    parser.add_argument("--set", action="append", default=[], help="a setting of all networks, as for plm")
    asked = parser.parse_args()
    for file in ("train.tsv", "test.tsv"):
        if not (asked.data / file).is_file():
            parser.error(f"--data {asked.data}: there is no {file} in it")
    return asked


if __name__ == "__main__":
    main()
