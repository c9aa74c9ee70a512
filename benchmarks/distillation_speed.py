"""A step of distillation against its bound: the teacher's forward pass and 1.2 times the student's own step.

Processor time, in turns: on a machine that does other things too, all lose alike.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.shared import Line, Options, say
from plmkit.architectures.encoder import Encoder
from plmkit.catalogue import find
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.distillation.methods import METHODS, alone, distilled
from plmkit.distillation.teacher import NetworkTeacher, shape_of
from plmkit.network import Network
from plmkit.recipe import Recipe
from plmkit.training.step import Step

TITLE = "A step of distillation against the teacher's forward pass and 1.2 times the student's step"
SHARE = 1.2  # of the student's own step
VOCABULARY, ROWS, LENGTH, PREDICTED = 8_000, 16, 128, 0.15


def run(options: Options) -> list[Line]:
    teacher = Encoder(layers=6, heads=12, width=384, inner=1536)
    student = Encoder(layers=4, heads=12, width=312, inner=1200)
    if options.quick:
        teacher, student = (replace(one, layers=1, width=48, inner=96) for one in (teacher, student))
    recipe = replace(alone(find("bert-base")), architecture=student)
    torch.manual_seed(options.seed)
    taught_by = network_of(replace(recipe, architecture=teacher)).eval().requires_grad_(False)
    batch = some_batch(*((2, 16) if options.quick else (ROWS, LENGTH)))
    own = stepping(network_of(recipe), batch)

    @torch.no_grad()
    def forward() -> None:
        taught_by(batch)

    lines = []
    for method in METHODS:
        network = network_of(distilled(recipe, method, shape_of(teacher)))
        network.teacher = NetworkTeacher(taught_by, causal=False)
        seconds = in_turns([stepping(network, batch), forward, own], options.rounds)
        bounds = [1 / (teaching + SHARE * alone_) for teaching, alone_ in zip(*seconds[1:], strict=True)]
        lines.append(Line(case=f"{method}, 6×384 teaches 4×312", unit="steps/s", ours=[1 / one for one in seconds[0]],
                          theirs=bounds, target=1.0))  # fmt: skip
        step, teaching, alone_ = map(statistics.median, seconds)
        say(
            f"  {method}: step {step:.3f} s, teacher's forward pass {teaching:.3f} s, student's own step {alone_:.3f} s"
        )
    return lines


def network_of(recipe: Recipe) -> Network:
    return recipe.build(unnamed(VOCABULARY))


def some_batch(rows: int, length: int) -> Batch:
    tokens = torch.randint(5, VOCABULARY, (rows, length))
    targets = torch.where(torch.rand(tokens.shape) < PREDICTED, tokens, IGNORE)
    return Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool)), targets=targets)


def stepping(network: Network, batch: Batch) -> Callable[[], None]:
    optimizer: Any = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    for group in optimizer.param_groups:
        group["peak"] = 1e-4
    step = Step(network.train(), optimizer)

    def run() -> None:
        step.gradients(batch)
        step.update(1.0)

    return run


def in_turns(runs: list[Callable[[], None]], rounds: int) -> list[list[float]]:
    """Seconds of processor time of each, round by round; the first run is not counted."""
    found: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(rounds):
        for run, seconds in zip(runs, found, strict=True):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
    return found
