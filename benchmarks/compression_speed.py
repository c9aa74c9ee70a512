"""Graphs with 8-bit weights against our own float32, at batch 1: predicting one text, generating after one prompt.

Processor time, in turns: on a machine that does other things too, both sides lose alike.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.prediction_speed import cut_texts
from benchmarks.shared import ENGLISH, Line, Options, learn_tokenizer, say, text_files

TITLE = "8-bit graphs against our float32, at batch 1, by processor time"
PREDICTING, GENERATING = 3.0, 2.0
SHAPES = ((4, 256, 4), (12, 768, 12))  # layers, width, heads
SMALL = ((1, 32, 2),)
TEXTS = 24
TOKENS = 48
CLASSES = ("bad", "good")


def run(options: Options) -> list[Line]:
    text = next(iter(text_files(options, 0.2, [ENGLISH]).values()))
    tokenizer = learn_tokenizer(text, 1_000 if options.quick else 8_000, options.folder / "compression-tokenizer")
    texts = cut_texts(text, tokenizer, 4 if options.quick else TEXTS, options.seed)
    lines = []
    for layers, width, heads in SMALL if options.quick else SHAPES:
        shape = f"{layers}×{width}"
        say(f"compression: exporting a classifier of {shape}")
        models = classifiers(tokenizer, layers, width, heads, options.folder / f"compressed-{shape}")
        lines += in_turns(f"predicting, {shape}", "texts/s", predicting(*models, texts), options, PREDICTING)
    layers, width, heads = SMALL[0] if options.quick else SHAPES[1]
    say("compression: a language model")
    engines = language_models(layers, width, heads, options)
    lines += in_turns(f"generating, {layers}×{width}, greedy", "tokens/s", continuing(*engines, True), options,
                      GENERATING)  # fmt: skip
    lines += in_turns(f"generating, {layers}×{width}, sampling", "tokens/s", continuing(*engines, False), options,
                      GENERATING)  # fmt: skip
    return lines


Run = Callable[[], int]  # returns how many texts or tokens it did


def in_turns(case: str, unit: str, runs: tuple[Run, Run], options: Options, target: float) -> list[Line]:
    """With one thread, and with two; the first run of each is not counted."""
    lines, before = [], torch.get_num_threads()
    for threads in (1,) if options.quick else (1, 2):
        torch.set_num_threads(threads)
        speeds: tuple[list[float], list[float]] = ([], [])
        for run in runs:
            run()
        for _ in range(options.rounds):
            for run, found in zip(runs, speeds, strict=True):
                start = time.process_time()
                count = run()
                found.append(count / (time.process_time() - start))
        lines.append(Line(case=f"{case}, {threads} thread{'s' * (threads > 1)}", unit=unit, ours=speeds[1],
                          theirs=speeds[0], target=target))  # fmt: skip
        say(f"  {case}, {threads}: {speeds[0]} → {speeds[1]}")
    torch.set_num_threads(before)
    return lines


def classifiers(tokenizer: Path, layers: int, width: int, heads: int, folder: Path) -> tuple[Any, Any]:
    """A classifier with random weights, and its graph."""
    from plmkit.architectures.encoder import Encoder
    from plmkit.compression.compress import Request, write_graph
    from plmkit.inference.loading import Parts, load, model_of
    from plmkit.network import Network
    from plmkit.tasks.kinds.classify import Classify
    from plmkit.terminal.screen import Screen
    from plmkit.tokenizers.tokenizer import load_tokenizer
    from plmkit.training.checkpoint import weights_of

    torch.manual_seed(0)
    ready, encoder = load_tokenizer(tokenizer), Encoder(layers=layers, heads=heads, width=width, inner=4 * width)
    task = Classify(classes=CLASSES, length=encoder.max_length)
    parts = Parts(folder=folder, architecture=encoder, tokenizer=ready, weights={}, tasks=(task,))
    network = Network(encoder.build(ready.vocabulary), {task.name: task.head(encoder)}, {task.name: 1.0})
    parts = Parts(folder=folder, architecture=encoder, tokenizer=ready, weights=weights_of(network), tasks=(task,))
    before = model_of(parts, "cpu")
    folder.mkdir()
    write_graph(folder, Request(model=folder, to="int8", out=folder), parts, before, Screen(quiet=True))
    return before, load(folder)


def predicting(before: Any, after: Any, texts: list[str]) -> tuple[Run, Run]:
    """`model.predict` of texts in batches of one, tokenization included."""

    def run(model: Any) -> Run:
        return lambda: len(model.predict(texts, batch_size=1))

    return run(before), run(after)


def language_models(layers: int, width: int, heads: int, options: Options) -> tuple[Any, Any]:
    """A GPT-2 with random weights, and its graph; both with their LM heads."""
    from types import SimpleNamespace

    from plmkit.architectures.decoder import Decoder
    from plmkit.compression.decoder_graph import write_decoder
    from plmkit.compression.generating import GraphDecoder, GraphLogits
    from plmkit.generation.language_model import LanguageModel
    from plmkit.layers.vocabulary_head import TiedHead

    size = 1_000 if options.quick else 50_257
    settings = Decoder(layers=layers, heads=heads, width=width, inner=4 * width)
    torch.manual_seed(0)
    model: Any = settings.build(SimpleNamespace(rows=size)).eval()  # type: ignore[arg-type]
    folder = options.folder / "compressed-writer"
    folder.mkdir()
    write_decoder(folder, model, bits=8)
    sides = (model, TiedHead(model.embed.tokens)), (GraphDecoder(settings, folder), GraphLogits(folder))
    cpu = torch.device("cpu")
    first, second = (LanguageModel(one, head, size, [], cpu, causal=True) for one, head in sides)
    return first, second


def continuing(before: Any, after: Any, greedy: bool) -> tuple[Run, Run]:
    """One text of 32 tokens, continued."""

    @torch.inference_mode()
    def written(model: Any) -> int:
        model.shortlist = None
        if greedy:
            model.expect(TOKENS)
        prompt = torch.arange(32).tolist()
        cache, last = model.prefill([prompt], 32 + TOKENS)
        for _ in range(TOKENS):
            token = model.argmax(last) if greedy else torch.multinomial(model.logits(last).softmax(-1), 1)[:, 0]
            last = model.extend([token.tolist()], cache)[:, -1]
        return TOKENS

    return (lambda: written(before)), (lambda: written(after))
