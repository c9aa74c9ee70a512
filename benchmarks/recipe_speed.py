"""What the recipes cost: making their batches, finding Chinese units, and their steps compared with BERT's."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.loops import our_steps, read_samples
from benchmarks.shared import CHINESE, Line, Options, learn_tokenizer, say, sides, take_turns, text_files, zipf

TITLE = "Recipes: batches against steps, Chinese units against 1 MB/s per core, steps against BERT's"
MOST_SHARE = 0.05  # of a step, that making its batch may take
LEAST_SPEED = 1.0  # MB/s on one core
ELECTRA_COST = 1.6  # times BERT's step
RECIPES = (
    "bert-mini", "bert-wwm-mini", "spanbert-mini", "roberta-mini", "albert-mini", "electra-mini", "ernie-mini",
)  # fmt: skip
PARTED = 0.75  # of the lone characters that follow another
UNLISTED, NAMES = 0.03, 5_000  # of the words, that no dictionary has, and how many such there are
LEVELS = ("word", "phrase", "entity")


def run(options: Options) -> list[Line]:
    text = next(iter(text_files(options, 0.2 if options.quick else 4, [CHINESE]).values()))
    tokenizer = learn_tokenizer(text, 1_000 if options.quick else 21_128, options.folder / f"{text.stem}-recipes")
    work = text, tokenizer, options.folder / "cache", options.quick
    lines = batches(options, work)
    lines += units(options, options.corpus or write_words(options))
    return lines + steps(options, work)


def batches(options: Options, work: tuple[Any, ...]) -> list[Line]:
    """How many batches are made, by one worker, while one step is taken."""
    lines = []
    for name in RECIPES[-1:] if options.quick else RECIPES:
        say(f"recipes: batches of {name}")
        with sides((make_recipe, name, *work)) as (side,):
            result = [side() for _ in range(options.rounds)]
        lines.append(
            Line(
                case=f"{name}: batches made, against steps taken",
                unit="1/s",
                ours=[1 / (round["batch_seconds"] + round["plan_seconds"]) for round in result],
                theirs=[1 / round["step_seconds"] for round in result],
                target=1 / MOST_SHARE,
            )
        )
    return lines


def units(options: Options, text: Path) -> list[Line]:
    """How fast words, phrases and entities are found, one process, its own time."""
    lines = []
    for level in LEVELS[-1:] if options.quick else LEVELS:
        say(f"recipes: Chinese units, {level}")
        with sides((make_units, text, level)) as (side,):
            result = [side() for _ in range(options.rounds)]
        speeds = [round["megabytes"] / round["seconds"] for round in result]
        case = f"Chinese units up to {level}, one core, against {LEAST_SPEED:g} MB/s"
        lines.append(Line(case=case, unit="MB/s", ours=speeds, theirs=[LEAST_SPEED] * len(speeds), target=1.0))
    return lines


def steps(options: Options, work: tuple[Any, ...]) -> list[Line]:
    """Tokens per second at one shape, in turns."""
    lines = []
    compared = {"electra-mini": 1 / ELECTRA_COST, "albert-mini": 1.0}
    for name, target in list(compared.items())[: 1 if options.quick else 2]:
        say(f"recipes: steps of {name} against bert-mini")
        with sides((make_recipe, name, *work), (make_recipe, "bert-mini", *work)) as (ours, theirs):
            a, b = take_turns(partial(ours, False), partial(theirs, False), options.rounds)
        lines.append(
            Line(
                case=f"{name} against bert-mini, same shape",
                unit="tokens/s",
                ours=[round["tokens_per_second"] for round in a],
                theirs=[round["tokens_per_second"] for round in b],
                target=target,
            )
        )
    return lines


def write_words(options: Options) -> Path:
    """Text of jieba's own words, as often as it says that they come, with a few that it does not have.

    Drawn blindly, words of one character would meet three times as often as in prose, and runs of them take the
    tagger's time: most that follow another give way to a longer word, so that there is one run in some 35 characters.
    """
    rng = np.random.default_rng([options.seed, 3])
    listed = jieba_words()
    words, counts = list(listed), np.array(list(listed.values()), dtype=float)
    many = 20_000 if options.quick else 1_000_000
    common = sorted((word for word in words if len(word) == 1), key=lambda word: -listed[word])[:2_000]
    names = ["".join(common[place] for place in row) for row in rng.integers(len(common), size=(NAMES, 2))]
    lone = np.array([len(word) == 1 for word in words])
    drawn = rng.choice(len(words), size=many, p=counts / counts.sum())
    longer = rng.choice(np.flatnonzero(~lone), size=many, p=counts[~lone] / counts[~lone].sum())
    meets = lone[drawn] & np.append(False, lone[drawn][:-1]) & (rng.random(many) < PARTED)
    listed_words = np.where(meets, longer, drawn).tolist()
    own = zipf(NAMES, 1.1, many, rng).tolist()
    new = (rng.random(many) < UNLISTED).tolist()
    text = [names[name] if is_new else words[word] for word, name, is_new in zip(listed_words, own, new, strict=True)]
    lengths = np.clip(rng.lognormal(2.8, 0.6, size=many // 10), 3, 90).astype(int)
    ends = np.cumsum(lengths)
    path = options.folder / "words.txt"
    sentences = ("".join(text[begin:end]) + "。" for begin, end in pairwise([0, *ends[ends < many].tolist()]))
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return path


def jieba_words() -> dict[str, int]:
    """The words of jieba's dictionary, `word frequency tag` on each line, with their frequencies."""
    found = find_spec("jieba")
    assert found is not None and found.origin is not None
    lines = (Path(found.origin).parent / "dict.txt").read_text(encoding="utf-8").splitlines()
    return {word: int(frequency) for word, frequency, _ in map(str.split, lines)}


def make_recipe(name: str, text: Path, tokenizer: Path, cache: Path, quick: bool) -> Callable[..., dict[str, float]]:
    """A recipe's steps at 4 layers of 256, rows of 128, batches of 32; what differs is what the paper changed."""
    import torch

    from plmkit.catalogue import find
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.data.samples import Place, Samples
    from plmkit.training.device import set_threads

    set_threads(1 if quick else None)
    recipe = find(name)
    rows, length, taken = (4, 32, 2) if quick else (32, 128, 8)
    shape = {"layers": 2, "heads": 2, "width": 32, "inner": 64} if quick else {"layers": 4, "heads": 4, "width": 256}
    shape |= {} if quick else {"inner": 1024}
    schedule = replace(recipe.schedule, batch=rows)
    stages = tuple(replace(stage, length=length) for stage in recipe.stages)
    recipe = replace(recipe, architecture=replace(recipe.architecture, **shape), stages=stages, schedule=schedule)
    samples = read_samples(text, tokenizer, cache, recipe.streams[0].steps)
    torch.manual_seed(0)
    network = recipe.build(samples.vocabulary)
    optimizer = schedule.optimizer.build(network.named_parameters(), schedule.learning_rate)

    def one_round(with_batches: bool = True) -> dict[str, float]:
        tokens, seconds = our_steps(network, MixtureSource.of_one(samples, length), optimizer, schedule, taken)
        result = {"tokens_per_second": tokens / seconds, "step_seconds": seconds / taken}
        return result | (making(samples) if with_batches else {})

    def making(samples: Samples) -> dict[str, float]:
        """The plan of an epoch, shared by its batches, and each batch."""
        samples.planned = None
        started = time.perf_counter()
        _, order = samples.plan(0, length, rows)
        planned = time.perf_counter()
        position, many = Place(), max(1, min(len(order) // rows, 20))
        for _ in range(many):
            _, position = samples.next(position, rows, length)
        made = time.perf_counter()
        return {"plan_seconds": (planned - started) / (len(order) / rows), "batch_seconds": (made - planned) / many}

    return one_round


def make_units(text: Path, level: str) -> Callable[[], dict[str, float]]:
    from plmkit.segmentation.chinese import Jieba
    from plmkit.tokenizers.pieces import groups

    lines = [line for line in text.read_text(encoding="utf-8").split("\n") if line]
    segmenter = Jieba(level=level).build()
    segmenter.spans(lines[:10])  # the dictionary is read here, once

    def one_round() -> dict[str, float]:
        started = time.process_time()
        for group in groups(lines, 500_000):
            segmenter.spans(group)
        return {"seconds": time.process_time() - started, "megabytes": text.stat().st_size / 1e6}

    return one_round
