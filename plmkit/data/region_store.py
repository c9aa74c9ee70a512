"""Features of image regions on disk: those of all images one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_REGIONS = 256  # of an image


@dataclass(frozen=True, kw_only=True)
class RegionRows:
    """Features of image regions in numpy, as in Regions."""

    features: np.ndarray  # (B, R, width)
    visible: np.ndarray  # (B, R) False on padding
    boxes: np.ndarray  # (B, R, 4)
    classes: np.ndarray | None = None  # (B, R, classes)


@dataclass(frozen=True, kw_only=True)
class RegionStore:
    """The regions of D images, T in all."""

    features: np.ndarray  # (T, width) float32
    boxes: np.ndarray  # (T, 4) float32, left, top, right and bottom as shares of the image
    starts: np.ndarray  # (D + 1,) where the regions of each image begin, and the end
    classes: np.ndarray | None = None  # (T, classes) float32 probabilities

    def rows(self, images: np.ndarray) -> RegionRows:
        """The regions of these images, padded to the most that one of them has."""
        begin = self.starts[images]
        counts = self.starts[images + 1] - begin
        visible = np.arange(int(counts.max())) < counts[:, None]
        places = (begin[:, None] + np.arange(visible.shape[1]))[visible]
        return RegionRows(
            visible=visible,
            features=spread(self.features, places, visible),
            boxes=spread(self.boxes, places, visible),
            classes=None if self.classes is None else spread(self.classes, places, visible),
        )


def spread(rows: np.ndarray, places: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """(B, R, ...) with these rows where an image has a region, and 0 elsewhere."""
    made = np.zeros((*visible.shape, rows.shape[1]), dtype=np.float32)
    made[visible] = rows[places]
    return made


def joined_regions(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> RegionStore:
    """Of the features and the boxes of each image."""
    return RegionStore(
        features=np.concatenate([features for features, _ in parts]),
        boxes=np.concatenate([boxes for _, boxes in parts]),
        starts=np.concatenate([[0], np.cumsum([len(features) for features, _ in parts])]),
    )
