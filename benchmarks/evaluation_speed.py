"""Evaluating a long text: Transformer-XL with its memory compared with the character Transformer with sliding windows.

Both have the shape of the paper's smaller network, see the same number of characters before each one, and read
random text: what is measured is time, on one thread that of the processor. The sliding window is read again for every
character, as its paper does.
"""

import time
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.shared import Line, Options, say
from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.generation.likelihood import token_log_probabilities
from plmkit.inference.model import Model
from plmkit.network import Network
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM
from plmkit.tokenizers.byte_bpe import StreamByteBPE
from plmkit.tokenizers.tokenizer import Tokenizer

TITLE = "Evaluation: characters per second with memory, against a sliding window; the target is the paper's ratio"
PAPER = {800: 363.0, 1800: 773.0, 2800: 1409.0, 3800: 1874.0}  # Dai et al., 2019, table 9: on one GPU
SHAPE = {"layers": 12, "heads": 8, "width": 512, "inner": 2048}
QUICK = {"layers": 1, "heads": 2, "width": 16, "inner": 32}
READ, SLID = 1024, 2  # characters that each side reads in a round


def run(options: Options) -> list[Line]:
    lengths = [16, 64, 256, 1024] if options.quick else list(PAPER)
    tokenizer = StreamByteBPE(size=257).train(["text"])
    return [measure(length, tokenizer, options) for length in lengths]


def measure(length: int, tokenizer: Tokenizer, options: Options) -> Line:
    shape = QUICK if options.quick else SHAPE
    settings = {**shape, "max_length": length, "dropout": 0.0, "attention_dropout": 0.0}
    remembering = model_of(SegmentRecurrence(**settings, memory=length), AdaptiveLM(), tokenizer)
    sliding = model_of(CharacterDecoder(**settings), AuxiliaryLM(), tokenizer)
    tokens = torch.randint(256, (length + READ + 1,), generator=torch.Generator().manual_seed(options.seed))
    ours, theirs = [], []
    for number in range(-1, options.rounds):  # the first round only warms up
        fast, slow = read(remembering, tokens, length), slide(sliding, tokens[: length + SLID], length)
        if number >= 0:
            ours.append(fast)
            theirs.append(slow)
        say(f"attention length {length}, round {number + 1}: {fast:,.0f} and {slow:,.2f} characters/s")
    return Line(
        case=f"attention length {length}", unit="characters/s", ours=ours, theirs=theirs, target=PAPER.get(length, 1.0)
    )


def model_of(architecture, objective, tokenizer: Tokenizer) -> Model:
    torch.manual_seed(0)
    built = architecture.build(tokenizer.vocabulary)
    network = Network(built, {"causal_lm": objective.build(built)}, {"causal_lm": 1.0})
    return Model(network=network, architecture=architecture, tokenizer=tokenizer, folder=Path("random"))


def read(model: Model, tokens: Tensor, length: int) -> float:
    """Characters per second once the memory is full: what it takes to fill it is not counted."""
    times: list[tuple[float, int]] = [(seconds(), 0)]

    def note(count: int) -> None:
        times.append((seconds(), times[-1][1] + count))

    token_log_probabilities(model.engine, [tokens.numpy()], advance=note)
    full = next(place for place, (_, done) in enumerate(times) if done >= length)
    return (times[-1][1] - times[full][1]) / (times[-1][0] - times[full][0])


def slide(model: Model, tokens: Tensor, length: int) -> float:
    """Characters per second, each after a full window that is read again."""
    started = seconds()
    for place in range(len(tokens) - length):
        token_log_probabilities(model.engine, [tokens[place : place + length + 1].numpy()], size=length, stride=1)
    return (len(tokens) - length) / (seconds() - started)


def seconds() -> float:
    """So far; on one thread those of the processor, so that other work on the machine counts little."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()
