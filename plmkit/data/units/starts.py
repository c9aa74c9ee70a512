"""Where the units of a row begin."""

import numpy as np

from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary

WORD, PHRASE, ENTITY, INSIDE = 1, 2, 4, 8  # bits of `Rows.units`: a unit begins here; this token is in an entity


def word_starts(rows: Rows, vocabulary: Vocabulary, level: str = "word") -> np.ndarray:
    """(B, L) True where a unit begins, and on special tokens and padding, so that no unit runs across them."""
    text = vocabulary.is_ordinary(rows.tokens) | (rows.tokens == vocabulary.unknown)
    if rows.units is None:
        return ~vocabulary.is_continuation[rows.tokens] | ~text
    begins = {
        "word": rows.units & WORD,
        "phrase": rows.units & PHRASE,
        "entity": np.where(rows.units & INSIDE, rows.units & ENTITY, rows.units & WORD),
    }[level]
    return (begins > 0) | ~text
