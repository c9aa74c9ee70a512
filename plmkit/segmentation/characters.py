"""Text as code points: kinds of characters, where plain words begin, and all words of a list in a text at once."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plmkit.data.text import is_ideograph

CODE_BITS = 21  # a code point fits
HIGHEST = 0x110000
SPACE, LETTER, IDEOGRAPH, SIGN, MARK = range(5)
SKINS = (0x1F3FB, 0x1F3FF)  # skin tones of the emoji before them
JOINER = 0x200D  # joins two emoji into one
UNSEEN = 255

_kinds = np.full(
    HIGHEST, UNSEEN, dtype=np.uint8
)  # filled when a character first occurs: all of them would take a second


def codes_of(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)


def kinds_of(codes: np.ndarray) -> np.ndarray:
    """(N,) the kind of each character: white space, letter or digit, ideograph, mark on the one before, or sign."""
    for code in np.unique(codes[_kinds[codes] == UNSEEN]).tolist():
        _kinds[code] = kind_of(code)
    return _kinds[codes]


def kind_of(code: int) -> int:
    letter = chr(code)
    if is_ideograph(code):
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
    """(W, 2) words from each start to the next, or to white space."""
    begins = np.flatnonzero(starts)
    stops = np.flatnonzero(starts | (kinds == SPACE))
    stops = np.append(stops, len(starts))
    return np.stack([begins, stops[np.searchsorted(stops, begins, side="right")]], axis=1)


@dataclass(frozen=True, kw_only=True)
class Found:
    """Words of a dictionary in a text, the shorter before the longer."""

    begins: np.ndarray
    lengths: np.ndarray
    words: np.ndarray  # which word of the dictionary


class Trie:
    """A prefix tree of words; it is searched from all characters of a text at once, length by length."""

    def __init__(self, words: Sequence[str]) -> None:
        self.first = np.full(HIGHEST, -1, dtype=np.int32)  # code point to node
        self.levels: list[tuple[np.ndarray, np.ndarray]] = []  # for each length: keys in order, and their nodes
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        node = np.full(len(words), -1, dtype=np.int64)
        self.nodes = 0
        ends: list[np.ndarray] = []
        text, begins = codes_of("".join(words)), np.cumsum(lengths) - lengths
        for depth in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > depth)
            keys = (np.maximum(node[longer], 0) << CODE_BITS) | text[begins[longer] + depth]
            keys, places = np.unique(keys, return_inverse=True)
            node[longer] = self.nodes + places
            made = np.arange(self.nodes, self.nodes + len(keys))
            if depth == 0:
                self.first[keys] = made
            else:
                self.levels.append((keys, made))
            self.nodes += len(keys)
            word = np.full(len(keys), -1, dtype=np.int32)
            done = longer[lengths[longer] == depth + 1]
            word[node[done] - made[0]] = done
            ends.append(word)
        self.word = np.concatenate([np.zeros(0, dtype=np.int32), *ends])  # node to word, -1 if it is only a prefix

    def find(self, codes: np.ndarray) -> Found:
        """Every word at every place."""
        node = self.first[codes].astype(np.int64)
        begins = np.flatnonzero(node >= 0)
        node = node[begins]
        found = [(begins, np.ones(len(begins), dtype=np.int64), self.word[node])]
        for depth, (keys, nodes) in enumerate(self.levels, start=1):
            inside = begins + depth < len(codes)
            begins, node = begins[inside], node[inside]
            wanted = (node << CODE_BITS) | codes[begins + depth]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            begins, node = begins[hit], nodes[place[hit]]
            if not len(begins):
                break
            found.append((begins, np.full(len(begins), depth + 1, dtype=np.int64), self.word[node]))
        begins, lengths, words = (np.concatenate(part) for part in zip(*found, strict=True))
        real = words >= 0
        return Found(begins=begins[real], lengths=lengths[real], words=words[real])
