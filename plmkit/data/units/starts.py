"""Where the units of a row begin."""

import numpy as np

from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary

# bits of `Rows.units`: a word, a phrase, an entity begins here; this token lies in an entity, in a phrase
WORD, PHRASE, ENTITY, IN_ENTITY, IN_PHRASE = 1, 2, 4, 8, 16


def word_starts(rows: Rows, vocabulary: Vocabulary, level: str = "word") -> np.ndarray:
    """(B, L) True where a unit begins, and on special tokens and padding, so that no unit runs across them.

    Above words, a unit is a phrase or an entity where there is one, and a word elsewhere.
    """
    special = ~vocabulary.is_ordinary(rows.tokens) & (rows.tokens != vocabulary.unknown)
    if rows.units is None:
        return ~vocabulary.is_continuation[rows.tokens] | special
    starts = (rows.units & WORD) > 0
    if level != "word":
        begin, inside = (PHRASE, IN_PHRASE) if level == "phrase" else (ENTITY, IN_ENTITY)
        starts = np.where(rows.units & inside, (rows.units & begin) > 0, starts)
    return starts | special
