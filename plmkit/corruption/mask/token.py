"""Masking single tokens, and what the other maskings inherit from it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import Masking
from plmkit.corruption.mask.masking import (
    NEVER,
    candidates,
    check_count,
    check_rate,
    check_shares,
    lowest,
    masked_rows,
    ordinary_token,
    rounded,
)
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class BertMasking(Masking):
    """Of the masked tokens 80% become [MASK], 10% a random token, 10% stay (Devlin et al., 2018, A.1)."""

    rate: float = 0.15  # share of the tokens that are masked
    mask_share: float = 0.8  # share of the masked tokens that become [MASK]
    random_share: float = 0.1  # share of the masked tokens that become a random token; the others stay
    writes: ClassVar[frozenset[str]] = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_shares(self.mask_share, self.random_share)

    def for_validation(self) -> Masking:
        """The paper's masking in every case, so that validation losses can be compared."""
        return TokenMasking()

    @abstractmethod
    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is masked."""

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        length = rows.tokens.shape[1]
        masked = self.choose(rows, vocabulary, draws)
        draw, other = draws.uniform(length), self.random_tokens(draws.uniform(length), vocabulary)
        return masked_rows(
            rows, masked, vocabulary, draw=draw, other=other, mask_share=self.mask_share, random_share=self.random_share
        )

    def random_tokens(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """A token for each random number, special tokens included, as in BERT's released code."""
        return (draw * len(vocabulary)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class BudgetMasking(BertMasking):
    """A fixed number of masked tokens per row, and optionally static masks (google-research/bert)."""

    max_masked: int | None = None  # maximum number of masked tokens per row; none: no limit
    static_masks: int | None = None  # number of fixed masks, used in turn; none: a new mask each epoch

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("max_masked", self.max_masked)
        check_count("static_masks", self.static_masks)

    def mask_epoch(self, epoch: int) -> int:
        return epoch % self.static_masks if self.static_masks else epoch

    def count(self, lengths: np.ndarray) -> np.ndarray:
        return rounded(self.rate, lengths, self.max_masked)


@dataclass(frozen=True, kw_only=True)
class TokenMasking(BudgetMasking):
    """Mask tokens: 80% become [MASK], 10% a random token, 10% stay (Devlin et al., 2018, A.1)."""

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True where a token is masked: exactly `count` positions of each row, all equally likely."""
        scores = np.where(candidates(rows.tokens, vocabulary), draws.uniform(rows.tokens.shape[1]), NEVER)
        return lowest(scores, self.count(rows.visible.sum(axis=1)))


@dataclass(frozen=True, kw_only=True)
class DynamicMasking(BertMasking):
    """Mask new tokens in every epoch; the number per row is exact on average (Liu et al., 2019, 4.1)."""

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        scores = np.where(candidates(rows.tokens, vocabulary), draws.uniform(rows.tokens.shape[1]), NEVER)
        return lowest(scores, self.count(rows.visible.sum(axis=1), draws.uniform(1)[:, 0]))

    def random_tokens(self, draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
        """Never a special token, as in the released code."""
        return ordinary_token(draw, vocabulary)

    def count(self, lengths: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """fairseq's stochastic rounding, whose mean is exact; at least one."""
        return np.maximum(1, (self.rate * lengths + draw).astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class ReplacedMasking(Masking):
    """Mask tokens for a generator to replace; a position drawn twice counts once (Clark et al., 2020, 3.1)."""

    rate: float = 0.15  # share of the tokens that are drawn and replaced
    mask_share: float = 1.0  # share of them that the generator sees as [MASK]; the others stay (released code: 0.85)
    max_masked: int | None = None  # maximum number of draws per row
    writes: ClassVar[frozenset[str]] = frozenset({"targets"})

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_shares(self.mask_share, 0.0)
        check_count("max_masked", self.max_masked)

    def for_validation(self) -> Masking:
        return TokenMasking()

    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        masked = self.choose(rows, vocabulary, draws)
        draw = draws.uniform(rows.tokens.shape[1])
        return masked_rows(
            rows, masked, vocabulary, draw=draw, other=rows.tokens, mask_share=self.mask_share, random_share=0.0
        )

    def choose(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> np.ndarray:
        """(B, L) True at positions drawn with replacement, as many draws as TokenMasking masks tokens."""
        length = rows.tokens.shape[1]
        text = candidates(rows.tokens, vocabulary) & (rows.tokens != vocabulary.mask)
        counts = text.sum(axis=1)
        drawn = (draws.uniform(length) * counts[:, None]).astype(np.int64)  # the n-th candidate of the row
        needed = rounded(self.rate, rows.visible.sum(axis=1), self.max_masked)
        drawn[np.arange(length) >= needed[:, None]] = length  # surplus draws point nowhere
        number = np.cumsum(text, axis=1) - 1  # which candidate each position is
        times = np.zeros((len(drawn), length + 1), dtype=bool)
        np.put_along_axis(times, drawn, True, axis=1)
        return np.take_along_axis(times, np.maximum(number, 0), axis=1) & text
