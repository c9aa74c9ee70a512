"""The states of words in their sentences, at every layer of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from plmkit.data.reading.words import Sentence
from plmkit.errors import PlmError, SettingError
from plmkit.language import tr
from plmkit.tasks.framing import batch_of, frame_all, place_in

if TYPE_CHECKING:
    from plmkit.inference.reader import Reader
    from plmkit.terminal.screen import Screen


@dataclass(frozen=True, kw_only=True)
class WordStates:
    """The states of all words that the model has read, in order."""

    layers: tuple[np.ndarray, ...]  # (N, width) float32 each: the embeddings, then every layer
    sentences: np.ndarray  # (N,) the sentence of each
    words: np.ndarray  # (N,) its number in the sentence


def word_states(
    model: Reader, sentences: Sequence[Sentence], *, wanted: Sequence[np.ndarray] | None = None,
    layers: Sequence[int] | None = None, screen: Screen | None = None,
) -> WordStates:  # fmt: skip
    """The mean over the pieces of each word; of `wanted` words only, and of these layers only, if they are given.

    A word that was cut off, or that has no piece of its own, is left out.
    """
    check_layers(model)
    vocabulary = model.tokenizer.vocabulary
    rows = frame_all([(one.text, None) for one in sentences], model.tokenizer, model.max_length)
    before = len(vocabulary.frame(1)[0])
    pieces = piece_words(model, sentences)
    found: list[tuple[np.ndarray, list[np.ndarray]]] = [(np.zeros(0, dtype=np.int64), [])] * len(rows)
    for numbers in model.batches(rows, None, screen, tr("reading")):
        batch = batch_of([rows[number] for number in numbers], vocabulary).to(model.device)
        with torch.inference_mode():
            made = model.network.model(replace(batch, all_layers=True)).layers
        kept = [made[layer].float().cpu().numpy() for layer in (range(len(made)) if layers is None else layers)]
        for row, number in enumerate(numbers.tolist()):
            length = len(rows[number].tokens)
            start = place_in(kept[0].shape[1], length, vocabulary).start + before
            owners = pieces[number][: length - vocabulary.specials(1)]
            some = np.unique(owners[owners >= 0])
            if wanted is not None:
                some = np.intersect1d(some, wanted[number])
            means = averaging(owners, some)
            found[number] = some, [means @ layer[row, start : start + len(owners)] for layer in kept]
    return joined(found)


def check_layers(model: Reader) -> None:
    if model.architecture.describes_images:
        raise PlmError(
            tr("{folder} reads images, and words only with one. Give a model that reads text.", folder=model.folder)
        )
    if "layers" not in model.architecture.writes:
        raise PlmError(
            tr(
                "{folder}: {architecture} gives the states of its last layer only, so its layers cannot be compared.",
                folder=model.folder,
                architecture=type(model.architecture).__name__,
            )
        )


def check_layer(model: Reader, layer: int | None) -> None:
    if layer is not None and not 0 <= layer <= model.architecture.layers:
        raise SettingError(
            tr(
                "{folder} has layers 0 (the embeddings) to {layers}; found --layer {layer}.",
                folder=model.folder,
                layers=model.architecture.layers,
                layer=layer,
            )
        )


def layers_named(names: str, model: Reader) -> list[int]:
    """`all`, or `0,2,4`."""
    if names == "all":
        return list(range(model.architecture.layers + 1))
    if not all(name.strip().isdigit() for name in names.split(",")):
        raise SettingError(tr("--layers takes all, or numbers such as 0,2,4; found '{names}'.", names=names))
    layers = sorted({int(name) for name in names.split(",")})
    for layer in layers:
        check_layer(model, layer)
    return layers


def joined(found: Sequence[tuple[np.ndarray, list[np.ndarray]]]) -> WordStates:
    some = [(number, words, layers) for number, (words, layers) in enumerate(found) if len(words)]
    if not some:
        return WordStates(layers=(), sentences=np.zeros(0, dtype=np.int64), words=np.zeros(0, dtype=np.int64))
    return WordStates(
        layers=tuple(np.concatenate(parts) for parts in zip(*(layers for _, _, layers in some), strict=True)),
        sentences=np.concatenate([np.full(len(words), number) for number, words, _ in some]),
        words=np.concatenate([words for _, words, _ in some]),
    )


def averaging(owners: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(W, T) weights that average the pieces of each word."""
    own = (owners[None] == words[:, None]).astype(np.float32)
    return own / np.maximum(own.sum(1, keepdims=True), 1)


def piece_words(model: Reader, sentences: Sequence[Sentence]) -> list[np.ndarray]:
    """(T,) of each sentence: the word that most characters of a piece belong to, or -1."""
    texts = [one.text for one in sentences]
    _, lengths = model.tokenizer.encode_many(texts)
    offsets = np.split(model.tokenizer.offsets_many(texts), np.cumsum(lengths)[:-1])
    return [owners_of(part, one) for part, one in zip(offsets, sentences, strict=True)]


def owners_of(offsets: np.ndarray, sentence: Sentence) -> np.ndarray:
    character = np.full(len(sentence.text) + 1, -1)
    for number, (begin, end) in enumerate(sentence.spans.tolist()):
        character[begin:end] = number
    owners = np.full(len(offsets), -1)
    for place, (begin, end) in enumerate(offsets.tolist()):
        inside = character[begin:end]
        inside = inside[inside >= 0]
        if len(inside):
            owners[place] = np.bincount(inside).argmax()
    return owners
