"""Texts and images together: how well they match, and the nearest of many."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, Regions
from plmkit.data.feature_files import FeaturePlace, read_features
from plmkit.data.images import check_image, load_image
from plmkit.data.reading.source import Document
from plmkit.data.region_store import RegionStore, joined_regions
from plmkit.data.shards import row_named
from plmkit.errors import PlmError
from plmkit.inference.reader import Change, Reader
from plmkit.language import tr
from plmkit.layers.regions import grid_boxes
from plmkit.tasks.framing import Framed
from plmkit.terminal.screen import Screen
from plmkit.training.threads import look

AT_ONCE = 32  # images
PAIRS_AT_ONCE = 64
Image = Path | FeaturePlace  # a file of pixels, or where the features of an image are


@dataclass(frozen=True, kw_only=True)
class ImageHit:
    """An image that a search found for a text."""

    rank: int  # from 1, the best
    score: float  # probability that the text describes the image
    image: str


@dataclass(frozen=True, kw_only=True)
class CaptionHit:
    """A text that a search found for an image."""

    rank: int  # from 1, the best
    score: float  # probability that the text describes the image
    text: str


def check_sees(reader: Reader, verb: str) -> None:
    """Refuse a model that does not read text together with images."""
    if reader.architecture.describes_images or not reader.architecture.reads_images:
        raise PlmError(
            tr(
                "{folder} reads no image together with a text, so it cannot {verb}.\n"
                "Pretrain a model that does: plm pretrain visualbert-mini CAPTIONS.jsonl --out DIR",
                folder=reader.folder,
                verb=verb,
            )
        )


def image_head(reader: Reader) -> Any:
    """The head that tells whether a caption describes an image."""
    verb = tr("match images and texts")
    check_sees(reader, verb)
    if "image_match" not in reader.network.heads:
        raise PlmError(
            tr("{folder} has no head for image match, so it cannot {verb}.", folder=reader.folder, verb=verb)
        )
    return reader.network.heads["image_match"]


def given_image(reader: Reader, path: str | Path) -> Image:
    """A file as the model reads it: pixels, or features of regions; refused before anything is computed."""
    check_sees(reader, tr("read an image"))
    if reader.architecture.image_pixels is not None:
        check_image(Path(path))
        return Path(path)
    place = FeaturePlace(file=Path(path))
    read_features(place, reader.architecture.region_width)
    return place


@torch.inference_mode()
def regions_of(
    reader: Reader, images: Sequence[Image], screen: Screen | None = None, documents: Sequence[Document] | None = None
) -> RegionStore:
    """The regions of images, made once however many texts they are compared with.

    What is wrong with one is said with the row of its document, if there is a table.
    """
    named = [nullcontext() for _ in images] if documents is None else [row_named(document) for document in documents]
    made = []
    with (screen or Screen(quiet=True)).counting(tr("reading images"), len(images)) as advance:
        for start in range(0, len(images), AT_ONCE):
            look()
            made += regions_of_some(reader, images[start : start + AT_ONCE], named[start : start + AT_ONCE])
            advance(len(images[start : start + AT_ONCE]))
    return joined_regions(made)


def regions_of_some(
    reader: Reader, images: Sequence[Image], named: Sequence[AbstractContextManager[None]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(R, width) features and (R, 4) boxes of each."""
    size = reader.architecture.image_pixels
    read: list[Any] = []
    for image, context in zip(images, named, strict=True):
        with context:
            if isinstance(image, FeaturePlace):
                read.append(read_features(image, reader.architecture.region_width))
            else:
                read.append(load_image(image, size))
    if size is None:
        return [(one.features, one.boxes) for one in read]
    pixels = torch.from_numpy(np.stack(read)).to(reader.device)
    eye: Any = reader.network.model.eye
    boxes = grid_boxes(reader.architecture.grid).numpy()
    return [(features, boxes) for features in eye(pixels).float().cpu().numpy()]


def with_regions(batch: Batch, regions: RegionStore, images: np.ndarray) -> Batch:
    """The batch with the regions of these images, one for each row."""
    rows = regions.rows(images)
    parts = {name: torch.from_numpy(getattr(rows, name)) for name in ("features", "visible", "boxes")}
    return replace(batch, regions=Regions(**parts))


def with_image(reader: Reader, image: str | Path) -> Change:
    """What adds an image to a batch, the same to every row."""
    regions = regions_of(reader, [given_image(reader, image)])
    return lambda batch: with_regions(batch, regions, np.zeros(len(batch.source.tokens), dtype=np.int64))


@torch.inference_mode()
def match_scores(
    reader: Reader, rows: Sequence[Framed], regions: RegionStore, pairs: np.ndarray, screen: Screen | None = None
) -> np.ndarray:
    """(P,) log-odds that a text describes an image, for (P, 2) numbers of a text and of an image."""
    head = image_head(reader)
    lengths = np.array([len(row.tokens) for row in rows])
    order = np.argsort(-lengths[pairs[:, 0]], kind="stable")
    scores = np.zeros(len(pairs))
    with (screen or Screen(quiet=True)).counting(tr("comparing texts and images"), len(pairs)) as advance:
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            some = order[start : start + PAIRS_AT_ONCE]
            texts, images = pairs[some].T
            states, batch = reader.states(
                [rows[number] for number in texts],
                needed=lambda batch: torch.zeros_like(batch.source.visible),
                change=lambda batch, images=images: with_regions(batch, regions, images),  # type: ignore[misc]
            )
            logits: Tensor = head.answers(states, batch).float()
            scores[some] = (logits[:, 0] - logits[:, 1]).cpu().numpy()
            advance(len(some))
    return scores


def probability(log_odds: Any) -> Any:
    return 1 / (1 + np.exp(-log_odds))


def match(reader: Reader, texts: Sequence[str], images: Sequence[str | Path]) -> list[float]:
    """The probability that each text describes the image with its number."""
    image_head(reader)
    if not texts:
        return []
    places = [given_image(reader, path) for path in images]
    rows, unread = reader.framed([(text, None) for text in texts], reader.max_length)
    unread.warn()
    pairs = np.stack([np.arange(len(texts)), np.arange(len(texts))], 1)
    return [float(value) for value in probability(match_scores(reader, rows, regions_of(reader, places), pairs))]


def find_images(
    reader: Reader, texts: Sequence[str], places: Sequence[Image], names: Sequence[str], top: int,
    screen: Screen | None = None,
) -> list[list[ImageHit]]:  # fmt: skip
    """For each text the images that it describes best."""
    scores = all_scores(reader, texts, places, screen)
    return [
        [
            ImageHit(rank=rank, score=float(probability(row[place])), image=names[place])
            for rank, place in enumerate(best(row, top), start=1)
        ]
        for row in scores
    ]


def find_captions(
    reader: Reader, places: Sequence[Image], texts: Sequence[str], top: int, screen: Screen | None = None
) -> list[list[CaptionHit]]:  # fmt: skip
    """For each image the texts that describe it best."""
    scores = all_scores(reader, texts, places, screen).T
    return [
        [
            CaptionHit(rank=rank, score=float(probability(row[place])), text=texts[place])
            for rank, place in enumerate(best(row, top), start=1)
        ]
        for row in scores
    ]


def all_scores(
    reader: Reader, texts: Sequence[str], places: Sequence[Image], screen: Screen | None = None
) -> np.ndarray:  # fmt: skip
    """(texts, images) log-odds, each pair read together."""
    image_head(reader)
    if not texts or not places:
        return np.zeros((len(texts), len(places)))
    rows, unread = reader.framed([(text, None) for text in texts], reader.max_length)
    unread.warn()
    regions = regions_of(reader, places, screen)
    pairs = np.stack(np.divmod(np.arange(len(texts) * len(places)), len(places)), 1)
    return match_scores(reader, rows, regions, pairs, screen).reshape(len(texts), len(places))


def best(scores: np.ndarray, top: int) -> list[int]:
    """The places of the highest, best first; of equal ones the first."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:top]]
