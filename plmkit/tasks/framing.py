"""One or two texts to a row for the model, and rows to batches of like length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from plmkit.data.batch import Batch, Side
from plmkit.data.rows import cuts
from plmkit.data.vocabulary import MISSING, Vocabulary
from plmkit.tasks.kinds import Kind
from plmkit.tokenizers.tokenizer import Tokenizer

CLOSING = 2  # the segment of a [CLS] that stands last
TOKENS_AT_ONCE = 4096  # computed together; more gains nothing on a CPU and costs memory


@dataclass(frozen=True, kw_only=True)
class Framed:
    """`[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` as numbers, or as the vocabulary frames texts otherwise."""

    tokens: np.ndarray  # (L,)
    second: int  # where the second text begins; L where there is none
    cut: int  # how many tokens did not fit
    others: tuple["Framed", ...] = ()  # the same row read otherwise: in the other order, or with another choice

    @property
    def readings(self) -> tuple["Framed", ...]:
        return (self, *self.others)

    @property
    def longest(self) -> int:
        return max(len(reading.tokens) for reading in self.readings)

    @property
    def padded(self) -> int:
        """Places that it takes in a batch of rows like it."""
        return self.longest * len(self.readings)


def frame(
    first: np.ndarray, second: np.ndarray | None, vocabulary: Vocabulary, longest: int, choosing: bool = False
) -> Framed:
    """Too long: the tail goes, of the longer text first (google-research/bert, run_classifier).

    Where a model judges at a token of its own, a choice and what comes before it have half a row each, whatever the
    other needs (openai/finetune-transformer-lm).
    """
    before, between, after = vocabulary.frame(1 if second is None else 2)
    if choosing and second is not None and vocabulary.extract != MISSING:
        half = longest // 2 - 2
        both = frame(first[:half], second[:half], vocabulary, longest)
        return replace(both, cut=both.cut + sum(max(0, len(part) - half) for part in (first, second)))
    if second is None:
        kept = first[: longest - vocabulary.specials(1)]
        tokens = joined([before, kept, after], vocabulary)
        return Framed(tokens=tokens, second=len(tokens), cut=len(first) - len(kept))
    cut_first, cut_second = cuts(len(first), len(second), longest - vocabulary.specials(2))
    a, b = len(first) - cut_first, len(second) - cut_second
    tokens = joined([before, first[:a], between, second[:b], after], vocabulary)
    return Framed(tokens=tokens, second=len(before) + a + len(between), cut=cut_first + cut_second)


def joined(parts: Sequence[np.ndarray | list[int]], vocabulary: Vocabulary) -> np.ndarray:
    """One row; a text of nothing that nothing frames is the end of a text, for a network needs something to read."""
    tokens = np.concatenate(parts).astype(np.int64)
    return tokens if len(tokens) else np.array([vocabulary.end])


def frame_all(
    pairs: Sequence[tuple[str, str | None]], tokenizer: Tokenizer, longest: int, choosing: bool = False
) -> list[Framed]:
    """All rows of a file at once: one call of the tokenizer for thousands of texts."""
    texts = [text for pair in pairs for text in pair if text is not None]
    flat, lengths = tokenizer.encode_many(texts)
    pieces = iter(np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]))
    return [
        frame(next(pieces), None if other is None else next(pieces), tokenizer.vocabulary, longest, choosing)
        for _, other in pairs
    ]


Reading = tuple[str, str | None]  # one text, or two


def frame_readings(
    rows: Sequence[Sequence[Reading]], tokenizer: Tokenizer, longest: int, choosing: bool = False
) -> list[Framed]:
    """Rows that are each read once or several times; where one is `choosing`, once with each choice."""
    framed = iter(frame_all([reading for row in rows for reading in row], tokenizer, longest, choosing))
    groups = [[next(framed) for _ in row] for row in rows]
    return [replace(group[0], others=tuple(group[1:]), cut=max(one.cut for one in group)) for group in groups]


def readings_of(text: str, other: str | None, choices: Sequence[str], kind: Kind) -> list[Reading]:
    """How a kind of task reads a row (Radford et al., 2018, 3.3)."""
    if kind.readings == "each":
        return [(text, choice) for choice in choices]
    if kind.readings == "both" and other is not None:
        return [(text, other), (other, text)]
    return [(text, other)]


def batch_of(rows: Sequence[Framed], vocabulary: Vocabulary, length: int | None = None) -> Batch:
    """Rows side by side, padded to the longest, or to `length`; the versions of one example follow each other."""
    counts = [len(row.readings) for row in rows]
    batch = plain_batch([reading for row in rows for reading in row.readings], vocabulary, length)
    if max(counts) == 1:
        return batch
    return replace(batch, alternatives=torch.arange(len(rows)).repeat_interleave(torch.tensor(counts)))


def plain_batch(rows: Sequence[Framed], vocabulary: Vocabulary, length: int | None = None) -> Batch:
    """Rows that are read once."""
    lengths = np.array([len(row.tokens) for row in rows])
    width = length or int(lengths.max())
    tokens = np.full((len(rows), width), vocabulary.filler, dtype=np.int64)
    segments = np.zeros_like(tokens)
    for number, row in enumerate(rows):
        begin = width - len(row.tokens) if vocabulary.closes else 0
        tokens[number, begin : begin + len(row.tokens)] = row.tokens
        segments[number, begin + row.second : begin + len(row.tokens)] = vocabulary.second
    visible = np.arange(width) < lengths[:, None]
    if vocabulary.closes:
        segments[:, -1] = CLOSING
        visible = visible[:, ::-1].copy()
    return Batch(
        source=Side(
            tokens=torch.from_numpy(tokens), visible=torch.from_numpy(visible), segments=torch.from_numpy(segments)
        )
    )


def by_length(rows: Sequence[Framed], size: int | None = None) -> Iterator[np.ndarray]:
    """Numbers of rows, longest first, in groups of that size, or such that fill a batch with little padding."""
    lengths = np.array([row.padded for row in rows])
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        count = size or max(1, TOKENS_AT_ONCE // max(1, int(lengths[order[start]])))
        yield order[start : start + count]
        start += count
