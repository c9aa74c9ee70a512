"""Images with their captions, or with those of others."""

from dataclasses import replace

import numpy as np
import pytest
from stores import store_of

from plmkit.corruption.arrange.image_text import ImageText
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.randomness import generator
from plmkit.data.region_store import RegionStore
from plmkit.data.samples import Samples
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import InputError, SettingError

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(40))))
IMAGES, CAPTIONS, LENGTH = 40, 5, 3  # of each image, and tokens of each caption


def store(images: int = IMAGES, captions: int = CAPTIONS):
    """The first token of a caption is the number of its image, the second its number among the image's."""
    made = store_of(*([[LENGTH] * captions] * images))
    numbers = np.arange(images * captions)
    tokens = np.stack([numbers // captions % 40 + 5, numbers % captions + 5, numbers % 7 + 5], 1).ravel()
    pictures = np.zeros((images, 3, 2, 2), dtype=np.uint8)
    pictures[:, 0, 0, 0] = np.arange(images)
    return replace(made, tokens=tokens, images=pictures)


def samples(*steps, of=None) -> Samples:
    made = of or store()
    return Samples(made, np.arange(len(made.documents) - 1), steps, WORDS, seed=0)


def test_half_of_the_captions_are_those_of_another_image_and_never_another_of_the_same():
    rows = samples(ImageText(), of=store(images=40, captions=50)).rows(0, 0, 2000, 16)
    images = rows.images[:, 0, 0, 0]
    assert rows.tokens[0, :2].tolist() == [WORDS.cls, rows.tokens[0, 1]]
    assert (rows.tokens[:, 4] == WORDS.sep).all()
    others = rows.tokens[:, 1] - 5 != images
    assert np.array_equal(others, rows.other_caption == 1)
    assert rows.other_caption.mean() == pytest.approx(0.5, abs=0.03)
    assert not rows.segments.any()


def test_every_caption_is_read_once_and_epochs_draw_other_ones():
    made = samples(ImageText(other_share=0.0))
    rows = made.rows(0, 0, IMAGES * CAPTIONS, 16)
    assert sorted(map(tuple, rows.tokens[:, 1:3].tolist())) == [
        (5 + image, 5 + number) for image in range(IMAGES) for number in range(CAPTIONS)
    ]
    half = samples(ImageText())
    first, second = (half.rows(epoch, 0, 200, 16) for epoch in (0, 1))
    again = samples(ImageText()).rows(0, 0, 200, 16)
    assert np.array_equal(first.tokens, again.tokens)
    assert not np.array_equal(first.tokens, second.tokens)


def test_equal_texts_of_two_images_are_not_told_apart():
    """Every caption of even images is one text, that of odd ones another: a wrong one is always of the other kind."""
    made = store_of(*([[1]] * 20))
    made = replace(
        made, tokens=np.arange(20) % 2 + 5, images=np.arange(20, dtype=np.uint8).repeat(12).reshape(20, 3, 2, 2)
    )
    rows = samples(ImageText(), of=made).rows(0, 0, 20, 8)
    right = rows.tokens[:, 1] - 5 == rows.images[:, 0, 0, 0] % 2
    assert np.array_equal(right, rows.other_caption == 0)
    same = replace(made, tokens=np.full(20, 7))  # there is no wrong caption at all
    assert not samples(ImageText(), of=same).rows(0, 0, 20, 8).other_caption.any()


def test_of_two_captions_the_first_is_the_images_and_the_second_another_of_it_or_not():
    rows = samples(ImageText(captions=2), of=store(images=40, captions=20)).rows(0, 0, 800, 16)
    images = rows.images[:, 0, 0, 0]
    first, second = rows.tokens[:, 1:4], rows.tokens[:, 5:8]
    assert (first[:, 0] - 5 == images).all()
    assert np.array_equal(second[:, 0] - 5 != images, rows.other_caption == 1)
    assert rows.other_caption.mean() == pytest.approx(0.5, abs=0.05)
    assert not (first == second).all(1).any()  # never the same caption twice
    assert (rows.segments[:, 4] == 0).all() and (rows.segments[:, 5:9] == 1).all()
    alone = samples(ImageText(captions=2), of=store(captions=1)).rows(0, 0, 40, 16)  # images with one caption
    assert (alone.visible.sum(1) == LENGTH + 2).all()
    assert np.array_equal(alone.tokens[:, 1] - 5 != alone.images[:, 0, 0, 0], alone.other_caption == 1)


@pytest.mark.parametrize("captions", [1, 2])
def test_long_captions_are_cut_to_the_row(captions):
    made = store_of(*([[30, 20]] * 10))
    made = replace(made, tokens=np.arange(500) % 40 + 5, images=np.zeros((10, 3, 2, 2), dtype=np.uint8))
    rows = samples(ImageText(captions=captions), of=made).rows(0, 0, 20, 16)
    assert (rows.visible.sum(1) == 16).all()
    assert ((rows.tokens == WORDS.sep).sum(1) == captions).all()


def test_words_are_masked_and_images_never():
    plain, masked = (samples(ImageText(), *steps).rows(0, 0, 200, 16) for steps in ((), (TokenMasking(rate=0.15),)))
    assert np.array_equal(plain.images, masked.images)
    assert ((masked.targets >= 0).sum(1) == 1).all()  # of five tokens
    assert masked.region_masks is None


def test_features_of_regions_take_the_place_of_images_and_are_padded():
    counts = np.arange(IMAGES) % 3 + 1
    starts = np.concatenate([[0], np.cumsum(counts)])
    total = int(starts[-1])
    regions = RegionStore(
        features=np.repeat(np.arange(IMAGES), counts)[:, None].astype(np.float32),
        boxes=np.ones((total, 4), dtype=np.float32), starts=starts,
    )  # fmt: skip
    rows = samples(ImageText(other_share=0.0), of=replace(store(), images=None, regions=regions)).rows(0, 0, 9, 16)
    assert rows.images is None
    for tokens, features, visible in zip(rows.tokens, rows.regions.features, rows.regions.visible, strict=True):
        image = tokens[1] - 5
        assert visible.tolist() == [True] * counts[image] + [False] * (3 - counts[image])
        assert (features[visible] == image).all() and not features[~visible].any()
    assert Samples.batch(samples(ImageText(), of=replace(store(), images=None, regions=regions)), 0, 0, 4, 16).regions


def test_one_image_is_too_few_and_other_settings_are_refused():
    with pytest.raises(InputError, match="there are several images; found 1"):
        ImageText().check(store(images=1), np.arange(1), "captions.jsonl:1")
    with pytest.raises(SettingError, match="must be 1 or 2"):
        ImageText(captions=3)
    with pytest.raises(SettingError, match="below 1"):
        ImageText(other_share=1.0)


def test_a_plan_is_a_pure_function_of_its_numbers():
    made = store()
    one, other = (ImageText().plan(made, np.arange(IMAGES), 16, generator(3)) for _ in range(2))
    assert np.array_equal(one.stretches, other.stretches)
