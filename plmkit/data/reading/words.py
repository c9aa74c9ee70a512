"""A text and where its words are: joined from words, found in a text, or cut out of one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plmkit.data.text import ABBREVIATIONS, HAN, MARKS, WIDE, WORD

TOKENS = ("tokens", "words")  # columns of words, in the order of preference
TAGS = ("tags", "upos", "pos", "ner_tags", "labels")  # of their tags
IS_WIDE = re.compile(f"[{WIDE}]")
SPACE = re.compile(r"\s*")
IS_HAN = re.compile(f"[{HAN}]")
IS_MARK = re.compile(rf"[^\w\s{MARKS}]+")  # punctuation alone
DOTTED = re.compile(r"(?:[^\W\d_]\.)+")  # U.S., J.
CLITIC = re.compile(r"(?i)(?<=\w)(?:n['’]t|['’](?:s|m|re|ve|ll|d))$")
Span = tuple[int, int]  # first character and the one after the last


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A text, and where its words are."""

    text: str
    spans: np.ndarray  # (W, 2) first character and the one after the last

    @property
    def words(self) -> list[str]:
        return [self.text[begin:end] for begin, end in self.spans.tolist()]


def sentence_of(words: Sequence[str]) -> Sentence:
    """Words as text: with spaces between them, except beside Chinese characters.

    Nor are there spaces in a Chinese sentence that is given by its characters, letters and digits included.
    """
    spaced = any(len(word) > 1 for word in words) or not any(map(IS_HAN.match, words))
    text, spans = "", []
    for word in words:
        if text and spaced and not (IS_WIDE.match(text[-1]) or IS_WIDE.match(word)):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return Sentence(text=text, spans=np.array(spans, dtype=np.int64).reshape(-1, 2))


def found_in(text: str, words: Sequence[str]) -> list[Span] | None:
    """Where the words are in their text, one after the other with nothing but space between; None: they differ."""
    spans, place = [], 0
    for word in words:
        begin = past_space(text, place)
        if not text.startswith(word, begin):
            return None
        place = begin + len(word)
        spans.append((begin, place))
    return spans if past_space(text, place) == len(text) else None


def past_space(text: str, place: int) -> int:
    found = SPACE.match(text, place)
    return found.end() if found else place


def every_mark(text: str) -> list[Span]:
    """Each ideograph, each punctuation mark and each run of letters and digits is a word."""
    return [match.span() for match in WORD.finditer(text)]


def every_character(text: str) -> list[Span]:
    """Each character but spaces is a word."""
    return [(place, place + 1) for place, letter in enumerate(text) if not letter.isspace()]


def usual_words(text: str) -> list[Span]:
    """Words as treebanks have them: U.S., e-mail and 3.5 are whole; quotes, brackets, stops and 's stand alone."""
    spans: list[Span] = []
    run: list[Span] = []
    for begin, end in every_mark(text):
        if run and (run[-1][1] < begin or IS_WIDE.match(text, begin) or IS_WIDE.match(text, run[-1][0])):
            spans += peeled(text, run)
            run = []
        run.append((begin, end))
    return spans + peeled(text, run)


def peeled(text: str, run: list[Span]) -> list[Span]:
    """A run of characters without space: the marks at its ends, and what stands between them, as words."""
    first, last = 0, len(run)
    while first < last and IS_MARK.fullmatch(text, *run[first]):
        first += 1
    while last > first and IS_MARK.fullmatch(text, *run[last - 1]):
        last -= 1
    if first == last:
        return run
    begin, end = run[first][0], run[last - 1][1]
    if last < len(run) and is_abbreviated(text[begin : run[last][1]]):
        end, last = run[last][1], last + 1
    clitic = CLITIC.search(text[begin:end])
    middle = [(begin, begin + clitic.start()), (begin + clitic.start(), end)] if clitic else [(begin, end)]
    return [*run[:first], *middle, *run[last:]]


def is_abbreviated(word: str) -> bool:
    """Whether a full stop at its end belongs to it."""
    return DOTTED.fullmatch(word) is not None or (word.endswith(".") and word[:-1].lower() in ABBREVIATIONS)
