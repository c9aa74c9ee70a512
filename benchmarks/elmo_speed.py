"""ELMo's pretraining compared with bare torch LSTMs of the same cells, which read word vectors and do not clip."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.shared import ENGLISH, LEARNT_FROM, Line, Options, say, sides, take_turns, text_files

TITLE = "ELMo pretraining against torch.nn.LSTM with projection, same cells, softmax and optimizer, updates included"
TARGET = 0.8
STEPS = {"elmo-original": 2}  # of a round; of smaller networks 8
RECIPES: dict[str, dict[str, int]] = {"elmo-mini": {}, "elmo-original, 64 rows": {"batch": 64}}
RATE, CLIP = 1e-3, 1.0


def run(options: Options) -> list[Line]:
    text = next(iter(text_files(options, 0.2 if options.quick else 4, [ENGLISH]).values()))
    words = learn_words(text, 500 if options.quick else 30_000, options.folder / f"{text.stem}-words")
    lines = []
    for case, schedule in ({"elmo-tiny": {}} if options.quick else RECIPES).items():
        say(f"elmo: {case}")
        work = case.split(",")[0], schedule, text, words, options.folder / "cache", options.quick
        with sides((make_ours, *work), (make_theirs, *work)) as (ours, theirs):
            a, b = take_turns(ours, theirs, options.rounds)
        lines.append(Line(case=case, unit="tokens/s", ours=a, theirs=b, target=TARGET))
    return lines


def learn_words(text: Path, size: int, folder: Path) -> Path:
    """A folder with ELMo's vocabulary of words."""
    from plmkit.tokenizers.counted import SentenceWords

    if not folder.exists():
        folder.mkdir(parents=True)
        with open(text, encoding="utf-8") as file:
            SentenceWords(size=size).train(file.read(LEARNT_FROM).splitlines()).save(folder)
    return folder


def prepared(name: str, schedule: dict[str, int], text: Path, words: Path, cache: Path, quick: bool) -> tuple[Any, Any]:
    """The recipe, and an endless supply of batches, the same for both sides."""
    from benchmarks.loops import read_samples
    from plmkit.catalogue import find
    from plmkit.training.device import set_threads

    set_threads(1 if quick else None)
    recipe = find(name)
    recipe = replace(recipe, schedule=replace(recipe.schedule, **schedule))
    return recipe, read_samples(text, words, cache, [recipe.streams[0].arrangement])


def rounds_of(recipe: Any, samples: Any, step: Callable[[Any], None]) -> Callable[[], float]:
    """Some steps on the next batches; tokens per second."""
    from plmkit.data.samples import Place

    places = [Place()]

    def one_round() -> float:
        started, tokens = time.perf_counter(), 0
        for _ in range(STEPS.get(recipe.name, 8)):
            batch, after = samples.next(places[-1], recipe.schedule.batch, recipe.stages[0].length)
            places.append(after)
            step(batch)
            tokens += int(batch.source.visible.sum())
        return tokens / (time.perf_counter() - started)

    one_round()
    return one_round


def make_ours(*work: Any) -> Callable[[], float]:
    import torch

    from plmkit.training.step import Step

    recipe, samples = prepared(*work)
    torch.manual_seed(0)
    network = recipe.build(samples.vocabulary).train()
    step = Step(network, recipe.schedule.optimizer.build(network.named_parameters(), RATE), clip=CLIP)
    memory: list[Any] = [None]

    def update(batch: Any) -> None:
        memory[0] = step.gradients(batch.with_memory(memory[0])).memory
        step.clipped()
        step.update(1.0)

    return rounds_of(recipe, samples, update)


def make_theirs(*work: Any) -> Callable[[], float]:
    import torch
    from torch import nn

    from plmkit.layers.vocabulary_head import SampledSoftmax

    recipe, samples = prepared(*work)
    shape, objective, size = recipe.architecture, recipe.objectives[0], len(samples.vocabulary)
    width = shape.width // 2
    torch.manual_seed(0)
    words = nn.Embedding(size, width)
    ways = nn.ModuleList(
        nn.LSTM(width, shape.cell, shape.layers, proj_size=width, batch_first=True) for _ in range(2)
    )  # fmt: skip
    softmax = SampledSoftmax(min(size, objective.words or size), width, samples=objective.samples, unknown=2)
    whole = nn.ModuleList([words, ways, softmax]).train()
    optimizer = recipe.schedule.optimizer.build(whole.named_parameters(), RATE)

    def update(batch: Any) -> None:
        for way, lstm in enumerate(ways):
            mine = batch.reversed == bool(way)
            hidden, _ = lstm(words(batch.source.tokens[mine]))
            (softmax.loss(hidden.flatten(0, 1), batch.targets[mine].flatten()) / 2).backward()
        nn.utils.clip_grad_norm_(whole.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()

    return rounds_of(recipe, samples, update)
