"""Captions as pictures: the image, and for each word the image with the regions that it attends to."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plmkit.data.images import load_image
from plmkit.insight.picture import Say, plain, write_figure
from plmkit.language import tr

if TYPE_CHECKING:
    from plmkit.inference.captioning import Caption

PER_LINE = 8  # panels
FAINTEST = 0.2  # of the image, where nothing is attended to
PIXELS = 256  # along each side of a panel's image


def write_regions(captions: "Sequence[Caption]", out: Path, say: Say) -> None:
    """One line of panels per image, or several if its caption is long."""
    texts = [text for caption in captions for text in (caption.text, *caption.tokens)]
    write_figure(lambda: figure_of(captions), texts, out, say)
    say(tr("Regions of each word: {out}", out=out))


def figure_of(captions: "Sequence[Caption]") -> Any:
    from matplotlib.figure import Figure

    lines = [-(-(1 + len(caption.tokens)) // PER_LINE) for caption in captions]
    figure = Figure(figsize=(1.5 * PER_LINE, sum(0.3 + 1.75 * count for count in lines)))
    frames = figure.subfigures(len(captions), 1, height_ratios=[0.3 + 1.75 * count for count in lines], squeeze=False)
    for frame, caption, count in zip(frames[:, 0], captions, lines, strict=True):
        frame.suptitle(*plain([caption.text]), fontsize=10)
        panels = frame.subplots(count, PER_LINE, squeeze=False).flatten()
        image = load_image(Path(caption.image), PIXELS).transpose(1, 2, 0)
        for panel in panels:
            panel.axis("off")
        panels[0].imshow(image)
        for panel, token, weights in zip(panels[1:], plain(caption.tokens), caption.attention, strict=False):
            panel.imshow(lit(image, weights))
            panel.set_title(token, fontsize=9)
    return figure


def lit(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(H, W, 3) the image, pale where little is attended to."""
    from PIL import Image

    share = Image.fromarray((weights / weights.max()).astype(np.float32))
    wide = np.asarray(share.resize(image.shape[1::-1], Image.Resampling.BILINEAR))[..., None]
    shown = FAINTEST + (1 - FAINTEST) * wide
    return (255 - shown * (255 - image.astype(np.float32))).round().astype(np.uint8)
