"""Words as rows of character ids, as ELMo reads them (allenai/bilm-tf, allenai/allennlp)."""

from collections.abc import Sequence

import numpy as np

# ids 0 to 255 are the bytes of a word in UTF-8
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, NO_CHARACTER = range(256, 261)
CHARACTER_IDS = 261
WORD_LENGTH = 50  # characters of a row, the marks of begin and end included


def spell(words: Sequence[str], length: int = WORD_LENGTH) -> np.ndarray:
    """(words, length) the characters of each word between two marks, cut to fit and padded."""
    cut = [word.encode("utf-8", "replace")[: length - 2] for word in words]
    sizes = np.array(list(map(len, cut)), dtype=np.int64)
    rows = np.full((len(words), length), NO_CHARACTER, dtype=np.int16)
    rows[:, 0] = BEGIN_WORD
    inside = np.arange(1, length)[None] <= sizes[:, None]
    rows[:, 1:][inside] = np.frombuffer(b"".join(cut), dtype=np.uint8)
    rows[np.arange(len(words)), sizes + 1] = END_WORD
    return rows


def spell_mark(mark: int, length: int = WORD_LENGTH) -> np.ndarray:
    """(length,) the row of BEGIN_SENTENCE or END_SENTENCE: a word of this one character."""
    rows = spell(["?"], length)
    rows[0, 1] = mark
    return rows.squeeze(0)
