"""Pictures: files → arrays of one size."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.errors import InputError
from plmkit.language import tr

WHITE = (255, 255, 255, 255)


def check_image(path: Path) -> None:
    """Refuse a file that does not begin like an image, without reading its pixels."""
    with opened(path):
        pass


def load_image(path: Path, size: int) -> np.ndarray:
    """(3, size, size) uint8: the shorter side is resized to `size`, and the middle of the longer one is kept.

    The camera's orientation is applied, what is transparent becomes white, and of a film the first picture is read.
    """
    from PIL import Image, ImageOps

    with opened(path) as file:
        upright = ImageOps.exif_transpose(file)
        if upright.mode.startswith("I"):  # 16 bits of grey, which `convert` would cut off at 255
            upright = Image.fromarray((np.asarray(upright) / 257).round().clip(0, 255).astype(np.uint8))
        if upright.has_transparency_data:
            coloured = upright.convert("RGBA")
            upright = Image.alpha_composite(Image.new("RGBA", coloured.size, WHITE), coloured)
        fitted = ImageOps.fit(upright.convert("RGB"), (size, size), Image.Resampling.BICUBIC)
        return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image of Pillow's; whatever turns out to be wrong with it is said in a sentence."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on damaged camera data, which are not needed, and on large images
            with Image.open(path) as file:
                yield file
    except FileNotFoundError as error:
        raise InputError(tr("There is no image {path}.", path=path)) from error
    except UnidentifiedImageError as error:
        raise InputError(
            tr("{path} is not an image that can be read. Give JPEG, PNG or the like.", path=path)
        ) from error
    except Exception as error:  # each decoder has its own: OSError, SyntaxError, ValueError, RuntimeError, ...
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(tr("{path} cannot be read as an image: {reason}.", path=path, reason=reason)) from error
