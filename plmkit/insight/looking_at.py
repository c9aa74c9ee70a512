"""What each token of a text attends to in an image."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from plmkit.errors import PlmError
from plmkit.inference.captioning import Caption
from plmkit.inference.matching import check_sees, given_image, match_scores, probability, regions_of, with_regions
from plmkit.inference.reader import Reader
from plmkit.insight.token_labels import labels_of
from plmkit.language import tr
from plmkit.layers.recording import AttentionWeights, recording


@torch.inference_mode()
def look_at_image(reader: Reader, text: str, image: Path, layer: int | None = None) -> Caption:
    """The weights of a text's tokens on the regions of an image: mean over heads, of one layer that reads both.

    By default it is the layer whose weights differ most between tokens. The score is not a number if the model was not
    trained to tell whether a text describes an image.
    """
    check_sees(reader, tr("attend to an image"))
    if reader.architecture.image_pixels is None:
        raise PlmError(
            tr(
                "{folder} reads features of regions from files, which have no grid to draw on the image.",
                folder=reader.folder,
            )
        )
    regions = regions_of(reader, [given_image(reader, image)])
    row = reader.whole_row(text)
    with recording() as kept:
        reader.states([row], change=lambda batch: with_regions(batch, regions, np.zeros(1, dtype=np.int64)))
    length, count = len(row.tokens), len(regions.features)
    layers = [on_regions(one, length) for one in reading_regions(kept, length, count)]
    if layer is not None and not 1 <= layer <= len(layers):
        raise PlmError(
            tr("--layer {layer}: this model attends to images in layers 1 to {last}.", layer=layer, last=len(layers))
        )
    words = slice(1, -1) if length > 2 else slice(None)  # without [CLS] and [SEP]
    weights = layers[layer - 1] if layer is not None else max(layers, key=lambda one: float(one[words].std(0).sum()))
    shares = weights / np.maximum(weights.sum(1, keepdims=True), 1e-12)
    grid = reader.architecture.grid
    score = math.nan
    if "image_match" in reader.network.heads:
        score = float(probability(match_scores(reader, [row], regions, np.zeros((1, 2), dtype=np.int64))[0]))
    return Caption(
        image=str(image), text=text, score=score,
        tokens=labels_of(reader.tokenizer, row.tokens.tolist(), [text]),
        attention=shares.reshape(length, grid, grid),
    )  # fmt: skip


def reading_regions(kept: Sequence[AttentionWeights], length: int, count: int) -> list[AttentionWeights]:
    """The layers in which text attends to regions."""
    crossed = [one for one in kept if one.kind == "cross"]
    if crossed:  # two streams: of each block first the text that attends to the image, then the image to the text
        return crossed[::2]
    return [one for one in kept if one.weights.shape[-1] == length + count]


def on_regions(layer: AttentionWeights, length: int) -> np.ndarray:
    """(tokens, regions) means over heads."""
    weights = layer.weights[0, :, :, 1:] if layer.kind == "cross" else layer.weights[0, :, :length, length:]
    return np.asarray(weights.float().mean(0).cpu().numpy())  # of two streams after the image as a whole
