"""What maskings share: which tokens can be masked, the units they form, and what replaces them."""

from dataclasses import dataclass, replace

import numpy as np

from plmkit.data.batch import IGNORE
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.segmentation.starts import word_starts

NEVER = 2.0  # above every random number


def check_rate(rate: float) -> None:
    if not 0 < rate < 1:
        raise SettingError(
            tr("corruption.rate must be the share of tokens to mask, above 0 and below 1; found {rate}.", rate=rate)
        )


def check_shares(mask_share: float, random_share: float) -> None:
    if min(mask_share, random_share) < 0 or mask_share + random_share > 1:
        raise SettingError(
            tr(
                "corruption.mask_share and corruption.random_share are shares of the masked tokens and must add up "
                "to at most 1; found {mask_share} and {random_share}.",
                mask_share=mask_share,
                random_share=random_share,
            )
        )


def check_count(name: str, count: int | None) -> None:
    if count is not None and count < 1:
        raise SettingError(tr("corruption.{name} must be at least 1, or none; found {count}.", name=name, count=count))


def check_max_length(max_length: int) -> None:
    if max_length < 1:
        raise SettingError(
            tr(
                "corruption.max_length must be a number of words, at least 1; found {max_length}.",
                max_length=max_length,
            )
        )


def candidates(tokens: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """True on text: all but [CLS], [SEP] and padding; unknown words count, as in the released code."""
    return (tokens != vocabulary.cls) & (tokens != vocabulary.sep) & (tokens != vocabulary.pad)


def rounded(rate: float, lengths: np.ndarray, max_masked: int | None) -> np.ndarray:
    """Number of tokens to mask in rows of these lengths, [CLS] and [SEP] included, as in BERT's released code."""
    counts = np.maximum(1, np.rint(rate * lengths)).astype(np.int64)
    return counts if max_masked is None else np.minimum(counts, max_masked)


def lowest(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, L) True at each row's `counts` lowest scores, fewer where the others are NEVER."""
    rank = np.argsort(np.argsort(scores, axis=1), axis=1)
    return (rank < counts[:, None]) & (scores < NEVER)


def ordinary_token(draw: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """A token for each random number, never a special one."""
    return vocabulary.ordinary[(draw * len(vocabulary.ordinary)).astype(np.int64)]


def masked_rows(
    rows: Rows, masked: np.ndarray, vocabulary: Vocabulary, *, draw: np.ndarray, other: np.ndarray,
    mask_share: float, random_share: float,
) -> Rows:  # fmt: skip
    """The masked tokens are targets; by `draw`, each becomes [MASK], the `other` token, or stays."""
    shown = np.where(draw < mask_share + random_share, other, rows.tokens)
    shown = np.where(draw < mask_share, vocabulary.mask, shown)
    return replace(
        rows,
        tokens=np.where(masked, shown, rows.tokens),
        targets=np.where(masked, rows.tokens, IGNORE),
    )


@dataclass(frozen=True, kw_only=True)
class Units:
    """Each row split into units: words, phrases, entities or spans."""

    text: np.ndarray  # (B, L) False on special tokens and padding, which are units by themselves
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
    """A unit never crosses a special token; a row that is cut inside a word begins with the rest of it."""
    text = candidates(rows.tokens, vocabulary)
    if level == "character":  # the tokens themselves
        return cut(text, np.ones_like(text))
    starts = word_starts(rows, vocabulary, level) | ~text
    starts[:, 1:] |= ~text[:, :-1]
    return cut(text, starts)


def runs_of(masked: np.ndarray) -> Units:
    """Adjacent masked tokens are one unit."""
    starts = ~masked
    starts[:, 1:] |= ~masked[:, :-1]
    return cut(masked, starts)


def cut(text: np.ndarray, starts: np.ndarray) -> Units:
    length = starts.shape[1]
    places = np.arange(length)
    first = np.maximum.accumulate(np.where(starts, places, 0), axis=1)
    after = np.full_like(first, length)
    following = np.where(starts, places, length)[:, ::-1]
    after[:, :-1] = np.minimum.accumulate(following, axis=1)[:, ::-1][:, 1:]
    return Units(text=text, first=first, after=after)
