"""What each token of a text attends to in an image."""

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

    By default it is the layer whose weights differ most between tokens and regions.
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
    layers = [weights for one in kept if (weights := on_regions(one, length, count)) is not None]
    if layer is not None and not 1 <= layer <= len(layers):
        raise PlmError(
            tr("--layer {layer}: this model attends to images in layers 1 to {last}.", layer=layer, last=len(layers))
        )
    weights = layers[layer - 1] if layer is not None else max(layers, key=lambda one: float(one[1:-1].std(0).sum()))
    shares = weights / np.maximum(weights.sum(1, keepdims=True), 1e-12)
    grid = reader.architecture.grid
    score = 0.0
    if "image_match" in reader.network.heads:
        score = float(probability(match_scores(reader, [row], regions, np.zeros((1, 2), dtype=np.int64))[0]))
    return Caption(
        image=str(image), text=text, score=score,
        tokens=labels_of(reader.tokenizer, row.tokens.tolist(), [text]),
        attention=shares.reshape(length, grid, grid),
    )  # fmt: skip


def on_regions(layer: AttentionWeights, length: int, count: int) -> np.ndarray | None:
    """(tokens, regions) means over heads, of a layer in which text attends to regions."""
    queries, keys = layer.weights.shape[-2:]
    if layer.kind == "cross" and (queries, keys) == (length, count + 1):
        found = layer.weights[0, :, :, 1:]  # after the image as a whole
    elif queries == keys == length + count:
        found = layer.weights[0, :, :length, length:]
    else:
        return None
    return np.asarray(found.float().mean(0).cpu().numpy())
