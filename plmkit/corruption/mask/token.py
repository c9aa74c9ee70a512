"""Hiding single tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.mask.masking import (
    NEVER,
    Masking,
    candidates,
    check_settings,
    lowest,
    ordinary_token,
    rounded,
    treat,
)
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class TokenMasking(Masking):
    """Hide tokens: 80% become [MASK], 10% another token, 10% stay (Devlin et al., 2018, A.1)."""

    rate: float = 0.15
    masked: float = 0.8
    swapped: float = 0.1
    most: int | None = None  # hide no more than this many in a row
    copies: int | None = None  # static masking: this many fixed masks, used in turn; None: a new one each epoch
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_settings(self)

    def for_validation(self) -> "TokenMasking":
        """The paper's way, whatever training does, so that losses on held-out text can be compared."""
        return TokenMasking()

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is hidden: exactly `count` positions of each row, all equally likely."""
        scores = np.where(candidates(rows.tokens, vocabulary), draws.uniform(rows.tokens.shape[1]), NEVER)
        return lowest(scores, self.count(rows.visible.sum(axis=1)))

    def count(self, lengths: np.ndarray) -> np.ndarray:
        return rounded(self.rate, lengths, self.most)


@dataclass(frozen=True, kw_only=True)
class DynamicMasking(Masking):
    """Hide tokens anew at each feeding, in a number that is right on average (Liu et al., 2019, 4.1)."""

    rate: float = 0.15
    masked: float = 0.8
    swapped: float = 0.1
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_settings(self)

    def for_validation(self) -> TokenMasking:
        return TokenMasking()

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is hidden."""
        scores = np.where(candidates(rows.tokens, vocabulary), draws.uniform(rows.tokens.shape[1]), NEVER)
        return lowest(scores, self.count(rows.visible.sum(axis=1), draws.uniform(1)[:, 0]))

    def other(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """Never a special token, as in the released code."""
        return ordinary_token(draw, vocabulary)

    def count(self, lengths: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """fairseq's rounding: up as often as the fraction says, so the mean is exact; at least one."""
        return np.maximum(1, (self.rate * lengths + draw).astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class ReplacedMasking:
    """Hide tokens for a generator to replace; a place drawn twice counts once (Clark et al., 2020, 3.1)."""

    rate: float = 0.15
    masked: float = 1.0  # the others stay as they are; the released code has 0.85
    most: int | None = None  # draw no more than this many in a row
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_settings(self)

    def for_validation(self) -> TokenMasking:
        return TokenMasking()

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        hidden = self.choose(rows, vocabulary, draws)
        draw = draws.uniform(rows.tokens.shape[1])
        return treat(rows, hidden, vocabulary, draw=draw, other=rows.tokens, masked=self.masked, swapped=0.0)

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True at places drawn with replacement, as many draws as TokenMasking has places."""
        length = rows.tokens.shape[1]
        text = candidates(rows.tokens, vocabulary) & (rows.tokens != vocabulary.mask)
        counts = text.sum(axis=1)
        drawn = (draws.uniform(length) * counts[:, None]).astype(np.int64)  # the n-th candidate of the row
        wanted = rounded(self.rate, rows.visible.sum(axis=1), self.most)
        drawn[np.arange(length) >= wanted[:, None]] = length  # draws beyond what is wanted point nowhere
        number = np.cumsum(text, axis=1) - 1  # which candidate each place is
        times = np.zeros((len(drawn), length + 1), dtype=bool)
        np.put_along_axis(times, drawn, True, axis=1)
        return np.take_along_axis(times, np.maximum(number, 0), axis=1) & text
