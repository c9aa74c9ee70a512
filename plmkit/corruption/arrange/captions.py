"""Images with captions: a row is one caption, with the image that it describes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.source_target import padded
from plmkit.corruption.contract import Arrangement
from plmkit.data.batch import IGNORE
from plmkit.data.rows import Rows, StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class CaptionPlan(StretchPlan):
    """Each row is a caption; `labels` has the document, and so the image, of each."""

    @property
    def lengths(self) -> np.ndarray:
        """(N, 1) tokens."""
        return np.asarray((self.stretches[:, 1::2] - self.stretches[:, ::2]).sum(1, keepdims=True))


def captions_of(
    store: TokenStore, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """All captions of the documents: each with its image, its number among that image's, and how many these are."""
    first, last = store.documents[documents], store.documents[documents + 1]
    counts = np.asarray(last - first)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... of an image
    return np.repeat(first, counts) + number, np.repeat(documents, counts), number, np.repeat(counts, counts)


@dataclass(frozen=True, kw_only=True)
class ImageCaptions(Arrangement[CaptionPlan]):
    """An image and one of its captions, which begins and ends with the end token (Xu et al., 2015).

    A caption that is longer than a row is cut, and does not predict its end.
    """

    needs: ClassVar[tuple[str, ...]] = ("end",)
    images: ClassVar[bool] = True
    describes: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"images", "targets"})

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> CaptionPlan:
        captions, images, _, _ = captions_of(store, documents)
        begin, end = store.sentences[captions], store.sentences[captions + 1]
        stretches = np.stack([begin, np.minimum(end, begin + length)], axis=1)
        return CaptionPlan(stretches=stretches, labels={"images": images})

    def fill(
        self, store: TokenStore, plan: CaptionPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        assert store.images is not None
        captions = [store.tokens[begin:end].tolist() for begin, end in plan.stretches[chosen].tolist()]
        whole = [[vocabulary.end, *caption, vocabulary.end][: length + 1] for caption in captions]
        tokens, visible = padded([row[:-1] for row in whole], vocabulary.filler)
        targets, _ = padded([row[1:] for row in whole], IGNORE)
        return Rows(
            tokens=tokens,
            segments=np.zeros_like(tokens),
            visible=visible,
            targets=targets,
            images=np.asarray(store.images[plan.labels["images"][chosen]]),
        )
