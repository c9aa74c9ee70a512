"""What a token store keeps beside its tokens where a recipe needs it: capital letters, repeated tokens, connectives."""

from collections.abc import Sequence
from functools import cache
from typing import BinaryIO
from unicodedata import category

import numpy as np

from plmkit.data.connectives import Connected, connected
from plmkit.tokenizers.pieces import HIGHEST, groups, without_surrogates
from plmkit.tokenizers.tokenizer import Tokenizer

FARTHEST = np.iinfo(np.uint16).max  # tokens; no row is as long
LAST_CAPITAL = 0x1F000  # no letter of a higher code point has case
PLACES = np.array([1, 1, 1, 1, 0, 0])  # the columns of connectives that count tokens


class Bits:
    """A file of one bit per value, written in parts of any length."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.left = np.zeros(0, dtype=bool)  # fewer than eight, not yet written

    def write(self, values: np.ndarray) -> None:
        values = np.concatenate([self.left, values])
        whole = len(values) // 8 * 8
        np.packbits(values[:whole]).tofile(self.file)
        self.left = values[whole:]

    def close(self) -> None:
        np.packbits(self.left).tofile(self.file)
        self.file.flush()


@cache
def is_capital() -> np.ndarray:
    """For each code point: is it a capital letter?"""
    capital = np.zeros(HIGHEST, dtype=bool)
    capital[[code for code in range(LAST_CAPITAL) if category(chr(code)) in ("Lu", "Lt")]] = True
    return capital


def find_capitals(tokenizer: Tokenizer, sentences: Sequence[str], lengths: np.ndarray) -> np.ndarray:
    """(T,) True where the text of a token has a capital letter, also if the tokenizer has dropped it."""
    parts, done = [np.zeros(0, dtype=bool)], 0
    for group in groups(sentences):
        counts = lengths[done : done + len(group)]
        joined = without_surrogates("\n".join(group))
        codes = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
        before = np.concatenate([[0], np.cumsum(is_capital()[codes])])  # capital letters before each character
        starts = np.cumsum([0, *(len(text) + 1 for text in group)])[:-1]
        begins, ends = (tokenizer.offsets_many(group) + np.repeat(starts, counts)[:, None]).T
        parts.append(before[ends] > before[begins])
        done += len(group)
    return np.concatenate(parts)


def find_repeats(tokens: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(T, 2) how many places before each token its document has the same one first, and how many after it last.

    `sizes` are the tokens of each document.
    """
    places = np.arange(len(tokens))
    groups = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) << 32 | tokens.astype(np.int64)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    counts = np.diff(np.append(starts, len(tokens)))
    found = np.empty((len(tokens), 2), dtype=np.uint16)
    found[order, 0] = np.minimum(places[order] - np.repeat(places[order][starts], counts), FARTHEST)
    found[order, 1] = np.minimum(np.repeat(places[order][starts + counts - 1], counts) - places[order], FARTHEST)
    return found


def find_connectives(
    tokenizer: Tokenizer, sentences: Sequence[str], lengths: np.ndarray, documents: Sequence[tuple[int, int]]
) -> np.ndarray:
    """(C, 6) for each connective the tokens of the two texts, from and to, its relation, and its own number.

    `documents` are those to search: their first sentences, and the ones after their last.
    """
    found: list[Connected] = []
    for first, last in documents:
        found += [one.shifted(first) for one in connected(sentences[first:last])]
    if not found:
        return np.zeros((0, len(PLACES)), dtype=np.int64)
    used = sorted({side[0] for one in found for side in (one.first, one.second)})
    offsets = np.split(tokenizer.offsets_many([sentences[number] for number in used]), np.cumsum(lengths[used])[:-1])
    of_sentence = dict(zip(used, offsets, strict=True))
    starts = np.append(0, np.cumsum(lengths))
    rows = []
    for one in found:
        texts = []
        for number, begin, end in (one.first, one.second):
            places = of_sentence[number]
            # only tokens that lie in the text as a whole: one that it shares with the connective would show it
            inside = np.flatnonzero((places[:, 0] >= begin) & (places[:, 1] <= end))
            texts += [starts[number] + inside[0], starts[number] + inside[-1] + 1] if len(inside) else [0, 0]
        rows.append([*texts, one.relation, one.connective])
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return table[(table[:, 1] > table[:, 0]) & (table[:, 3] > table[:, 2])]
