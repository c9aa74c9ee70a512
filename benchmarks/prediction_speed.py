"""Classifying texts of mixed length: our `predict` compared with Hugging Face's text-classification pipeline."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import ENGLISH, Line, Options, Side, learn_tokenizer, say, sides, take_turns, text_files

TITLE = "Predicting, texts per second: plmkit against transformers.pipeline at its best batch size"
TARGET = 2.5
BATCH_SIZES = (1, 4, 8, 16, 32, 64)
CLASSES = ("bad", "fair", "good", "fine")


def run(options: Options) -> list[Line]:
    lines = []
    files = text_files(options, 0.2, [ENGLISH]) if options.quick else text_files(options, 1)
    for name, text in files.items():
        say(f"prediction: {name}")
        tokenizer = learn_tokenizer(text, 1_000 if options.quick else 21_128, options.folder / f"{text.stem}-predict")
        texts = cut_texts(text, tokenizer, 24 if options.quick else 600, options.seed)
        model = write_model(options, tokenizer, texts, options.folder / f"{text.stem}-model")
        with sides((make_ours, model, texts), (make_theirs, model, texts)) as (ours, theirs):
            ours()  # the first call of each size warms up, the second counts
            size, seconds = best_batch_size(theirs, BATCH_SIZES[:2] if options.quick else BATCH_SIZES)
            say("  pipeline: " + ", ".join(f"{len(texts) / s:,.0f} texts/s at {b}" for b, s in seconds.items()))
            a, b = take_turns(ours, partial(theirs, size), options.rounds)
        if any(one["labels"] != two["labels"] for one, two in zip(a, b, strict=True)):
            raise RuntimeError("The two sides predict different labels.")
        kinds = len(set(a[0]["labels"]))
        say(f"  both sides gave the same labels to all {len(texts)} texts, of {kinds} kinds")
        lines.append(
            Line(
                case=f"{name}, {len(texts)} texts, their batch size {size}",
                unit="texts/s",
                ours=[len(texts) / result["seconds"] for result in a],
                theirs=[len(texts) / result["seconds"] for result in b],
                target=TARGET,
            )
        )
    return lines


def best_batch_size(theirs: Side, sizes: tuple[int, ...]) -> tuple[int, dict[int, float]]:
    seconds = {}
    for size in sizes:
        theirs(size)
        seconds[size] = theirs(size)["seconds"]
    return min(seconds, key=seconds.__getitem__), seconds


def cut_texts(path: Path, tokenizer: Path, count: int, seed: int) -> list[str]:
    """Stretches of the text of 5 to 300 tokens, most of them short, in random order."""
    from plmkit.tokenizers.tokenizer import load_tokenizer

    with open(path, encoding="utf-8") as file:
        text = " ".join(file.read(2_000_000).split())
    characters = len(text[:100_000]) / len(load_tokenizer(tokenizer).encode_plain(text[:100_000]))  # in a token
    rng = np.random.default_rng([seed, 2])
    lengths = np.clip(rng.lognormal(3.7, 0.9, size=count), 5, 300) * characters
    starts = rng.random(count) * (len(text) - lengths)
    return [text[begin : begin + size] for begin, size in zip(starts.astype(int), lengths.astype(int), strict=True)]


def write_model(options: Options, tokenizer: Path, texts: list[str], folder: Path) -> Path:
    """A classifier with random weights as a Hugging Face folder, which both sides read."""
    import torch

    from plmkit.architectures.encoder import Encoder, EncoderModel
    from plmkit.inference.model import Model
    from plmkit.interop.huggingface import write_huggingface
    from plmkit.network import Network
    from plmkit.tasks.kinds.classify import Classify
    from plmkit.tokenizers.tokenizer import load_tokenizer
    from plmkit.training.checkpoint import weights_of

    ready = load_tokenizer(tokenizer)
    size = len(ready.vocabulary)
    # erf's GELU, Hugging Face's default: its tanh form would be exported under the name of their slow one
    encoder = (
        Encoder(layers=2, heads=2, width=32, inner=64, activation="gelu")
        if options.quick
        else Encoder(layers=4, heads=4, width=256, inner=1024, activation="gelu")
    )
    torch.manual_seed(options.seed)
    model = EncoderModel(encoder, size)
    head = Classify(classes=CLASSES, length=encoder.max_length).head(encoder)
    network = Network(model, {"label": head}, {"label": 1.0})
    user = Model(network=network, architecture=encoder, tokenizer=ready, folder=folder)
    pooled = user.states(user.rows(texts[:64]))[0].pooled
    assert pooled is not None
    with torch.no_grad():  # random weights give all texts one class; now each class is near as likely as another
        head.classify.weight.mul_(100)
        head.classify.bias.copy_(-head.classify.weight @ pooled.mean(0))
    settings = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: number for number, name in enumerate(CLASSES)}}
    write_huggingface(folder, weights_of(network), encoder, ready, vocabulary_size=size, settings=settings)
    return folder


def make_ours(folder: Path, texts: list[str]) -> Callable[[], dict[str, Any]]:
    import plmkit

    model = plmkit.load(folder, device="cpu")

    def one_round() -> dict[str, Any]:
        started = time.perf_counter()
        found = model.predict(texts)
        return {"seconds": time.perf_counter() - started, "labels": [one.label for one in found]}

    return one_round


def make_theirs(folder: Path, texts: list[str]) -> Callable[[int], dict[str, Any]]:
    from transformers import pipeline
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    classify = pipeline("text-classification", model=str(folder), tokenizer=str(folder), device="cpu")

    def one_round(batch_size: int) -> dict[str, Any]:
        started = time.perf_counter()
        found = classify(texts, batch_size=batch_size)
        return {"seconds": time.perf_counter() - started, "labels": [one["label"] for one in found]}

    return one_round
