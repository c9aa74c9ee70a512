"""Which characters are ideographs."""

import re

import pytest

from plmkit.data.characters import HAN, WIDE, is_ideograph


@pytest.mark.parametrize("letter", "一龥鿿㐀䶿豈𠀀𲎯")
def test_han_characters_of_every_block_are_ideographs(letter):
    assert is_ideograph(ord(letter))
    assert re.fullmatch(f"[{HAN}]", letter)
    assert re.fullmatch(f"[{WIDE}]", letter)


@pytest.mark.parametrize("letter", "aあ한。，䷀1")
def test_kana_hangul_signs_and_hexagrams_are_none(letter):
    assert not is_ideograph(ord(letter))
    assert not re.fullmatch(f"[{HAN}]", letter)


def test_nothing_is_spaced_around_kana_and_wide_signs():
    assert all(re.fullmatch(f"[{WIDE}]", letter) for letter in "あア。，“…—")
    assert not re.fullmatch(f"[{WIDE}]", "a")
