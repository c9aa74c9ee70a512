"""Translating a file with four beams, and training on pairs: our Transformer compared with Hugging Face's Marian.

`make bench` has both copy made sentences. With a trained Transformer and a file of sources:
python -m benchmarks.translation_speed --model RUN --file test.tsv --source en [--rounds 3]
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.loops import RATE, WARM_STEPS, their_seconds
from benchmarks.marian import Marian
from benchmarks.shared import Line, Options, lines_table, one_thread, say, take_turns
from plmkit.training.device import has_bfloat16

TITLE = (
    "Translating and training on pairs: plmkit against transformers' Marian of the same weights, one thread, in turns"
)
BEAMS, BATCH = 4, 32  # sentences of a batch of theirs; ours chooses its own
WORDS = 200  # that occur in the text, of all in the vocabulary
END = 1  # of a vocabulary of words: the unknown token, the end of a text, which also starts a target, and the words
ASIS, SORTED, HALF = "theirs in the order of the file", "theirs sorted by length", "theirs sorted and in bfloat16"
TARGETS = {ASIS: 3.0, SORTED: 1.0, HALF: 1.0}
Turn = Callable[[], tuple[float, Any]]


@dataclass(frozen=True)
class Case:
    """A shape, how long it is trained to copy its source, and how many sentences it translates."""

    name: str
    layers: int
    width: int
    vocabulary: int
    train_steps: int
    sentences: int
    pairs: int  # of a training batch that is timed
    steps: int


CASES = (Case("2 + 2 × 256, vocabulary of 4,000", 2, 256, 4_000, 600, 256, 32, 16),)  # transformer-mini
QUICK = (Case("1 + 1 × 32, vocabulary of 300", 1, 32, 300, 10, 16, 8, 1),)


def run(options: Options) -> list[Line]:
    """On one thread, by the processor's time, which other programs disturb less than the clock's."""
    with one_thread():
        return [line for case in (QUICK if options.quick else CASES) for line in lines_of(case, options)]


def lines_of(case: Case, options: Options) -> Iterator[Line]:
    say(f"translation: {case.name}")
    model = our_model(case, options.seed)
    say(f"  trained to copy for {case.train_steps} steps, loss {train_to_copy(model, case, options.seed):.2f}")
    rows = sentences(case.sentences, np.random.default_rng([options.seed, 2]))
    fast = not options.quick and has_bfloat16(torch.device("cpu"), case.width)
    kinds = (ASIS, SORTED, HALF) if fast else (ASIS, SORTED)
    yield from translation_lines(model, list(map(model.tokenizer.decode, rows)), case.name, kinds, options.rounds)
    for dtype in (torch.float32, torch.bfloat16) if fast else (torch.float32,):
        yield training_line(case, options, dtype)


# --- translating


def translation_lines(model: Any, texts: Sequence[str], name: str, kinds: Sequence[str], rounds: int) -> Iterator[Line]:
    """Both search with the same weights, beams and limits, and without a length penalty, which the two define apart."""
    marian = Marian(model.architecture, model.tokenizer.vocabulary).copy(model.network.model)
    marian.network.eval()
    tokens = sum(len(source.tokens) for source in model.translator.read(texts))
    for kind in kinds:
        if kind is HALF:
            marian.network.bfloat16()
        a, b = take_turns(translate_ours(model, texts), translate_theirs(model, marian, texts, kind), rounds + 1)
        same = sum(one == other for one, other in zip(a[0][1], b[0][1], strict=True)) / len(texts)
        say(f"  {kind}: {same:.1%} of the translations are the same")
        speeds, others = ([tokens / seconds for seconds, _ in side[1:]] for side in (a, b))  # the first round warms up
        yield Line(
            case=f"{BEAMS} beams, {kind}, {name}", unit="source tokens/s", ours=speeds, theirs=others,
            target=TARGETS[kind],
        )  # fmt: skip


def translate_ours(model: Any, texts: Sequence[str]) -> Turn:
    from plmkit.generation.options import GenerationOptions

    options = GenerationOptions(beams=BEAMS, length_penalty=0.0)

    def one_round() -> tuple[float, Any]:
        started = time.process_time()
        found, _ = model.translator.translate(texts, options)
        return time.process_time() - started, [best[0].text for best in found]

    return one_round


def translate_theirs(model: Any, marian: Marian, texts: Sequence[str], kind: str) -> Turn:
    """Sorting is left to the user of `generate`; the time of the tokenizer is not counted."""
    rows = [source.tokens for source in model.translator.read(texts)]
    order = sorted(range(len(rows)), key=lambda number: 0 if kind is ASIS else -len(rows[number]))

    @torch.inference_mode()
    def one_round() -> tuple[float, Any]:
        found: list[list[int]] = [[]] * len(rows)
        started = time.process_time()
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            side = model.translator.side([rows[number] for number in numbers])
            made = marian.generate(side, num_beams=BEAMS, length_penalty=0.0)
            for number, row in zip(numbers, made, strict=True):
                found[number] = row
        seconds = time.process_time() - started
        return seconds, [model.tokenizer.decode(row).strip() for row in found]

    return one_round


def sentences(count: int, rng: np.random.Generator) -> list[list[int]]:
    """Random words, as many as sentences have: half of them between 10 and 26."""
    lengths = np.clip(rng.lognormal(2.8, 0.6, size=count), 3, 60).astype(int).tolist()
    return [rng.integers(END + 1, END + 1 + WORDS, size=length).tolist() for length in lengths]


def our_model(case: Case, seed: int, dropout: float = 0.0) -> Any:
    from plmkit.architectures.encoder_decoder import EncoderDecoder
    from plmkit.inference.model import Model
    from plmkit.network import Network
    from plmkit.objectives.translation_lm import TranslationLM
    from plmkit.tokenizers.counted import Words

    torch.manual_seed(seed)
    made = Words().train([" ".join(f"w{number:05d}" for number in range(case.vocabulary - END - 1))])
    shape = EncoderDecoder(
        layers=case.layers, heads=max(1, case.width // 64), width=case.width, inner=4 * case.width, max_length=128,
        dropout=dropout,
    )  # fmt: skip
    model = shape.build(made.vocabulary)
    network = Network(model, {"translation_lm": TranslationLM(smoothing=0.0).build(model)}, {"translation_lm": 1.0})
    return Model(network=network, architecture=shape, tokenizer=made, folder=Path("benchmark"))


def train_to_copy(model: Any, case: Case, seed: int) -> float:
    """So that translations end where sentences do, and beams differ as they do in a trained model."""
    from plmkit.schedules.optimizers import AdamW
    from plmkit.training.step import Step

    rng = np.random.default_rng([seed, 1])
    network, translator = model.network.train(), model.translator
    step = Step(network, AdamW().build(network.named_parameters(), 1e-3), clip=1.0, dtype=translator.dtype)
    loss = 0.0
    for number in range(case.train_steps):
        rows = sorted(sentences(4 * 32, rng), key=len)[(number % 4) * 32 :][:32]
        loss = step.gradients(translator.pairs([[*row, END] for row in rows], rows)).loss
        step.clipped()
        step.update(min(1, (number + 1) / 50))
    network.eval()
    return loss


# --- training


def training_line(case: Case, options: Options, dtype: torch.dtype) -> Line:
    """Source and target tokens per second, padding not counted; both sides have batches of pairs of like length."""
    rows = sentences(case.pairs * (case.steps + WARM_STEPS), np.random.default_rng([options.seed, 3]))
    ours = our_model(case, options.seed, dropout=0.1)
    theirs = Marian(ours.architecture, ours.tokenizer.vocabulary, dropout=0.1)
    a, b = take_turns(
        train_ours(ours, rows, case, dtype), train_theirs(theirs, rows, case, options, dtype), options.rounds
    )
    name = f"training, both in {str(dtype).removeprefix('torch.')}, {case.name}"
    return Line(case=name, unit="tokens/s", ours=a, theirs=b, target=1.3)


def tokens_of(rows: Sequence[Sequence[int]]) -> int:
    """Of all sources and targets, with their ends."""
    return sum(2 * len(row) + 2 for row in rows)


def train_ours(model: Any, rows: Sequence[list[int]], case: Case, dtype: torch.dtype) -> Callable[[], float]:
    from plmkit.schedules.optimizers import AdamW
    from plmkit.training.step import Step

    step = Step(model.network, AdamW().build(model.network.named_parameters(), RATE), clip=1.0, dtype=dtype)
    order = sorted(rows, key=len)
    batches = [order[start : start + case.pairs] for start in range(0, len(order), case.pairs)]

    def one_round() -> float:
        model.network.train()
        started = time.process_time()
        for some in batches:
            step.gradients(model.translator.pairs([[*row, END] for row in some], some))
            step.clipped()
            step.update(1.0)
        return tokens_of(rows) / (time.process_time() - started)

    return one_round


def train_theirs(
    marian: Marian, rows: Sequence[list[int]], case: Case, options: Options, dtype: torch.dtype
) -> Callable[[], float]:
    examples = [{"input_ids": [*row, END]} for row in rows]
    asked: Any = SimpleNamespace(cache=options.folder, batch=case.pairs, seed=options.seed)
    half = dtype is torch.bfloat16

    def collate(some: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        longest = max(len(one["input_ids"]) for one in some)
        tokens = torch.tensor([one["input_ids"] + [marian.pad] * (longest - len(one["input_ids"])) for one in some])
        visible = tokens != marian.pad
        return {"input_ids": tokens, "attention_mask": visible.long(), "labels": tokens.masked_fill(~visible, -100)}

    def one_round() -> float:
        seconds = their_seconds(
            marian.network.train(), examples, asked, case.steps, collate, grouped=True, clock=time.process_time,
            bf16=half,
        )  # fmt: skip
        return tokens_of(rows) * case.steps / (case.steps + WARM_STEPS) / seconds

    return one_round


# --- a trained model


def main() -> None:
    from plmkit.inference.loading import load
    from plmkit.inference.translation_files import source_table, texts_of
    from plmkit.terminal.screen import Screen

    parser = argparse.ArgumentParser(prog="python -m benchmarks.translation_speed", description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="the run folder of a Transformer")
    parser.add_argument("--file", type=Path, required=True, help="a table of sources")
    parser.add_argument("--source", help="its column")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    texts = texts_of(source_table(str(asked.file), asked.source, True, Screen()), asked.source)
    model = load(asked.model)
    kinds = (ASIS, SORTED, HALF) if model.translator.dtype is torch.bfloat16 else (ASIS, SORTED)
    lines = list(translation_lines(model, texts, f"{len(texts):,} sentences", kinds, asked.rounds))
    print(lines_table(lines))


if __name__ == "__main__":
    main()
