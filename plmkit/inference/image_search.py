"""Searching from the command line with texts and images: images for a text, captions for an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plmkit.data.caption_corpus import open_captions
from plmkit.data.feature_files import ENDINGS
from plmkit.data.reading.files import find_files
from plmkit.data.writing import Sheet
from plmkit.errors import InputError, SettingError
from plmkit.inference.matching import (
    CaptionHit,
    Image,
    ImageHit,
    check_sees,
    find_captions,
    find_images,
    given_image,
)
from plmkit.inference.model import Model
from plmkit.inference.retrieval import place_name, places_of
from plmkit.language import tr
from plmkit.tasks.use import MANY
from plmkit.terminal.screen import Screen

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """The images that are searched, and the captions, if they have some."""

    places: list[Image]
    names: list[str]
    captions: list[str]


def open_gallery(
    model: Model, corpus: Path, screen: Screen, *, column: str | None = None, header: bool = True,
    image_column: str | None = None, images: str | None = None, features: str | None = None,
) -> Gallery:  # fmt: skip
    """The images of a folder, or those of a table with their captions."""
    check_sees(model, tr("search images"))
    endings = IMAGES if model.architecture.image_pixels is not None else ENDINGS
    if corpus.is_dir():
        given = {"--text": column, "--image": image_column, "--images": images, "--features": features}
        if option := next((name for name, value in given.items() if value is not None), None):
            raise SettingError(
                tr(
                    "{option} is for a table of images and captions; {folder} is a folder of images. Leave it out.",
                    option=option,
                    folder=corpus,
                )
            )
        found = sorted(path for path in corpus.rglob("*") if path.suffix.lower() in endings)
        found = [path for path in found if not path.stem.endswith((".boxes", ".classes"))]
        if not found:
            raise InputError(tr("There is no image in {folder}.", folder=corpus))
        return Gallery(
            places=[given_image(model, path) for path in found], names=[str(path) for path in found], captions=[]
        )
    find_files([corpus])
    (opened,) = open_captions(
        [str(corpus)], model.architecture.image_pixels, region_width=model.architecture.region_width, column=column,
        header=header, image_column=image_column, images=images, features=features,
    )  # fmt: skip
    for note in opened.notes:
        screen.say(note)
    documents = list(opened.documents())
    captions = [text for document in documents for text in document.paragraphs]
    return Gallery(
        places=places_of(documents), names=[str(one.image) for one in documents], captions=list(dict.fromkeys(captions))
    )


def is_image(query: str) -> bool:
    """Whether a query is a file with an image or its features, and not a text; a missing one is refused."""
    if Path(query).suffix.lower() not in (*IMAGES, *ENDINGS):
        return False
    if not Path(query).is_file() and len(query.split()) == 1:
        raise InputError(tr("There is no image {path}.", path=query))
    return Path(query).is_file()


def search_gallery(
    model: Model, gallery: Gallery, queries: Sequence[str], top: int, screen: Screen
) -> list[list[ImageHit] | list[CaptionHit]]:
    """For each query its hits: images for a text, captions for an image."""
    if not queries:
        raise InputError(
            tr('The query is missing. Give a text or an image file, as in: plm search MODEL photos/ "a red square"')
        )
    shown = screen if len(gallery.places) > MANY else None
    texts = [query for query in queries if not is_image(query)]
    images = [given_image(model, query) for query in queries if is_image(query)]
    if images and not gallery.captions:
        raise InputError(
            tr(
                "{image} is an image, for which captions are searched, but the folder has none. Give a table of images "
                "and captions.",
                image=place_name(images[0]),
            )
        )
    by_text = iter(find_images(model, texts, gallery.places, gallery.names, top, shown) if texts else [])
    by_image = iter(find_captions(model, images, gallery.captions, top, shown) if images else [])
    return [next(by_image) if is_image(query) else next(by_text) for query in queries]


def as_json(queries: Sequence[str], found: Sequence[Sequence[Any]]) -> dict[str, Any]:
    pairs = zip(queries, found, strict=True)
    return {"queries": [{"query": query, "hits": [vars(hit) for hit in hits]} for query, hits in pairs]}


def sheet_of(queries: Sequence[str], found: Sequence[Sequence[Any]]) -> Sheet:
    rows = [
        [query, hit.rank, round(hit.score, 6), found_in(hit)]
        for query, hits in zip(queries, found, strict=True)
        for hit in hits
    ]
    return Sheet(columns=["query", "rank", "score", "found"], rows=rows)


def found_in(hit: ImageHit | CaptionHit) -> str:
    return hit.image if isinstance(hit, ImageHit) else hit.text
