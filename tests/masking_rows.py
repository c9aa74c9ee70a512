"""Rows for the tests of masking: by hand, and by the thousand."""

from collections.abc import Iterator

import numpy as np

from plmkit.data.rows import Rows
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary

ENGLISH = "the cat sat on a mat un ##want ##ed guest ##s ran away over hills and far ##ther still"
WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *ENGLISH.split()))
PIECES = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{n}" for n in range(695)), *(f"##p{n}" for n in range(300))))


def rows_of(*texts: str, vocabulary: Vocabulary = WORDS, units: list[list[int]] | None = None) -> Rows:
    """One row a text; tokens are spaced. `units` are written as in a store, one number a token."""
    numbers = [[vocabulary.tokens.index(word) for word in text.split()] for text in texts]
    longest = max(map(len, numbers))
    tokens = np.array([line + [vocabulary.pad] * (longest - len(line)) for line in numbers])
    filled = None
    if units is not None:
        filled = np.array([line + [0] * (longest - len(line)) for line in units], dtype=np.uint8)
    return Rows(tokens=tokens, segments=np.zeros_like(tokens), visible=tokens != vocabulary.pad, units=filled)


def characters(text: str, units: list[int] | None = None) -> tuple[Rows, Vocabulary]:
    """`[CLS] text [SEP]`, a token a character, with the units of the characters."""
    vocabulary = Vocabulary.from_tokens((*SPECIAL_TOKENS, *sorted(set(text))))
    marks = None if units is None else [[0, *units, 0]]
    return rows_of(f"[CLS] {' '.join(text)} [SEP]", vocabulary=vocabulary, units=marks), vocabulary


def many(rows: int, length: int, *, pieces: float = 0.0, seed: int = 0) -> Rows:
    """`[CLS] text [SEP] text [SEP]` of PIECES; this many of the tokens continue a word."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, 700, (rows, length))
    tokens = np.where(rng.random((rows, length)) < pieces, rng.integers(700, 1000, (rows, length)), tokens)
    tokens[:, 0] = PIECES.cls
    tokens[:, length // 2] = tokens[:, -1] = PIECES.sep
    return Rows(tokens=tokens, segments=np.zeros_like(tokens), visible=np.ones_like(tokens, dtype=bool))


def words_in(row: np.ndarray, vocabulary: Vocabulary) -> list[list[int]]:
    """The words of a row as lists of positions, found by eye: `##` continues, a special token ends."""
    words: list[list[int]] = []
    for place, name in enumerate(vocabulary.names(row)):
        if name in ("[CLS]", "[SEP]", "[PAD]"):
            continue
        if name.startswith("##") and words and words[-1][-1] == place - 1:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def stretches(row: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last position of each run of True."""
    bounded = np.concatenate([[False], row, [False]]).astype(int)
    changes = np.flatnonzero(np.diff(bounded))
    return zip(changes[::2].tolist(), (changes[1::2] - 1).tolist(), strict=True)


class Forced:
    """Draws that a test writes down, call by call; a number is repeated for every position."""

    def __init__(self, *draws: list[float] | float) -> None:
        self.draws = iter(draws)

    def uniform(self, count: int) -> np.ndarray:
        draw = next(self.draws)
        return np.array([draw if isinstance(draw, list) else [draw] * count])
