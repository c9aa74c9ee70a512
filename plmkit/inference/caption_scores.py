"""How good the captions of images are: loss, and BLEU with all captions of an image as references."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

import numpy as np
import torch

from plmkit.data.caption_corpus import open_captions
from plmkit.data.images import load_image
from plmkit.data.reading.source import Document
from plmkit.data.shards import row_named
from plmkit.inference.captioning import AT_ONCE, caption_images, captions_batch, image_size_of
from plmkit.inference.model import Model
from plmkit.inference.translation_scores import bleu_tokenizer, scored
from plmkit.tasks.use import MANY
from plmkit.terminal.screen import Screen
from plmkit.training.threads import look


def evaluate_captions(
    model: Model, file: str, beams: int, screen: Screen, *, column: str | None = None, header: bool = True,
    image_column: str | None = None, images: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Describe the images of a table and compare with its captions; upper and lower case are the same."""
    from sacrebleu.metrics import BLEU

    (corpus,) = open_captions(
        [file], image_size_of(model), column=column, header=header, image_column=image_column, images=images
    )
    for note in corpus.notes:
        screen.say(note)
    documents = list(corpus.documents())
    total, tokens = loss(model, documents)
    paths = [str(document.image) for document in documents]
    found = caption_images(model, paths, beams, screen if len(paths) > MANY else None)
    captions = [document.paragraphs for document in documents]
    metric = BLEU(tokenize=bleu_tokenizer([text for texts in captions for text in texts]), lowercase=True)
    return {
        "images": len(documents),
        "captions": sum(map(len, captions)),
        "tokens": tokens,
        "loss": total / tokens,
        "perplexity": math.exp(min(700.0, total / tokens)),
        "bleu": asdict(scored(metric, [one.text for one in found], list(zip_longest(*captions)))),
    }


def images_of(documents: Sequence[Document], size: int) -> np.ndarray:
    """(D, 3, size, size) their images; one that is broken is named with its row."""
    made = []
    for document in documents:
        assert document.image is not None
        with row_named(document):
            made.append(load_image(document.image, size))
    return np.stack(made)


@torch.inference_mode()
def loss(model: Model, documents: Sequence[Document]) -> tuple[float, int]:
    """The sum of the negative log-probabilities of all tokens of captions, ends included, and their number."""
    size, head = image_size_of(model), model.network.head_that_generates
    assert head is not None
    total, tokens = 0.0, 0
    for start in range(0, len(documents), AT_ONCE):
        look()
        some = documents[start : start + AT_ONCE]
        owners = [number for number, document in enumerate(some) for _ in document.paragraphs]
        images = images_of(some, size)[owners]
        rows = [model.tokenizer.encode_plain(text) for document in some for text in document.paragraphs]
        batch = captions_batch(model, torch.from_numpy(images), rows)
        count = head.scored(batch)
        total += count * float(head(model.network.model(batch), batch))
        tokens += count
    return total, tokens
