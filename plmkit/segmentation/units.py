"""Units of text: where words, phrases and entities lie, first in characters, then in tokens."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from plmkit.errors import SettingError
from plmkit.language import comma, tr

LEVELS = ("word", "phrase", "entity")
# Bits, one byte per token: a word, phrase or entity begins here; the token is part of an entity or a phrase.
WORD, PHRASE, ENTITY, IN_ENTITY, IN_PHRASE = 1, 2, 4, 8, 16


def no_spans() -> np.ndarray:
    return np.zeros((0, 2), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Units of texts joined by line breaks: first character and the one after the last, in order, without overlap."""

    words: np.ndarray  # (W, 2) every character but white space lies in one
    phrases: np.ndarray = field(default_factory=no_spans)  # (P, 2)
    entities: np.ndarray = field(default_factory=no_spans)  # (E, 2)


class Finder(Protocol):
    """What a segmenter builds."""

    def spans(self, texts: Sequence[str]) -> Spans: ...


@dataclass(frozen=True, kw_only=True)
class Segmenter(ABC):
    """How the units of a text are found: a setting of maskings that mask whole units."""

    files: ClassVar[tuple[str, ...]] = ()  # settings that name files, whose content determines the units
    tool: ClassVar[str | None] = None  # the package whose version determines the units
    reads_text: ClassVar[bool] = True  # False: the tokens alone are enough, and nothing is stored

    @property
    @abstractmethod
    def finds(self) -> tuple[str, ...]:
        """The levels of units that it finds."""

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Reject missing, invalid or unused files before anything takes time."""

    def build(self) -> Finder:
        raise NotImplementedError(f"{type(self).__name__} reads no text")


@dataclass(frozen=True, kw_only=True)
class Pieces(Segmenter):
    """Words from the tokens alone: `##ing` continues a word, and a Chinese character is a word. Nothing is stored."""

    reads_text: ClassVar[bool] = False

    @property
    def finds(self) -> tuple[str, ...]:
        return ("word",)


def check_level(level: str, name: str = "corruption.segmenter.level") -> None:
    if level not in LEVELS:
        raise SettingError(
            tr("{name} must be one of {levels}; found '{level}'.", name=name, levels=comma().join(LEVELS), level=level)
        )


def levels_to(level: str) -> tuple[str, ...]:
    """The level and those below it."""
    return LEVELS[: LEVELS.index(level) + 1]


def token_units(spans: Spans, texts: Sequence[str], offsets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(T,) uint8: the units of texts, as bits of their tokens.

    `offsets` (T, 2) are the characters of the tokens, counted within each text; `lengths` the tokens per text.
    A token in two units joins them: neither could be masked alone.
    """
    joined = "\n".join(texts)
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
    offsets = offsets + np.repeat(begins, lengths)[:, None]
    last = np.maximum(offsets[:, 1] - 1, offsets[:, 0])
    first = np.minimum(next_letter(joined)[offsets[:, 0]], last)
    opens = np.zeros(len(offsets), dtype=bool)  # the first token of a text
    opens[np.cumsum(lengths)[lengths > 0] - lengths[lengths > 0]] = True

    words = word_numbers(spans.words, len(joined))
    units = (opens | (words[first] != before(words[last]))) * np.uint8(WORD)
    for where, begin, inside in ((spans.phrases, PHRASE, IN_PHRASE), (spans.entities, ENTITY, IN_ENTITY)):
        number = span_numbers(where, len(joined))
        within = (number[first] > 0) | (number[last] > 0)
        continued = ~opens & (number[first] > 0) & (number[first] == before(number[last]))
        units |= within * np.uint8(inside) | (within & ~continued) * np.uint8(begin)
    return units


def before(values: np.ndarray) -> np.ndarray:
    """The value of the token before; the first has none."""
    return np.concatenate([values[:1], values[:-1]])


def next_letter(text: str) -> np.ndarray:
    """(N,) for each character the nearest from it on that is not a space: some tokens begin with the space before."""
    here = np.arange(len(text))
    spaces = np.fromiter(map(str.isspace, text), dtype=bool, count=len(text))
    return np.minimum.accumulate(np.where(spaces, len(text), here)[::-1])[::-1]


def word_numbers(words: np.ndarray, length: int) -> np.ndarray:
    """(N,) for each character, the number of words that end before it: white space belongs to the next word."""
    ended = np.zeros(length + 1, dtype=np.int64)
    ended[words[:, 1]] = 1
    return np.cumsum(ended)[:length]


def span_numbers(spans: np.ndarray, length: int) -> np.ndarray:
    """(N,) for each character, the number of its span from 1 on, or 0."""
    steps = np.zeros(length + 1, dtype=np.int64)
    steps[spans[:, 0]] += 1
    number = np.cumsum(steps)
    steps[spans[:, 1]] -= 1
    return np.where(np.cumsum(steps) > 0, number, 0)[:length]


def without_overlaps(*ranked: Sequence[tuple[int, int]]) -> np.ndarray:
    """Spans in order; of two that overlap, the one from the earlier list is kept, then the one further left."""
    taken: dict[int, int] = {}
    kept = []
    for spans in ranked:
        for begin, end in spans:
            if not any(place in taken for place in range(begin, end)):
                taken.update(dict.fromkeys(range(begin, end), 1))
                kept.append((begin, end))
    return np.array(sorted(kept), dtype=np.int64).reshape(-1, 2)
