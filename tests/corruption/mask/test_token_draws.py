"""How many tokens, and which: RoBERTa's and ELECTRA's ways."""

import numpy as np
import pytest
from masking_rows import PIECES, WORDS, Forced, many, rows_of

from plmkit.corruption.mask.token import DynamicMasking, ReplacedMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws


@pytest.mark.parametrize("length", [10, 64, 100, 127, 128, 512])
def test_the_mean_count_of_dynamic_masking_is_exactly_the_rate(length):
    draws = (np.arange(100_000) + 0.5) / 100_000  # every draw equally often
    counts = DynamicMasking().count(np.full(100_000, length), draws)
    assert counts.mean() == pytest.approx(0.15 * length, abs=1e-4)
    assert set(counts) <= {int(0.15 * length), int(0.15 * length) + 1}


def test_dynamic_masking_rounds_up_or_down_by_chance():
    lengths = np.array([128, 128, 100, 100])
    assert DynamicMasking().count(lengths, np.array([0.79, 0.81, 0.0, 0.99])).tolist() == [19, 20, 15, 15]
    assert DynamicMasking().count(np.array([3, 3]), np.array([0.0, 0.6])).tolist() == [1, 1]  # never nothing


def test_dynamic_masking_masks_the_mean_it_counts():
    out = DynamicMasking()(many(12_000, 127), PIECES, Draws(1, 0, np.arange(12_000)))
    counts = (out.targets != IGNORE).sum(axis=1)
    assert set(counts) == {19, 20}
    assert counts.mean() == pytest.approx(0.15 * 127, abs=0.01)


def test_a_place_that_is_drawn_twice_is_masked_once():
    rows = rows_of("[CLS] the cat sat on a mat ran away over [SEP] hills and far still [SEP]")
    step = ReplacedMasking(rate=0.25)  # four draws among thirteen candidates
    nth = [(number + 0.5) / 13 for number in (2, 9, 2, 0)] + [0.99] * 12
    out = step(rows, WORDS, Forced(nth, 0.99))
    assert np.flatnonzero(out.targets[0] != IGNORE).tolist() == [1, 3, 11]  # the, sat, hills
    assert WORDS.names(out.tokens[0, [1, 3, 11]]) == ["[MASK]"] * 3  # all of them, as in the paper


def test_the_number_of_places_is_that_of_draws_with_replacement():
    rows = many(15_000, 128)
    out = ReplacedMasking()(rows, PIECES, Draws(1, 0, np.arange(15_000)))
    hidden = out.targets != IGNORE
    assert hidden.sum() > 200_000
    expected = 125 * (1 - (1 - 1 / 125) ** 19)  # 19 draws among 125 candidates
    assert hidden.sum(axis=1).mean() == pytest.approx(expected, abs=0.05)
    assert (out.tokens[hidden] == PIECES.mask).all()
    share = np.delete(hidden.mean(axis=0), [0, 64, 127])
    assert np.abs(share - expected / 125).max() < 0.012  # every position equally often
    assert not hidden[:, [0, 64, 127]].any()


def test_the_released_variant_leaves_fifteen_percent_as_they_are():
    rows = many(15_000, 128)
    out = ReplacedMasking(mask_share=0.85)(rows, PIECES, Draws(1, 0, np.arange(15_000)))
    hidden = out.targets != IGNORE
    assert hidden.sum() > 200_000
    masked = out.tokens[hidden] == PIECES.mask
    assert masked.mean() == pytest.approx(0.85, abs=0.01)
    assert (out.tokens[hidden][~masked] == rows.tokens[hidden][~masked]).all()


def test_a_mask_that_stands_in_the_text_is_no_candidate():
    rows = rows_of("[CLS] [MASK] cat [MASK] [SEP]")
    for epoch in range(20):
        out = ReplacedMasking()(rows, WORDS, Draws(0, epoch, np.arange(1)))
        assert np.flatnonzero(out.targets[0] != IGNORE).tolist() == [2]
