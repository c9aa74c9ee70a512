"""Hiding single tokens."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class TokenMasking:
    """Hide tokens: 80% become [MASK], 10% another token, 10% stay (Devlin et al., 2018, A.1)."""

    rate: float = 0.15
    masked: float = 0.8
    swapped: float = 0.1
    most: int | None = None  # hide no more than this many in a row
    copies: int | None = None  # static masking: this many fixed masks, used in turn; None: a new one each epoch
    writes: ClassVar = frozenset({"targets"})

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise SettingError(f"A masking rate lies between 0 and 1; found {self.rate}.")
        for name in ("most", "copies"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingError(f"corruption.{name} must be 1 or more, or none; found {getattr(self, name)}.")
        if min(self.masked, self.swapped) < 0 or self.masked + self.swapped > 1:
            raise SettingError(
                f"masked and swapped are shares of the hidden tokens; found {self.masked} and {self.swapped}."
            )

    def for_validation(self) -> "TokenMasking":
        """The paper's way, whatever training does, so that losses on held-out text can be compared."""
        return TokenMasking()

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        tokens = rows.tokens
        length = tokens.shape[1]
        hidden = self.choose(rows, vocabulary, draws)
        draw = draws.uniform(length)
        other = (draws.uniform(length) * len(vocabulary)).astype(tokens.dtype)  # specials too, as released
        shown = np.where(draw < self.masked + self.swapped, other, tokens)
        shown = np.where(draw < self.masked, vocabulary.mask, shown)
        return replace(
            rows,
            tokens=np.where(hidden, shown, tokens),
            targets=np.where(hidden, tokens, IGNORE),
        )

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is hidden: exactly `count` positions of each row, all equally likely."""
        scores = np.where(candidates(rows.tokens, vocabulary), draws.uniform(rows.tokens.shape[1]), 2.0)
        rank = np.argsort(np.argsort(scores, axis=1), axis=1)
        return (rank < self.count(rows.visible.sum(axis=1))[:, None]) & (scores < 2.0)

    def count(self, lengths: np.ndarray) -> np.ndarray:
        """How many to hide in rows of these lengths, [CLS] and [SEP] counted, as the released code does."""
        wanted = np.maximum(1, np.rint(self.rate * lengths)).astype(np.int64)
        return wanted if self.most is None else np.minimum(wanted, self.most)


def candidates(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """Where text stands: all but [CLS], [SEP] and padding; unknown words count, as in the released code."""
    return ~np.isin(tokens, (vocabulary.cls, vocabulary.sep, vocabulary.pad))
