"""Features of image regions that users bring: .npy or .safetensors files, one per image or one for all."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.region_store import MOST_REGIONS
from plmkit.errors import InputError
from plmkit.language import comma, tr

FEATURES, BOXES, CLASSES = "features", "boxes", "classes"
ENDINGS = (".npy", ".safetensors")
TOLERANCE = 1e-3  # of what must be a share of the image, or add up to 1


@dataclass(frozen=True, kw_only=True)
class FeaturePlace:
    """Where the features of one image are."""

    file: Path
    key: str | None = None  # its name in a file for all images; None: the file is its own

    def __str__(self) -> str:
        return str(self.file) if self.key is None else f"{self.file} ({self.key})"


@dataclass(frozen=True, kw_only=True)
class RegionFeatures:
    """The regions of one image."""

    features: np.ndarray  # (R, width) float32
    boxes: np.ndarray  # (R, 4) float32 left, top, right and bottom as shares of the image
    classes: np.ndarray | None = None  # (R, classes) float32 probabilities


def place_in(source: Path, image: str) -> FeaturePlace:
    """The features of an image of that name in a folder of files, or in a file for all images."""
    if not source.is_dir():
        return FeaturePlace(file=source, key=image)
    name = Path(image)
    stems = dict.fromkeys((name.stem, name.name))  # the name of an image may have no ending, but a dot
    found = [
        source / folder / f"{stem}{ending}" for folder in (name.parent, Path()) for stem in stems for ending in ENDINGS
    ]
    return FeaturePlace(file=next((path for path in found if path.is_file()), source / f"{name.stem}{ENDINGS[0]}"))


def read_features(place: FeaturePlace, width: int | None = None, classes: int | None = None) -> RegionFeatures:
    """The checked regions of an image; boxes that are not given are the whole image."""
    if not place.file.is_file():
        raise InputError(tr("There is no feature file {path}.", path=place.file))
    if place.file.suffix not in ENDINGS:
        raise InputError(
            tr(
                "{path} has no features of image regions, which this model reads in place of pixels. Give {endings}.",
                path=place.file,
                endings=comma().join(ENDINGS),
            )
        )
    arrays = numpy_arrays(place.file) if place.file.suffix == ".npy" else safetensors_arrays(place)
    features = arrays.get(FEATURES)
    if features is None:
        raise InputError(
            tr("{place} has no features of regions: expected an array '{name}'.", place=place, name=FEATURES)
        )
    check_array(place, FEATURES, features, None, width)
    count = len(features)
    if not 1 <= count <= MOST_REGIONS:
        raise InputError(
            tr("{place} has {count:,} regions; an image has 1 to {most}.", place=place, count=count, most=MOST_REGIONS)
        )
    boxes = arrays.get(BOXES)
    if boxes is None:
        boxes = np.tile(np.array([0, 0, 1, 1], dtype=np.float32), (count, 1))
    check_array(place, BOXES, boxes, count, 4)
    if (boxes[:, 2:] < boxes[:, :2] - TOLERANCE).any():
        raise InputError(
            tr(
                "{place}: boxes are left, top, right and bottom, but in that of region {number} the right is left of "
                "the left, or the bottom above the top. Are they left, top, width and height?",
                place=place,
                number=1 + int((boxes[:, 2:] < boxes[:, :2] - TOLERANCE).any(1).argmax()),
            )
        )
    if boxes.min() < -TOLERANCE or boxes.max() > 1 + TOLERANCE:
        raise InputError(
            tr(
                "{place}: boxes are left, top, right and bottom as shares of the image's width and height, from 0 to "
                "1; found {low:g} to {high:g}.",
                place=place,
                low=float(boxes.min()),
                high=float(boxes.max()),
            )
        )
    shares = arrays.get(CLASSES) if classes is not None else None
    if classes is not None:
        if shares is None:
            raise InputError(
                tr(
                    "{place} has no class distributions ('{name}'), which masked regions are to predict. Give them, or "
                    "train without: --set objectives.masked_regions.detector_classes=none.",
                    place=place,
                    name=CLASSES,
                )
            )
        check_array(place, CLASSES, shares, count, classes)
        if shares.min() < 0 or np.abs(shares.sum(1) - 1).max() > TOLERANCE:
            raise InputError(
                tr("{place}: the classes of each region must be probabilities that add up to 1.", place=place)
            )
    return RegionFeatures(
        features=features.astype(np.float32),
        boxes=boxes.astype(np.float32),
        classes=None if shares is None else shares.astype(np.float32),
    )


def check_array(place: FeaturePlace, name: str, array: np.ndarray, rows: int | None, width: int | None) -> None:
    """Refuse another shape, or numbers that are not finite."""
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise InputError(
            tr(
                "{place}: '{name}' has values of the type {type}, not numbers.",
                place=place,
                name=name,
                type=array.dtype,
            )
        )
    if array.ndim != 2 or rows not in (None, len(array)) or width not in (None, array.shape[1]):
        raise InputError(
            tr(
                "{place}: '{name}' has the shape {shape}; expected regions × {width}{rows}.",
                place=place,
                name=name,
                shape=" × ".join(map(str, array.shape)) or "0",
                width=width or tr("features"),
                rows="" if rows is None else tr(" for {rows} regions", rows=rows),
            )
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(array.astype(np.float32)).all()
    if not finite:
        raise InputError(tr("{place}: '{name}' has numbers that are not finite.", place=place, name=name))


def numpy_arrays(path: Path) -> dict[str, np.ndarray]:
    """NAME.npy, and NAME.boxes.npy and NAME.classes.npy beside it."""
    places = {FEATURES: path, **{name: path.with_suffix(f".{name}.npy") for name in (BOXES, CLASSES)}}
    return {name: load_numpy(place) for name, place in places.items() if place.is_file()}


def load_numpy(path: Path) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(tr("{path} cannot be read as an array: {reason}.", path=path, reason=error)) from error
    if not isinstance(found, np.ndarray):  # .npz under another name
        raise InputError(tr("{path} holds several arrays. Give .npy or .safetensors.", path=path))
    return found


def safetensors_arrays(place: FeaturePlace) -> dict[str, np.ndarray]:
    """`features`, `boxes` and `classes` of a file; in a file for all images, IMAGE/features and so on, or IMAGE."""
    from safetensors import SafetensorError

    try:
        about = place.file.stat()
        file, names = opened_file(place.file, about.st_mtime_ns, about.st_size)
        found = {name: stem for name in (FEATURES, BOXES, CLASSES) if (stem := named(place, name, names))}
        return {name: as_numpy(file.get_tensor(stem)) for name, stem in found.items()}
    except (SafetensorError, OSError) as error:
        raise InputError(
            tr("{path} cannot be read as a .safetensors file: {reason}.", path=place.file, reason=error)
        ) from error


@lru_cache(maxsize=1)
def opened_file(path: Path, changed: int, size: int) -> tuple[Any, frozenset[str]]:
    """A file with the names of its arrays, read once for all of its images until it changes."""
    from safetensors import safe_open

    file: Any = safe_open(path, framework="pt")
    return file, frozenset(file.keys())


def named(place: FeaturePlace, name: str, names: frozenset[str]) -> str | None:
    """The name of one of an image's arrays in a file; an image may be named with or without folder and ending."""
    if place.key is None:
        return name if name in names else None
    image = Path(place.key)
    stems = (place.key, image.name, str(image.with_suffix("")), image.stem)
    found = [f"{stem}/{name}" for stem in stems] + (list(stems) if name == FEATURES else [])
    return next((one for one in found if one in names), None)


def as_numpy(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.float().numpy())


def check_source(source: Path) -> None:
    """Refuse what is neither a folder nor a file for all images."""
    if not source.exists():
        raise InputError(tr("There is no {source}, in which --features has the features of images.", source=source))
    if source.is_file() and source.suffix != ".safetensors":
        raise InputError(
            tr(
                "--features {source}: give a folder with a file per image ({endings}), or a .safetensors file for all.",
                source=source,
                endings=comma().join(ENDINGS),
            )
        )


def width_in(source: Path) -> int:
    """The width of the first features in a folder, or in a file for all images."""
    from safetensors import SafetensorError, safe_open

    check_source(source)
    found = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.suffix in ENDINGS)
    for path in found:
        if path.suffix == ".npy":
            if path.suffixes[-2:-1] in ([f".{BOXES}"], [f".{CLASSES}"]):
                continue
            array = load_numpy(path)
            if array.ndim == 2:
                return int(array.shape[1])
            continue
        try:
            with safe_open(path, framework="pt") as file:
                names = [name for name in file.keys() if name.split("/")[-1] not in (BOXES, CLASSES)]  # noqa: SIM118
                shapes = [file.get_slice(name).get_shape() for name in names]
        except (SafetensorError, OSError) as error:
            raise InputError(
                tr("{path} cannot be read as a .safetensors file: {reason}.", path=path, reason=error)
            ) from error
        widths = [shape[1] for shape in shapes if len(shape) == 2]
        if widths:
            return int(widths[0])
    raise InputError(tr("{source} has no features of images: expected arrays of regions × features.", source=source))
