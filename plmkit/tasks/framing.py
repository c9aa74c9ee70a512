"""One or two texts to token ids for the model, and token ids to batches of similar length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, Side
from plmkit.data.rows import cuts
from plmkit.data.spelling import spell
from plmkit.data.vocabulary import MISSING, Vocabulary
from plmkit.tokenizers.tokenizer import Tokenizer

CLOSING = 2  # the segment of a [CLS] at the end of a row
TOKENS_AT_ONCE = 4096  # per batch; more is no faster on a CPU and costs memory


Texts = tuple[str, str | None]  # one text or two


@dataclass(frozen=True, kw_only=True)
class Framed:
    """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` as token ids, or with the special tokens of another vocabulary."""

    tokens: np.ndarray  # (L,)
    second: int  # index where the second text begins; L if there is only one
    cut: int  # number of tokens that did not fit
    unknown: tuple[str, ...] = ()  # its unknown words in order, for a network that reads their characters
    features: np.ndarray | None = None  # (L, layers, width) computed before
    places: np.ndarray | None = None  # (L,) as in Batch, for a head that finds a part of the second text

    @property
    def padded(self) -> int:
        """Positions that it takes in a batch of texts like it."""
        return len(self.tokens)


def frame(
    first: np.ndarray, second: np.ndarray | None, vocabulary: Vocabulary, max_length: int, choosing: bool = False
) -> Framed:
    """Special tokens around one text or two, truncated at the end, of a pair the longer one first
    (google-research/bert, run_classifier).

    Where a model classifies at a special token, a choice and its context get half a row each
    (openai/finetune-transformer-lm).
    """
    before, between, after = vocabulary.frame(1 if second is None else 2)
    if choosing and second is not None and vocabulary.extract != MISSING:
        half = max_length // 2 - 2
        both = frame(first[:half], second[:half], vocabulary, max_length)
        return replace(both, cut=both.cut + sum(max(0, len(part) - half) for part in (first, second)))
    if second is None:
        kept = first[: max_length - vocabulary.specials(1)]
        tokens = joined([before, kept, after], vocabulary)
        return Framed(tokens=tokens, second=len(tokens), cut=len(first) - len(kept))
    cut_first, cut_second = cuts(len(first), len(second), max_length - vocabulary.specials(2))
    a, b = len(first) - cut_first, len(second) - cut_second
    tokens = joined([before, first[:a], between, second[:b], after], vocabulary)
    return Framed(tokens=tokens, second=len(before) + a + len(between), cut=cut_first + cut_second)


def joined(parts: Sequence[np.ndarray | list[int]], vocabulary: Vocabulary) -> np.ndarray:
    """One row; an empty text without special tokens becomes the end-of-text token, as a network needs an input."""
    tokens = np.concatenate(parts).astype(np.int64)
    return tokens if len(tokens) else np.array([vocabulary.end])


def frame_all(pairs: Sequence[Texts], tokenizer: Tokenizer, max_length: int, choosing: bool = False) -> list[Framed]:
    """All rows of a file at once: one call of the tokenizer for thousands of texts."""
    texts = [text for pair in pairs for text in pair if text is not None]
    flat, lengths = tokenizer.encode_many(texts)
    pieces = iter(np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]))
    framed = [
        frame(next(pieces), None if other is None else next(pieces), tokenizer.vocabulary, max_length, choosing)
        for _, other in pairs
    ]
    return with_unknown(framed, pairs, tokenizer) if tokenizer.vocabulary.spelled else framed


def with_unknown(rows: Sequence[Framed], pairs: Sequence[Texts], tokenizer: Tokenizer) -> list[Framed]:
    """The rows with their unknown words; those that were cut off are left out."""
    found = iter(tokenizer.unknown_words([text for pair in pairs for text in pair if text is not None]))
    changed = []
    for row, (_, other) in zip(rows, pairs, strict=True):
        parts = [next(found), [] if other is None else next(found)]
        kept = [int((part == tokenizer.vocabulary.unknown).sum()) for part in np.split(row.tokens, [row.second])]
        words = [word for part, count in zip(parts, kept, strict=True) for word in part[:count]]
        changed.append(replace(row, unknown=tuple(words)))
    return changed


def place_in(width: int, count: int, vocabulary: Vocabulary) -> slice:
    """The positions of the tokens in a padded row: at its end where [CLS] comes last."""
    return slice(width - count, width) if vocabulary.closes else slice(0, count)


def batch_of(rows: Sequence[Framed], vocabulary: Vocabulary, length: int | None = None) -> Batch:
    """One row per framed text, padded to the longest, or to `length`."""
    lengths = np.array([len(row.tokens) for row in rows])
    width = length or int(lengths.max())
    tokens = np.full((len(rows), width), vocabulary.filler, dtype=np.int64)
    segments = np.zeros_like(tokens)
    for number, row in enumerate(rows):
        place = place_in(width, len(row.tokens), vocabulary)
        tokens[number, place] = row.tokens
        segments[number, place.start + row.second : place.stop] = vocabulary.second
    visible = np.arange(width) < lengths[:, None]
    if vocabulary.closes:
        segments[:, -1] = CLOSING
        visible = visible[:, ::-1].copy()
    side = Side(tokens=torch.from_numpy(tokens), visible=torch.from_numpy(visible), segments=torch.from_numpy(segments))
    if rows[0].features is not None:
        side = replace(side, features=features_of(rows, width, vocabulary))
    unknown = [word for row in rows for word in row.unknown]
    return Batch(
        source=replace(side, characters=characters_of(tokens, visible, unknown, vocabulary) if unknown else None),
        separators=separators_of(lengths, width, vocabulary),
        places=padded([row.places for row in rows if row.places is not None], vocabulary, width, 0),
    )


def separators_of(lengths: np.ndarray, width: int, vocabulary: Vocabulary) -> Tensor | None:
    """(B,) the position of the last separator of each row; None if the vocabulary frames rows without one."""
    if vocabulary.separator is None:
        return None
    ends = np.full(len(lengths), width) if vocabulary.closes else lengths
    return torch.from_numpy(ends + vocabulary.separator)


def features_of(rows: Sequence[Framed], width: int, vocabulary: Vocabulary) -> Tensor:
    """(B, L, layers, width) of rows whose features were computed before; 0 on padding."""
    parts = [row.features for row in rows if row.features is not None]
    made = np.zeros((len(rows), width, *parts[0].shape[1:]), dtype=np.float32)
    for row, part in zip(made, parts, strict=True):
        row[place_in(width, len(part), vocabulary)] = part
    return torch.from_numpy(made)


def characters_of(tokens: np.ndarray, visible: np.ndarray, unknown: Sequence[str], vocabulary: Vocabulary) -> Tensor:
    """(B, L, WORD_LENGTH) the characters of the tokens, and of these unknown words where they are unknown."""
    characters = vocabulary.spelling[tokens]
    characters[visible & (tokens == vocabulary.unknown)] = spell(unknown)
    return torch.from_numpy(characters)


def padded(rows: Sequence[np.ndarray], vocabulary: Vocabulary, width: int, filler: int) -> Tensor | None:
    """(B, L) from one number per token of each row; None without rows."""
    if not rows:
        return None
    made = np.full((len(rows), width), filler, dtype=np.int64)
    for row, numbers in zip(made, rows, strict=True):
        row[place_in(width, len(numbers), vocabulary)] = numbers
    return torch.from_numpy(made)


class Padded(Protocol):
    """Anything that takes positions in a batch."""

    @property
    def padded(self) -> int: ...


def by_length(rows: Sequence[Padded], size: int | None = None) -> Iterator[np.ndarray]:
    """Indices, longest first, in groups of `size`, or of up to TOKENS_AT_ONCE tokens."""
    lengths = np.array([row.padded for row in rows])
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        count = size or max(1, TOKENS_AT_ONCE // max(1, int(lengths[order[start]])))
        yield order[start : start + count]
        start += count


def both_orders(text: str, other: str | None) -> list[Texts]:
    """A pair in both orders (Radford et al., 2018, 3.3)."""
    return [(text, other)] if other is None else [(text, other), (other, text)]
