"""What memory is worth: Transformer-XL with and without it, trained equally, and its loss by position in the segment.

python -m benchmarks.memory --corpus train.txt --valid valid.txt --steps 2000 --out FOLDER
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.shared import say
from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.batch import Batch, Side
from plmkit.inference.evaluation import evaluate_text, read_text
from plmkit.inference.loading import load
from plmkit.inference.model import Model
from plmkit.terminal.screen import Screen
from plmkit.training.loop import Budget
from plmkit.training.pretrain import pretrain
from plmkit.training.request import PretrainRequest

WITH, WITHOUT = "with memory", "without memory"
COLOURS = {WITH: "#1b6ca8", WITHOUT: "#c0392b"}
WIDTH, HEIGHT, EDGE = 640, 360, 48
POINTS = 32  # of a curve: positions are averaged in this many groups


def main() -> None:
    asked = parse()
    found = compare(asked)
    table = [f"| {name} | {run['loss']:.3f} | {run['perplexity']:.1f} | {run['first']:.3f} | {run['last']:.3f} |"
             for name, run in found["runs"].items()]  # fmt: skip
    head = "| | loss | perplexity | first eighth of the segment | last eighth |\n|---|---|---|---|---|"
    print("\n".join([head, *table]))
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "memory.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (asked.out / "memory.svg").write_text(plot(found), encoding="utf-8")
    print(f"The figures are in {asked.out / 'memory.json'}, the plot in {asked.out / 'memory.svg'}.")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True, help="text to train on, a blank line between its documents")
    parser.add_argument("--valid", type=Path, required=True, help="text to score")
    parser.add_argument("--recipe", default="transformer-xl-mini", help="a Transformer-XL [transformer-xl-mini]")
    parser.add_argument("--steps", type=int, default=2000, help="of each run [2000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="a setting of both runs, as in schedule.batch=16")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs, the figures and the plot")
    return parser.parse_args()


def compare(asked: argparse.Namespace) -> dict[str, Any]:
    """Both runs: the same text in the same order, the same steps, the same network; one forgets every segment."""
    recipe = settle(find(asked.recipe), asked.set).recipe
    length = recipe.max_length
    runs = {}
    for name, steps_kept in ((WITH, recipe.architecture.memory), (WITHOUT, 0)):
        out = asked.out / name.replace(" ", "-")
        settings = settle(find(asked.recipe), [*asked.set, f"architecture.memory={steps_kept}"])
        order = PretrainRequest(
            settings=settings, corpora=(asked.corpus,), out=out, budget=Budget(steps=asked.steps), seed=asked.seed,
            valid=str(asked.valid),
        )  # fmt: skip
        say(f"{name}: {asked.steps:,} steps")
        pretrain(order, Screen())
        model = load(out, device="cpu")
        by_place = loss_by_position(model, asked.valid, length)
        eighth = max(1, length // 8)
        result = evaluate_text(model, asked.valid)
        runs[name] = {
            "loss": float(by_place.mean()),
            "perplexity": float(np.exp(by_place.mean())),
            "first": float(by_place[:eighth].mean()),
            "last": float(by_place[-eighth:].mean()),
            "by_position": [round(float(loss), 5) for loss in by_place],
            "evaluate": vars(result),
        }
    return {"recipe": asked.recipe, "steps": asked.steps, "length": length, "seed": asked.seed, "runs": runs}


@torch.inference_mode()
def loss_by_position(model: Model, file: Path, length: int) -> np.ndarray:
    """(length,) mean loss at each place of a segment, segment after segment of one text."""
    tokens = torch.from_numpy(read_text(model.tokenizer, file).tokens)
    head: Any = model.network.head_that_generates
    sums, count, memory = np.zeros(length), 0, None
    for begin in range(0, len(tokens) - length, length):
        rows = tokens[None, begin : begin + length]
        batch = Batch(source=Side(tokens=rows, visible=rows >= 0, segments=0 * rows), memory=memory)
        states = model.network.model(batch)
        memory = states.memory
        logs = head.vocabulary(states.hidden[0])
        sums += F.cross_entropy(logs, tokens[begin + 1 : begin + length + 1], reduction="none").double().numpy()
        count += 1
    if not count:
        raise SystemExit(f"{file} is shorter than one segment of {length} tokens.")
    return sums / count


def plot(found: dict[str, Any]) -> str:
    """Loss by position in the segment, both runs, as SVG."""
    curves = {name: grouped(np.array(run["by_position"])) for name, run in found["runs"].items()}
    losses = np.concatenate([points[:, 1] for points in curves.values()])
    low, high = float(losses.min()), float(losses.max())

    def place(position: float, loss: float) -> str:
        x = EDGE + (WIDTH - 2 * EDGE) * position / found["length"]
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (loss - low) / max(1e-9, high - low)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        f'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{EDGE},{EDGE} V{HEIGHT - EDGE} H{WIDTH - EDGE}" fill="none" stroke="black"/>',
        f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">position in the segment of '
        f"{found['length']} tokens</text>",
        f'<text x="{EDGE - 6}" y="{EDGE + 4}" text-anchor="end">{high:.2f}</text>',
        f'<text x="{EDGE - 6}" y="{HEIGHT - EDGE}" text-anchor="end">{low:.2f}</text>',
        f'<text x="{EDGE}" y="{EDGE - 14}">loss on held-out text, {found["recipe"]}, {found["steps"]:,} steps</text>',
    ]
    for number, (name, points) in enumerate(curves.items()):
        line = " ".join(place(position, loss) for position, loss in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        parts.append(
            f'<text x="{WIDTH - EDGE}" y="{EDGE + 16 * number}" text-anchor="end" fill="{COLOURS[name]}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def grouped(losses: np.ndarray) -> np.ndarray:
    """(N, 2) the middle of each group of positions and their mean loss."""
    groups = np.array_split(np.arange(len(losses)), min(POINTS, len(losses)))
    return np.array([(group.mean() + 0.5, losses[group].mean()) for group in groups])


if __name__ == "__main__":
    main()
