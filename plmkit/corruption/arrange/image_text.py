"""Images with texts that describe them or not: half of the captions are those of another image."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.captions import CaptionPlan, captions_of
from plmkit.corruption.contract import Arrangement
from plmkit.data.rows import Rows, cuts, fill
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

TRIES = 10  # draws of a caption that must not be one of the image


@dataclass(frozen=True, kw_only=True)
class ImageText(Arrangement[CaptionPlan]):
    """An image with one of its captions, or with one of another image (Lu et al., 2019, 3.2)."""

    captions: int = 1  # per row; of 2, the first is always the image's and the second may be another's
    other_share: float = 0.5  # share of the rows whose last caption is that of another image
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 2
    images: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"images", "other_caption"})

    def __post_init__(self) -> None:
        if self.captions not in (1, 2) or not 0 <= self.other_share < 1:
            raise SettingError(
                tr(
                    "corruption.captions must be 1 or 2, and corruption.other_share at least 0 and below 1; found "
                    "{captions} and {share}.",
                    captions=self.captions,
                    share=self.other_share,
                )
            )

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        if len(documents) < 2:
            raise InputError(
                tr(
                    "{where}: a caption can be that of another image only if there are several images; found "
                    "{count} to train on. Give more.",
                    where=where,
                    count=len(documents),
                )
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> CaptionPlan:
        captions, images, number, counts = captions_of(store, documents)
        own = captions
        pairs = counts > 1 if self.captions == 2 else np.zeros(len(captions), dtype=bool)
        if self.captions == 2:  # another caption of the image; images with one caption have it alone
            shift = 1 + (rng.random(len(captions)) * np.maximum(1, counts - 1)).astype(np.int64)
            own = np.where(pairs, captions - number + (number + shift) % counts, captions)
        other = rng.random(len(captions)) < self.other_share
        drawn, found = others(store, captions, images, rng)
        other &= found
        last = np.where(other, drawn, own)
        first = np.where(pairs, captions, last)
        stretches = np.zeros((len(captions), 2 * self.captions), dtype=np.int64)
        stretches[:, :2] = np.stack([store.sentences[first], store.sentences[first + 1]], 1)
        if self.captions == 2:
            second = np.stack([store.sentences[last], store.sentences[last + 1]], 1)
            stretches[:, 2:] = np.where(pairs[:, None], second, 0)
        room = length - 1 - (1 + pairs)  # [CLS], and a [SEP] after each
        for row in np.flatnonzero((stretches[:, 1::2] - stretches[:, ::2]).sum(1) > room).tolist():
            sizes = stretches[row, 1::2] - stretches[row, ::2]
            cut = cuts(int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0, int(room[row]))
            stretches[row, 1::2] -= np.array(cut[: len(sizes)])
        return CaptionPlan(stretches=stretches, labels={"images": images, "other_caption": other.astype(np.int64)})

    def fill(
        self, store: TokenStore, plan: CaptionPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:  # fmt: skip
        places = plan.labels["images"][chosen]
        labels: Mapping[str, np.ndarray] = {"other_caption": plan.labels["other_caption"]}
        rows = fill(store, replace(plan, labels=labels), chosen, vocabulary, length)
        if store.regions is not None:
            return replace(rows, regions=store.regions.rows(places))
        assert store.images is not None
        return replace(rows, images=np.asarray(store.images[places]))


def others(
    store: TokenStore, captions: np.ndarray, images: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each caption a random one that its image does not have, and whether there is one; equal texts are one."""
    known: dict[bytes, int] = {}
    texts = (store.tokens[begin:end].tobytes() for begin, end in zip(*borders(store, captions), strict=True))
    keys = np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int64)
    most = int(keys.max(initial=0)) + 1
    owned = np.unique(images * most + keys)
    drawn = rng.integers(len(captions), size=len(captions))
    for _ in range(TRIES):
        wrong = np.flatnonzero(np.isin(images * most + keys[drawn], owned))
        if not len(wrong):
            break
        drawn[wrong] = rng.integers(len(captions), size=len(wrong))
    return captions[drawn], ~np.isin(images * most + keys[drawn], owned)


def borders(store: TokenStore, captions: np.ndarray) -> tuple[list[int], list[int]]:
    return store.sentences[captions].tolist(), store.sentences[captions + 1].tolist()
