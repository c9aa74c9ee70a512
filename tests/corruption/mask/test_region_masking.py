"""Masking of image regions: how many, and what becomes of them."""

import numpy as np
import pytest

from plmkit.corruption.mask.regions import RegionMasking
from plmkit.data.randomness import Draws
from plmkit.data.rows import SEEN, ZEROED, Rows
from plmkit.errors import SettingError


def masks(rows: int = 2000, epoch: int = 0, **settings) -> np.ndarray:
    empty = np.zeros((rows, 4), dtype=np.int64)
    given = Rows(tokens=empty, segments=empty, visible=empty == 0)
    return RegionMasking(**settings)(given, None, Draws(0, epoch, np.arange(rows))).region_masks


def test_fifteen_percent_are_masked_and_nine_of_ten_of_these_are_zeroed():
    found = masks()
    assert found.shape == (2000, 256)
    assert (found > 0).mean() == pytest.approx(0.15, abs=0.005)
    assert (found == ZEROED).sum() / (found > 0).sum() == pytest.approx(0.9, abs=0.01)
    assert set(np.unique(found)) == {0, ZEROED, SEEN}


def test_regions_are_masked_anew_in_every_epoch_and_the_same_when_repeated():
    assert np.array_equal(masks(20), masks(20))
    assert not np.array_equal(masks(20), masks(20, epoch=1))
    assert np.array_equal(masks(20)[:5], masks(5))


@pytest.mark.parametrize("settings", [{"region_rate": 0.0}, {"region_rate": 1.0}, {"zero_share": 1.5}])
def test_shares_out_of_range_are_refused(settings):
    with pytest.raises(SettingError, match="region_rate must be above 0"):
        RegionMasking(**settings)
