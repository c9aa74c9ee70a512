"""Where units begin in rows of tokens."""

import numpy as np

from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.segmentation.units import ENTITY, IN_ENTITY, IN_PHRASE, PHRASE, WORD, check_level


def word_starts(rows: Rows, vocabulary: Vocabulary, level: str = "word") -> np.ndarray:
    """(B, L) True where a unit begins; also on special tokens and padding, so that no unit runs across them.

    At the levels above words, a unit is a phrase or an entity where there is one, and a word elsewhere.
    """
    check_level(level, "corruption.level")
    if rows.units is None and level != "word":
        raise SettingError(
            tr(
                "Masking at level {level} needs a segmenter, and none is set.\n"
                "Choose one: --set corruption.segmenter=Jieba --set corruption.segmenter.level={level}.",
                level=level,
            )
        )
    if rows.units is None:
        starts = ~vocabulary.is_continuation[rows.tokens]
    else:
        starts = (rows.units & WORD) > 0
        if level != "word":
            begin, inside = (PHRASE, IN_PHRASE) if level == "phrase" else (ENTITY, IN_ENTITY)
            within = (rows.units & inside) > 0
            # a unit may end inside a word: the rest of the word is another unit
            starts = np.where(within, (rows.units & begin) > 0, starts | shifted(within))
    special = ~vocabulary.is_ordinary(rows.tokens) & (rows.tokens != vocabulary.unknown)
    return starts | special | shifted(special) | (np.arange(rows.tokens.shape[1]) == 0)


def shifted(flags: np.ndarray) -> np.ndarray:
    """(B, L) True after a True."""
    out = np.zeros_like(flags)
    out[:, 1:] = flags[:, :-1]
    return out
