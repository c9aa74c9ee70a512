"""Images → captions, and the regions that each word attends to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plmkit.architectures.contract import CacheSettings
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.images import check_image, load_image
from plmkit.errors import InputError, PlmError
from plmkit.generation.beam_search import beam_search, search_of
from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.inference.arguments import kind_of
from plmkit.inference.reader import Reader
from plmkit.inference.translating import Target
from plmkit.language import tr
from plmkit.layers.recording import recording
from plmkit.terminal.screen import Screen
from plmkit.training.threads import look

CAPTION_BEAMS = 3
AT_ONCE = 32  # images


@dataclass(frozen=True, kw_only=True)
class Caption:
    """What a model describes an image as."""

    image: str  # the file
    text: str
    score: float  # log-probability with the length penalty
    tokens: tuple[str, ...]
    attention: np.ndarray  # (tokens, grid, grid) how much each token attends to each region; each adds up to 1


def given_images(values: Any) -> tuple[list[str], bool]:
    """One or several paths, and whether it is one."""
    alone = isinstance(values, str | PathLike)
    if not alone and (isinstance(values, bytes) or not isinstance(values, Iterable)):
        raise InputError(tr("Give an image file or a list of image files; found {kind}.", kind=kind_of(values)))
    paths = [values] if alone else list(values)
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise InputError(tr("Give an image file or a list of image files; found {kind}.", kind=kind_of(path)))
    return [fspath(path) for path in paths], alone


def caption_images(
    reader: Reader, paths: Sequence[str], beams: int = CAPTION_BEAMS, screen: Screen | None = None
) -> list[Caption]:
    """A caption for each image, by beam search."""
    size = image_size_of(reader)
    options = GenerationOptions(beams=beams)
    for path in paths:
        check_image(Path(path))  # before the first is described
    found: list[Caption] = []
    with (screen or Screen(quiet=True)).counting(tr("describing images"), len(paths)) as advance:
        for start in range(0, len(paths), AT_ONCE):
            look()
            some = paths[start : start + AT_ONCE]
            images = np.stack([load_image(Path(path), size) for path in some])
            found += described(reader, some, torch.from_numpy(images), options)
            advance(len(some))
    return found


def image_size_of(reader: Reader) -> int:
    """Pixels along each side; a model that is no captioner is refused."""
    size: int | None = reader.architecture.image_pixels
    if size is None or not reader.architecture.describes_images:
        raise PlmError(
            tr(
                "{folder} is no captioner, so it cannot describe images.\n"
                "Pretrain a captioner: plm pretrain caption-mini CAPTIONS.jsonl --out DIR",
                folder=reader.folder,
            )
        )
    return size


@torch.inference_mode()
def described(reader: Reader, paths: Sequence[str], images: Tensor, options: GenerationOptions) -> Iterator[Caption]:
    """The captions of (B, 3, H, W) images."""
    vocabulary, head, rows = reader.tokenizer.vocabulary, reader.network.head_that_generates, len(images)
    assert head is not None
    images, network = images.to(reader.device), cast(Any, reader.network.model)
    model = LanguageModel(
        network, head.output, len(vocabulary), sorted(vocabulary.special - {vocabulary.end}), reader.device
    )
    searches = [search_of(Target(reader.max_length, vocabulary.end), options, exact=True) for _ in paths]
    cache = network.begin(CacheSettings(rows, reader.max_length, images=images))
    beam_search(model, searches, cache, model.extend([[vocabulary.end]] * rows, cache)[:, -1])
    best = [search.best[0] for search in searches]
    weights = attention_to(reader, images, [target.tokens for target, _ in best])
    return (
        Caption(
            image=path,
            text=reader.tokenizer.decode(target.tokens).strip(),
            score=score,
            tokens=tuple(vocabulary.tokens[token] for token in target.tokens),
            attention=own[: len(target.tokens)],
        )
        for path, (target, score), own in zip(paths, best, weights, strict=True)
    )


def attention_to(reader: Reader, images: Tensor, captions: Sequence[Sequence[int]]) -> np.ndarray:
    """(B, L, grid, grid) weights with which the tokens of captions were predicted."""
    with recording() as kept:
        reader.network.model(captions_batch(reader, images, captions))
    grid = round(kept[0].weights.shape[-1] ** 0.5)
    return kept[0].weights[:, 0].unflatten(-1, (grid, grid)).float().cpu().numpy()


def captions_batch(reader: Reader, images: Tensor, captions: Sequence[Sequence[int]]) -> Batch:
    """Images and their captions as in training."""
    vocabulary = reader.tokenizer.vocabulary
    whole = [[vocabulary.end, *caption, vocabulary.end][: reader.max_length + 1] for caption in captions]
    read = [torch.tensor(row) for row in whole]
    tokens = pad_sequence([row[:-1] for row in read], batch_first=True, padding_value=vocabulary.filler)
    targets = pad_sequence([row[1:] for row in read], batch_first=True, padding_value=IGNORE)
    side = Side(tokens=tokens, visible=targets != IGNORE)
    return Batch(source=side, targets=targets, images=images).to(reader.device)
