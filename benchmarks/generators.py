"""ELECTRA's generator by likelihood, and by REINFORCE against the discriminator: how many masked tokens each predicts.

`python -m benchmarks.generators CORPUS --out DIR` trains both networks on the same text for the same steps, and prints
the masked-LM accuracy and loss of both generators on the same held-out text (Clark et al., 2020, appendix F: 65% and
58%).
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.inference.loading import read_parts
from plmkit.preparation.prepare import prepare
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

RECIPES = {"likelihood": "electra-tiny", "adversarial": "electra-tiny-adversarial"}


@dataclass(frozen=True, kw_only=True)
class Generator:
    """Of a generator, on held-out text."""

    accuracy: float  # share of the masked tokens that it finds most likely
    loss: float  # in nats per masked token


def trained(recipe: str, corpus: str, out: Path, *, steps: int, seed: int, sets: Sequence[str] = ()) -> Generator:
    """A generator, trained with its discriminator; a finished run is read again."""
    settings = settle(find(recipe), sets)
    request = PretrainRequest(settings=settings, corpora=(corpus,), out=out, budget=Budget(steps=steps), seed=seed)
    pretrain(request, Screen())
    material = prepare(settings, request.corpora, None, seed, Screen(quiet=True), tokenizer=out)
    network = settings.recipe.build(material.tokenizer.vocabulary).eval()
    network.load_state_dict(read_parts(out).weights)
    right, loss, count = 0, 0.0, 0
    for batch in material.valid_batches(settings.recipe, 0)["text"]:
        with torch.no_grad():
            guesses = network.model(batch).guesses
        wanted = batch.targets[batch.predicted]
        right += int((guesses.argmax(-1) == wanted).sum())
        loss += float(F.cross_entropy(guesses, wanted, reduction="sum"))
        count += len(wanted)
    return Generator(accuracy=right / count, loss=loss / count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generators", description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--steps", type=int, default=1000, help="of each run [1000]")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="a setting of both, as in tokenizer.size=4000")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    asked = parser.parse_args()
    print("| generator | accuracy on masked tokens | loss |\n|---|---:|---:|")
    for way, recipe in RECIPES.items():
        found = [
            trained(recipe, asked.corpus, asked.out / f"{way}-{seed}", steps=asked.steps, seed=seed, sets=asked.set)
            for seed in range(asked.seeds)
        ]
        accuracies = [one.accuracy for one in found]
        loss = statistics.mean(one.loss for one in found)
        print(
            f"| {way} | {statistics.mean(accuracies):.1%} ± {statistics.pstdev(accuracies):.1%} | {loss:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
