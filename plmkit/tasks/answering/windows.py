"""Long contexts in windows that overlap, each after the question (google-research/bert, run_squad)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from plmkit.data.vocabulary import MISSING, Vocabulary
from plmkit.tasks.answering.rows import Question
from plmkit.tasks.contract import Example
from plmkit.tasks.framing import Framed, frame
from plmkit.tokenizers.tokenizer import Tokenizer

PASSAGE, NULL = 1, 2  # in Framed.places: a token of the context, and the one that stands for "no answer"


@dataclass(frozen=True, kw_only=True)
class Window(Framed):
    """A question with a part of its context, which begins at `second`."""

    begin: int  # its first token, counted in the whole context
    best: np.ndarray  # (tokens of the context,) True where no other window has more context around the token


@dataclass(frozen=True, kw_only=True)
class Windows(Example):
    """A question with all windows of its context."""

    offsets: np.ndarray  # (T, 2) where each token of the context starts and ends, in characters

    def alone(self, number: int) -> Self:
        """One of its windows, to be trained on."""
        label = self.label[number : number + 1] if isinstance(self.label, np.ndarray) else None
        return replace(self, inputs=(self.inputs[number],), label=label, windows=1)


def spans_of(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """(first token, number of tokens) of each window; the last one reaches the end."""
    spans, start = [], 0
    while True:
        length = min(tokens - start, room)
        spans.append((start, length))
        if start + length == tokens:
            return spans
        start += min(length, stride)


def most_context(spans: Sequence[tuple[int, int]], tokens: int) -> list[np.ndarray]:
    """For each window, True at the tokens that have the most context in it: the smaller of both sides counts."""
    highest, owner = np.full(tokens, -np.inf), np.zeros(tokens, dtype=np.int64)
    for number, (start, length) in enumerate(spans):
        left = np.arange(length)
        score = np.minimum(left, left[::-1]) + 0.01 * length
        part = slice(start, start + length)
        better = score > highest[part]
        highest[part][better], owner[part][better] = score[better], number
    return [owner[start : start + length] == number for number, (start, length) in enumerate(spans)]


def tightened(offsets: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """The first and the last token of the characters from `begin` to before `end`, and no token outside them."""
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return first, last


def windows_of(
    rows: Sequence[Question], tokenizer: Tokenizer, length: int, *, stride: int, question_length: int
) -> list[Windows]:
    """All rows at once; a context that several questions share is tokenized once."""
    texts = list(dict.fromkeys(row.other or "" for row in rows))
    flat, lengths = tokenizer.encode_many(texts)
    ends = np.cumsum(lengths)[:-1]
    spans = np.split(tokenizer.offsets_many(texts), ends)
    spelled = tokenizer.vocabulary.spelled
    unknown = tokenizer.unknown_words(texts) if spelled else [[]] * len(texts)
    contexts = {
        text: Context(tokens=tokens, offsets=own, unknown=tuple(words), cut={})
        for text, tokens, own, words in zip(texts, np.split(flat.astype(np.int64), ends), spans, unknown, strict=True)
    }
    asked, counts = tokenizer.encode_many([row.text for row in rows])
    questions = np.split(asked.astype(np.int64), np.cumsum(counts)[:-1])
    missing = tokenizer.unknown_words([row.text for row in rows]) if spelled else [[]] * len(rows)
    vocabulary = tokenizer.vocabulary
    room = length - vocabulary.specials(2)
    most = min(question_length, room // 2)  # a row is never full of its question
    return [
        example_of(row, tokens, tuple(words), contexts[row.other or ""], vocabulary, room=room, most=most,
                   stride=stride)
        for row, tokens, words in zip(rows, questions, missing, strict=True)
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Context:
    """The tokens of a context."""

    tokens: np.ndarray  # (T,)
    offsets: np.ndarray  # (T, 2)
    unknown: tuple[str, ...]  # its unknown words in order, where they are read by their characters
    cut: dict[int, list[tuple[int, int, np.ndarray]]]  # by the tokens that fit: begin, length and `best` of windows

    def windows(self, room: int, stride: int) -> list[tuple[int, int, np.ndarray]]:
        if room not in self.cut:
            spans = spans_of(len(self.tokens), room, stride)
            best = most_context(spans, len(self.tokens))
            self.cut[room] = [(start, count, own) for (start, count), own in zip(spans, best, strict=True)]
        return self.cut[room]


def example_of(
    row: Question, question: np.ndarray, unknown: tuple[str, ...], context: Context, vocabulary: Vocabulary, *,
    room: int, most: int, stride: int,
) -> Windows:  # fmt: skip
    asked = question[:most]
    inputs = []
    for begin, count, best in context.windows(room - len(asked), stride):
        part = context.tokens[begin : begin + count]
        framed = frame(asked, part, vocabulary, room + vocabulary.specials(2))
        words = in_window(asked, unknown, 0, vocabulary) + in_window(part, context.unknown, begin, vocabulary, context)
        inputs.append(
            Window(
                tokens=framed.tokens, second=framed.second, cut=len(question) - len(asked), unknown=words,
                places=places_of(framed, count, vocabulary), begin=begin, best=best,
            )
        )  # fmt: skip
    label = None if row.label is None else targets_of(row, inputs, context.offsets)
    return Windows(row=row, inputs=tuple(inputs), label=label, offsets=context.offsets, windows=len(inputs))


def in_window(
    tokens: np.ndarray, words: tuple[str, ...], begin: int, vocabulary: Vocabulary, context: Context | None = None
) -> tuple[str, ...]:
    """The unknown words among these tokens, which begin there in a text with these unknown words."""
    if not words:
        return ()
    before = 0 if context is None else int((context.tokens[:begin] == vocabulary.unknown).sum())
    return words[before : before + int((tokens == vocabulary.unknown).sum())]


def places_of(framed: Framed, count: int, vocabulary: Vocabulary) -> np.ndarray:
    """(L,) PASSAGE at the tokens of the context, NULL at the one that sees the row and is not text."""
    places = np.zeros(len(framed.tokens), dtype=np.int8)
    places[framed.second : framed.second + count] = PASSAGE
    # a causal model has seen the whole row at its last token only
    last = vocabulary.closes or vocabulary.extract != MISSING
    places[-1 if last else 0] = NULL
    return places


def null_place(window: Framed) -> int:
    assert window.places is not None
    return int(np.argmax(window.places == NULL))


def targets_of(row: Question, windows: Sequence[Window], offsets: np.ndarray) -> np.ndarray:
    """(windows, 2) first and last token of the answer; where a window lacks a part of it, twice the null token."""
    targets = np.array([[null_place(window)] * 2 for window in windows])
    if row.start is None:
        return targets
    first, last = tightened(offsets, row.start, row.start + len(str(row.label)))
    for target, window in zip(targets, windows, strict=True):
        if window.begin <= first <= last < window.begin + len(window.best):
            target[:] = np.array([first, last]) - window.begin + window.second
    return targets
