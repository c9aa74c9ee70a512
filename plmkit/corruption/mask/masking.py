"""What the ways of hiding share: what may be hidden, the units it forms, and what is shown in its place."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.segmentation.starts import word_starts

NEVER = 2.0  # a score above every draw


def check_settings(step: Any) -> None:
    """Rates, shares and counts that can be; the error names the setting."""
    if not 0 < step.rate < 1:
        raise SettingError(f"corruption.rate is the share of tokens to hide, above 0 and below 1; found {step.rate}.")
    for name in ("most", "copies"):
        if getattr(step, name, None) is not None and getattr(step, name) < 1:
            raise SettingError(f"corruption.{name} must be 1 or more, or none; found {getattr(step, name)}.")
    swapped = getattr(step, "swapped", 0.0)
    if min(step.masked, swapped) < 0 or step.masked + swapped > 1:
        raise SettingError(
            "corruption.masked and corruption.swapped are shares of the hidden tokens, together at most 1; "
            f"found {step.masked} and {swapped}."
        )


def candidates(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Where text stands: all but [CLS], [SEP] and padding; unknown words count, as in the released code."""
    return (tokens != vocabulary.cls) & (tokens != vocabulary.sep) & (tokens != vocabulary.pad)


def rounded(rate: float, lengths: np.ndarray, most: int | None) -> np.ndarray:
    """How many to hide in rows of these lengths, [CLS] and [SEP] counted, as BERT's released code does."""
    wanted = np.maximum(1, np.rint(rate * lengths)).astype(np.int64)
    return wanted if most is None else np.minimum(wanted, most)


def lowest(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, L) True at each row's `counts` lowest scores, fewer where the others are NEVER."""
    rank = np.argsort(np.argsort(scores, axis=1), axis=1)
    return (rank < counts[:, None]) & (scores < NEVER)


def ordinary_token(draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """A token for each draw, never a special one."""
    return vocabulary.ordinary[(draw * len(vocabulary.ordinary)).astype(np.int64)]


def treat(
    rows: Rows, hidden: np.ndarray, vocabulary: Vocabulary, *, draw: np.ndarray, other: np.ndarray,
    masked: float, swapped: float,
) -> Rows:  # fmt: skip
    """Ask for the hidden tokens; a draw below `masked` shows [MASK], then `swapped` the other token, then itself."""
    shown = np.where(draw < masked + swapped, other, rows.tokens)
    shown = np.where(draw < masked, vocabulary.mask, shown)
    return replace(
        rows,
        tokens=np.where(hidden, shown, rows.tokens),
        targets=np.where(hidden, rows.tokens, IGNORE),
    )


class Masking(ABC):
    """Choose, draw and show; the kinds differ in what they choose, and in what a swapped token may become."""

    masked: float
    swapped: float

    @abstractmethod
    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is hidden."""

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        length = rows.tokens.shape[1]
        hidden = self.choose(rows, vocabulary, draws)
        draw, other = draws.uniform(length), self.other(draws.uniform(length), vocabulary)
        return treat(rows, hidden, vocabulary, draw=draw, other=other, masked=self.masked, swapped=self.swapped)

    def other(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """A token for each draw, special ones too, as BERT's released code has it."""
        return (draw * len(vocabulary)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Units:
    """Each row cut into units: words, phrases, entities or spans."""

    text: np.ndarray  # (B, L) False on special tokens and padding, each a unit of its own
    first: np.ndarray  # (B, L) where the unit of this token begins
    after: np.ndarray  # (B, L) where the next unit begins

    @property
    def begins(self) -> np.ndarray:
        """(B, L) True on the first token of every unit of text."""
        return self.text & (self.first == np.arange(self.first.shape[1]))

    def whole(self, chosen: np.ndarray) -> np.ndarray:
        """(B, L) True on every token of the units whose first token is chosen."""
        return np.take_along_axis(chosen, self.first, axis=1) & self.text


def units_of(rows: Rows, vocabulary: Vocabulary, level: str = "word") -> Units:
    """A unit never runs across a special token; a row cut inside a word begins with the rest of it."""
    text = candidates(rows.tokens, vocabulary)
    if level == "character":  # the tokens themselves
        return cut(text, np.ones_like(text))
    starts = word_starts(rows, vocabulary, level) | ~text
    starts[:, 1:] |= ~text[:, :-1]
    return cut(text, starts)


def runs_of(hidden: np.ndarray) -> Units:
    """Hidden tokens that touch are one unit."""
    starts = ~hidden
    starts[:, 1:] |= ~hidden[:, :-1]
    return cut(hidden, starts)


def cut(text: np.ndarray, starts: np.ndarray) -> Units:
    length = starts.shape[1]
    places = np.arange(length)
    first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    after = np.full_like(first, length)
    following = np.where(starts, places, length)[:, ::-1]
    after[:, :-1] = np.minimum.accumulate(following, axis=1)[:, ::-1][:, 1:]
    return Units(text=text, first=first, after=after)
