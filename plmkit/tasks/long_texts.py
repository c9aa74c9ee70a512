"""Rows longer than the model: cut, or read in windows that overlap, whose answers become one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.framing import Framed, Texts, frame
from plmkit.tasks.row_task import RowTask
from plmkit.tasks.windows import spread, windows_needed
from plmkit.tokenizers.tokenizer import Tokenizer

CUT, MEAN, MAX = "cut", "windows", "windows_max"
WAYS = (CUT, MEAN, MAX)


@dataclass(frozen=True, kw_only=True)
class WindowedTask(RowTask):
    """A task with one answer per row, whose texts may be longer than the model.

    In training, each window is an example with the label of its row; a prediction joins the answers of all windows.
    """

    long: str = CUT  # rows longer than the model: cut, windows (the mean of their logits) or windows_max (the maximum)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.long not in WAYS:
            raise SettingError(tr("task.long takes {ways}; found '{long}'.", ways=comma().join(WAYS), long=self.long))

    @property
    def windows(self) -> bool:
        return self.long != CUT

    def joined(self, answers: Tensor) -> Tensor:
        return answers.amax(0) if self.long == MAX else super().joined(answers)

    def framed(
        self, rows: Sequence[Row], tokenizer: Tokenizer, length: int, *, choosing: bool = False
    ) -> list[Example]:
        examples = super().framed(rows, tokenizer, length, choosing=choosing)
        if not self.windows:
            return examples
        long = [self.versions(example.row) for example in examples if example.cut]
        found = windows_of(long, tokenizer, length)
        return [in_windows(one, next(found) if one.cut else [one.inputs]) for one in examples]


def in_windows(example: Example, windows: Sequence[tuple[Framed, ...]]) -> Example:
    inputs = tuple(framed for window in windows for framed in window)
    return replace(example, inputs=inputs, windows=len(windows), versions=len(windows[0]))


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The tokens of a text, and its unknown words in order, where they are read by their characters."""

    tokens: np.ndarray  # (T,)
    unknown: tuple[str, ...] = ()

    def part(self, first: int, end: int, vocabulary: Vocabulary) -> "Pieces":
        tokens = self.tokens[first:end]
        if not self.unknown:
            return Pieces(tokens=tokens)
        before, own = (int((some == vocabulary.unknown).sum()) for some in (self.tokens[:first], tokens))
        return Pieces(tokens=tokens, unknown=self.unknown[before : before + own])


def windows_of(
    rows: Sequence[Sequence[Texts]], tokenizer: Tokenizer, length: int
) -> Iterator[list[tuple[Framed, ...]]]:
    """The windows of each row, each with all versions of the row: as many as the longest version needs."""
    pieces = pieces_of([text for row in rows for texts in row for text in texts if text is not None], tokenizer)
    for row in rows:
        versions = [
            Version.of(next(pieces), None if other is None else next(pieces), tokenizer.vocabulary, length)
            for _, other in row
        ]
        count = max(version.needed for version in versions)
        yield list(zip(*(version.windows(count, tokenizer.vocabulary, length) for version in versions), strict=True))


def pieces_of(texts: Sequence[str], tokenizer: Tokenizer) -> Iterator[Pieces]:
    if not texts:
        return
    flat, lengths = tokenizer.encode_many(texts)
    parts = np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1])
    unknown = tokenizer.unknown_words(texts) if tokenizer.vocabulary.spelled else [[]] * len(texts)
    for tokens, words in zip(parts, unknown, strict=True):
        yield Pieces(tokens=tokens, unknown=tuple(words))


@dataclass(frozen=True, kw_only=True)
class Version:
    """One text or two, of which the longer one is read in windows; the other is repeated in each, up to half a row."""

    long: Pieces
    other: Pieces | None
    swapped: bool  # the longer text comes first
    room: int  # tokens of the longer text in a window
    cut: int  # tokens of the other text that do not fit

    @classmethod
    def of(cls, first: Pieces, second: Pieces | None, vocabulary: Vocabulary, length: int) -> "Version":
        if second is None:
            room = length - vocabulary.specials(1)
            return cls(long=first, other=None, swapped=False, room=room, cut=0)
        room = length - vocabulary.specials(2)
        swapped = len(first.tokens) > len(second.tokens)
        long, other = (first, second) if swapped else (second, first)
        kept = min(len(other.tokens), room // 2)
        shown = other.part(0, kept, vocabulary)
        return cls(long=long, other=shown, swapped=swapped, room=room - kept, cut=len(other.tokens) - kept)

    @property
    def needed(self) -> int:
        return windows_needed(len(self.long.tokens), self.room)

    def windows(self, count: int, vocabulary: Vocabulary, length: int) -> list[Framed]:
        found = []
        for first, end in spread(len(self.long.tokens), self.room, count):
            part = self.long.part(first, end, vocabulary)
            texts = [part] if self.other is None else [self.other, part][:: -1 if self.swapped else 1]
            made = frame(texts[0].tokens, texts[1].tokens if len(texts) == 2 else None, vocabulary, length)
            found.append(replace(made, cut=self.cut, unknown=tuple(word for text in texts for word in text.unknown)))
        return found
