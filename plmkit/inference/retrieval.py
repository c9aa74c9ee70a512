"""How well a model finds the image of a text and the text of an image: recall at 1, 5 and 10, and match accuracy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plmkit.data.caption_corpus import open_captions
from plmkit.data.feature_files import FeaturePlace
from plmkit.data.randomness import generator
from plmkit.data.reading.source import Document
from plmkit.errors import InputError
from plmkit.inference.matching import Image, image_head, match_scores, regions_of
from plmkit.inference.model import Model
from plmkit.language import several, tr
from plmkit.tasks.use import MANY
from plmkit.terminal.screen import Screen

AMONG = 100  # candidates by default
CUTOFFS = (1, 5, 10)
DRAWS = 61  # purpose of random numbers


def evaluate_retrieval(
    model: Model, file: str, screen: Screen, *, column: str | None = None, header: bool = True,
    image_column: str | None = None, images: str | None = None, features: str | None = None,
    candidates: int = AMONG,
) -> dict[str, Any]:  # fmt: skip
    """Rank the images of a table by each of its captions, and its captions by each image; 0 candidates: all.

    Images with the same caption as a text, and texts that an image has too, are no wrong answers: they are left out.
    """
    image_head(model)
    (corpus,) = open_captions(
        [file], model.architecture.image_pixels, region_width=model.architecture.region_width, column=column,
        header=header, image_column=image_column, images=images, features=features,
    )  # fmt: skip
    for note in corpus.notes:
        screen.say(note)
    documents = list(corpus.documents())
    if len(documents) < 2:
        raise InputError(tr("{file} has one image, so there is nothing to choose from. Give several.", file=file))
    counts = np.array([len(document.paragraphs) for document in documents])
    if 0 < candidates <= counts.max():
        raise InputError(
            tr(
                "--candidates {candidates} leaves no wrong one: an image of {file} has {captions}. Give at least "
                "{least}, or 0 for all.",
                candidates=candidates,
                file=file,
                captions=several(int(counts.max()), "caption"),
                least=int(counts.max()) + 1,
            )
        )
    owners = np.repeat(np.arange(len(documents)), counts)
    texts = [text for document in documents for text in document.paragraphs]
    rows, unread = model.framed([(text, None) for text in texts], model.max_length)
    for _, remark in unread.remarks():
        screen.say(f"! {remark}")
    known: dict[bytes, int] = {}
    wordings = np.array([known.setdefault(row.tokens.tobytes(), len(known)) for row in rows])
    rng = generator(0, DRAWS)
    by_text, by_image = candidate_pairs(owners, wordings, candidates or len(texts), rng)
    if (owners[by_text[:, 0]] == by_text[:, 1]).all():
        raise InputError(
            tr("All images of {file} have the same captions, so there is nothing to choose from.", file=file)
        )
    shown = screen if len(documents) > MANY else None
    regions = regions_of(model, places_of(documents), shown, documents)
    wanted, inverse = np.unique(np.concatenate([by_text, by_image]), axis=0, return_inverse=True)
    scores = match_scores(model, rows, regions, wanted, shown)[inverse.ravel()]
    first, second = scores[: len(by_text)], scores[len(by_text) :]
    others = by_text[:, 1] != owners[by_text[:, 0]]
    return {
        "images": len(documents),
        "captions": len(texts),
        "match_accuracy": float(((first[~others] > 0).mean() + (first[others] <= 0).mean()) / 2),
        "text_to_image": recalls(by_text[:, 0], first, ~others),
        "image_to_text": recalls(by_image[:, 1], second, owners[by_image[:, 0]] == by_image[:, 1]),
    }


def places_of(documents: Sequence[Document]) -> list[Image]:
    """Where the images are, or their features."""
    return [place for document in documents if (place := document.features or document.image) is not None]


def candidate_pairs(
    owners: np.ndarray, wordings: np.ndarray, candidates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a text and an image: for each text its image and others, for each image its texts and others.

    Texts with the same number in `wordings` are equal, and none of the others.
    """
    every = np.arange(owners[-1] + 1)
    images_of: dict[int, list[int]] = {}
    for owner, wording in zip(owners.tolist(), wordings.tolist(), strict=True):
        images_of.setdefault(wording, []).append(owner)
    by_text = []
    for text, (owner, wording) in enumerate(zip(owners.tolist(), wordings.tolist(), strict=True)):
        rest = np.delete(every, images_of[wording])
        chosen = rng.permutation(rest)[: candidates - 1] if candidates <= len(rest) else rest
        by_text += [(text, owner), *((text, image) for image in chosen.tolist())]
    by_image = []
    for image in every.tolist():
        own = np.flatnonzero(owners == image)
        said = np.zeros(wordings.max() + 1, dtype=bool)
        said[wordings[own]] = True
        rest = np.flatnonzero(~said[wordings])
        room = max(0, candidates - len(own))
        chosen = rng.permutation(rest)[:room] if room < len(rest) else rest
        by_image += [(text, image) for text in (*own.tolist(), *chosen.tolist())]
    return np.array(by_text), np.array(by_image)


def recalls(queries: np.ndarray, scores: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Of each query the rank of its best right candidate; of equal scores, half of the others count as better."""
    ranks, sizes, rights = [], [], []
    for query in np.unique(queries):
        own = queries == query
        mine, correct = scores[own], right[own]
        top = mine[correct].max()
        wrong = mine[~correct]
        ranks.append(1 + (wrong > top).sum() + (wrong == top).sum() / 2)
        sizes.append(len(mine))
        rights.append(correct.sum())
    found = np.array(ranks)
    return {
        **{f"recall_at_{cutoff}": float((found <= cutoff).mean()) for cutoff in CUTOFFS},
        "median_rank": float(np.median(found)),
        "candidates": float(np.mean(sizes)),
        "right": float(np.mean(rights)),
    }


def place_name(place: Image) -> str:
    return str(place.file if isinstance(place, FeaturePlace) else place)
