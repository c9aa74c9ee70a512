"""A row is one caption with the image that it describes."""

from dataclasses import replace

import numpy as np
from stores import store_of

from plmkit.corruption.arrange.captions import ImageCaptions
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import generator
from plmkit.data.vocabulary import Vocabulary

WORDS = Vocabulary.from_tokens(("<|endoftext|>", *(f"w{number}" for number in range(1, 12))), needed=("end",))
# two images: the first with captions w1 w2 and w3, the second with w4 w5 w6 w7
STORE = store_of([2, 1], [4])
STORE = replace(STORE, tokens=STORE.tokens + 1, images=np.arange(2 * 3, dtype=np.uint8).reshape(2, 3, 1, 1))


def filled(length: int):
    plan = ImageCaptions().plan(STORE, np.array([0, 1]), length, generator(0))
    return ImageCaptions().fill(STORE, plan, np.arange(len(plan)), WORDS, length)


def test_captions_start_and_end_with_the_end_token_and_have_their_image():
    rows = filled(8)
    assert rows.tokens.tolist() == [[0, 1, 2, 0, 0], [0, 3, 0, 0, 0], [0, 4, 5, 6, 7]]
    assert rows.targets.tolist() == [[1, 2, 0, IGNORE, IGNORE], [3, 0, IGNORE, IGNORE, IGNORE], [4, 5, 6, 7, 0]]
    assert rows.visible.sum(1).tolist() == [3, 2, 5]
    assert rows.images[:, :, 0, 0].tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5]]


def test_a_caption_that_is_too_long_does_not_predict_its_end():
    assert filled(3).targets.tolist() == [[1, 2, 0], [3, 0, IGNORE], [4, 5, 6]]


def test_captions_of_like_length_share_a_batch():
    plan = ImageCaptions().plan(STORE, np.array([1, 0]), 8, generator(0))
    assert plan.lengths.tolist() == [[4], [2], [1]]
    assert plan.only(np.array([2, 0])).labels["images"].tolist() == [0, 1]
