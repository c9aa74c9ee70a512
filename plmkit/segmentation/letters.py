"""Kinds of characters, as far as words depend on them."""

import unicodedata

import numpy as np

from plmkit.segmentation.trie import HIGHEST

SPACE, LETTER, IDEOGRAPH, SIGN, MARK = range(5)
IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
SKINS = (0x1F3FB, 0x1F3FF)  # they colour the emoji before them
JOINER = 0x200D  # joins two emoji to one
UNSEEN = 255

_kinds = np.full(HIGHEST, UNSEEN, dtype=np.uint8)  # filled as characters are met: all of them would take a second


def kinds_of(codes: np.ndarray) -> np.ndarray:
    """(N,) the kind of each character: white space, letter or digit, ideograph, mark on the one before, or sign."""
    for code in np.unique(codes[_kinds[codes] == UNSEEN]).tolist():
        _kinds[code] = kind_of(code)
    return _kinds[codes]


def kind_of(code: int) -> int:
    letter = chr(code)
    if any(first <= code <= last for first, last in IDEOGRAPHS):
        return IDEOGRAPH
    category = unicodedata.category(letter)
    if letter.isspace() or category == "Cc":
        return SPACE
    if category in ("Mn", "Mc", "Me", "Cf") or SKINS[0] <= code <= SKINS[1]:
        return MARK
    return LETTER if letter.isalnum() else SIGN


def plain_starts(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) twice: where words begin if a word is a run of letters, a number, an ideograph or a sign; and the kinds.

    A mark takes the kind of the character that it stands on. 3.14% is one word.
    """
    kinds = kinds_of(codes)
    here = np.arange(len(codes))
    base = np.maximum.accumulate(np.where(kinds == MARK, 0, here))
    held = (kinds == MARK) & (kinds[base] != SPACE) & (base < here)
    kinds = np.where(held, kinds[base], np.where(kinds == MARK, SIGN, kinds))
    last = np.concatenate([[SPACE], kinds[:-1]])
    joined = np.concatenate([[False], codes[:-1] == JOINER])
    starts = (kinds != SPACE) & ~held & ~((kinds == LETTER) & (last == LETTER)) & ~(joined & (last != SPACE))
    digit = (codes >= ord("0")) & (codes <= ord("9"))
    after_digit = np.concatenate([[False], digit[:-1]])
    before_digit = np.concatenate([digit[1:], [False]])
    point = ((codes == ord(".")) | (codes == ord(","))) & after_digit & before_digit
    starts &= ~(point | np.concatenate([[False], point[:-1]]) | ((codes == ord("%")) & after_digit))
    return starts, kinds


def spans_of(starts: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """(W, 2) words that go from each start to the next, or to white space."""
    begins = np.flatnonzero(starts)
    stops = np.flatnonzero(starts | (kinds == SPACE))
    stops = np.append(stops, len(starts))
    return np.stack([begins, stops[np.searchsorted(stops, begins, side="right")]], axis=1)
