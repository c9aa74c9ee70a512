"""XLNet's pretraining compared with transformers' model: with its permutation collator, and with our orders."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.loops import read_samples
from benchmarks.shared import ENGLISH, LEARNT_FROM, Line, Options, say, sides, take_turns, text_files

TITLE = "XLNet pretraining against transformers' XLNetLMHeadModel, same shape, batches and updates included"
TARGET = 1.5
SHAPES = {"4 x 256": (4, 4, 256, 1024), "12 x 768": (12, 12, 768, 3072)}  # layers, heads, width, inner
QUICK = {"2 x 32": (2, 2, 32, 64)}
RIVALS = {"its permutation collator": "collator", "our orders, asked positions only": "orders"}
CLIP, RATE = 1.0, 1e-4


def run(options: Options) -> list[Line]:
    text = next(iter(text_files(options, 0.2 if options.quick else 4, [ENGLISH]).values()))
    tokenizer = learn_unigram(text, 400 if options.quick else 8_000, options.folder / f"{text.stem}-unigram")
    lines = []
    for shape, numbers in (QUICK if options.quick else SHAPES).items():
        for rival, batches in RIVALS.items():
            say(f"xlnet: {shape}, {rival}")
            work = text, tokenizer, options.folder / "cache", numbers, options.quick
            with sides((make_ours, *work), (make_theirs, batches, *work)) as (ours, theirs):
                a, b = take_turns(ours, theirs, options.rounds)
            lines.append(Line(case=f"{shape}, {rival}", unit="tokens/s", ours=a, theirs=b, target=TARGET))
    return lines


def learn_unigram(text: Path, size: int, folder: Path) -> Path:
    """A folder with XLNet's tokenizer, trained on the text, that both sides read."""
    from plmkit.tokenizers.unigram import ClosingUnigram

    if not folder.exists():
        folder.mkdir(parents=True)
        with open(text, encoding="utf-8") as file:
            ClosingUnigram(size=size).train(file.read(LEARNT_FROM).splitlines()).save(folder)
    return folder


def sizes(quick: bool) -> tuple[int, int, int]:
    """Rows, their length, steps of a round."""
    return (2, 32, 2) if quick else (8, 128, 8)


def samples_of(text: Path, tokenizer: Path, cache: Path):
    """Our batches: no memory and one direction, because the collator has neither."""
    from plmkit.corruption.arrange.reuse import ReusedText
    from plmkit.corruption.mask.permutation import PermutedSpans

    return read_samples(text, tokenizer, cache, (ReusedText(backward=False), PermutedSpans()))


def make_ours(
    text: Path, tokenizer: Path, cache: Path, numbers: tuple[int, ...], quick: bool
) -> Callable[[], float]:  # fmt: skip
    import torch

    from plmkit.catalogue import find
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.schedules.schedule import Stage
    from plmkit.training.device import set_threads
    from plmkit.training.loop import Budget, State, train
    from plmkit.training.step import Step

    set_threads(1 if quick else None)
    rows, length, taken = sizes(quick)
    layers, heads, width, inner = numbers
    samples = samples_of(text, tokenizer, cache)
    recipe = find("xlnet-large")
    shape = {"layers": layers, "heads": heads, "width": width, "inner": inner, "memory": 0}
    schedule = replace(recipe.schedule, batch=rows, learning_rate=RATE, clip=CLIP)
    recipe = replace(
        recipe, architecture=replace(recipe.architecture, **shape), stages=(Stage(length=length),), schedule=schedule
    )
    torch.manual_seed(0)
    network = recipe.build(samples.vocabulary)
    optimizer = recipe.schedule.optimizer.build(network.named_parameters(), RATE)
    states, source = [State()], MixtureSource.of_one(samples, length)

    def one_round() -> float:
        started = time.perf_counter()
        steps = states[-1].step + taken
        state = train(
            Step(network, optimizer, clip=schedule.clip), source, schedule, Budget(steps=steps), lambda report: True,
            seed=0, state=replace(states[-1], seconds=0.0),
        )  # fmt: skip
        states.append(state)
        return rows * length * taken / (time.perf_counter() - started)

    one_round()
    return one_round


def make_theirs(
    batches: str, text: Path, tokenizer: Path, cache: Path, numbers: tuple[int, ...], quick: bool
) -> Callable[[], float]:
    import torch
    from transformers import (
        AutoTokenizer,
        DataCollatorForPermutationLanguageModeling,
        XLNetConfig,
        XLNetLMHeadModel,
    )

    from plmkit.data.samples import Place
    from plmkit.training.device import set_threads

    set_threads(1 if quick else None)
    rows, length, taken = sizes(quick)
    layers, heads, width, inner = numbers
    samples = samples_of(text, tokenizer, cache)
    torch.manual_seed(0)
    network = XLNetLMHeadModel(
        XLNetConfig(
            vocab_size=len(samples.vocabulary),
            d_model=width,
            n_layer=layers,
            n_head=heads,
            d_inner=inner,
            ff_activation="gelu_new",
            mem_len=None,
        )
    ).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, fused=True)
    collator = DataCollatorForPermutationLanguageModeling(
        AutoTokenizer.from_pretrained(tokenizer), plm_probability=1 / 6, max_span_length=5
    )
    positions = [Place()]

    def batch() -> dict[str, torch.Tensor]:
        given, position = samples.next(positions[-1], rows, length)
        positions.append(position)
        if batches == "collator":
            return collator([{"input_ids": row} for row in given.source.tokens])
        return as_theirs(given)

    def one_round() -> float:
        started = time.perf_counter()
        for _ in range(taken):
            network(**batch()).loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
        return rows * length * taken / (time.perf_counter() - started)

    one_round()
    return one_round


def as_theirs(given) -> dict:
    """Our batch by their names: the attention mask, and one query per predicted position."""
    import torch

    asked = given.targets >= 0
    places = torch.stack([row.nonzero().flatten() for row in asked])  # every row asks for as many
    return {
        "input_ids": given.source.tokens,
        "token_type_ids": given.source.segments,
        "perm_mask": (given.attention_order[:, :, None, 1] <= given.attention_order[:, None, :, 0]).float(),
        "target_mapping": torch.nn.functional.one_hot(places, given.source.tokens.shape[1]).float(),
        "labels": given.source.tokens.gather(1, places),
    }
