"""Units that the user marks in a file, with any tool."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.data.reading.cells import where
from plmkit.data.reading.conll import sentences
from plmkit.data.text import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.language import tr
from plmkit.segmentation.characters import IDEOGRAPH, SPACE, codes_of, kinds_of, plain_starts, spans_of
from plmkit.segmentation.lists import read_lines
from plmkit.segmentation.units import Segmenter, Spans, check_level

FILE = "corruption.segmenter.file"
OUTSIDE, BEGINS, INSIDE = range(3)
MARKS = {"B": BEGINS, "S": BEGINS, "U": BEGINS, "I": INSIDE, "E": INSIDE, "M": INSIDE, "L": INSIDE}
OPENING = 8  # characters
ENDINGS = (".", "!", "?")
SHOWN = 24  # characters of a text in an error


@dataclass(frozen=True, kw_only=True)
class Bio(Segmenter):
    """Units from a BIO file: one token or character and its tag per line, a blank line between sentences."""

    file: str = ""  # a file with one token and its BIO tag per line
    level: str = "entity"  # what the tags mark: word, phrase or entity
    files: ClassVar[tuple[str, ...]] = ("file",)
    tool: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def finds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("word", self.level)))

    def check(self) -> None:
        """Reject a missing or invalid file before anything takes time."""
        if not self.file:
            raise SettingError(
                tr("Bio needs a file: --set {setting}=units.bio, one token and its tag per line.", setting=FILE)
            )
        read_bio(self.file)

    def build(self) -> "BioFinder":
        return BioFinder(self)


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """The file as one stream of characters without white space."""

    text: str
    marks: np.ndarray  # (N,) OUTSIDE, BEGINS or INSIDE
    starts: np.ndarray  # (N,) True where a token of the file begins
    lines: np.ndarray  # (N,) line of the file
    sentences: list[int]  # where each begins, and the end


class BioFinder:
    def __init__(self, settings: Bio) -> None:
        self.settings = settings
        self.tagged = read_bio(settings.file)
        self.places: dict[str, int] = {}  # text of a sentence → its first place in the file
        self.openings: dict[str, list[int]] = {}  # the same by its first characters, for sentences split elsewhere
        self.ends = {len(self.tagged.text)}  # where a sentence may end
        for begin, text in sentences_in(self.tagged):
            self.places.setdefault(text, begin)
            self.openings.setdefault(text[:OPENING], []).append(begin)
            self.ends.add(begin)

    def spans(self, texts: Sequence[str]) -> Spans:
        joined = "\n".join(texts)
        codes = codes_of(joined)
        starts, kinds = plain_starts(codes)
        letters = np.flatnonzero(~np.fromiter(map(str.isspace, joined), dtype=bool, count=len(joined)))
        source = [self.find(text) for text in texts]
        marks = np.concatenate([np.zeros(0, dtype=np.int8), *map(self.marks_at, source)])
        units = marked(marks, letters)
        if self.settings.level == "word":
            starts[letters[marks == INSIDE]] = False
            starts[units[:, 0]] = True
            return Spans(words=spans_of(starts, kinds))
        # a token of the file is a word; those of Chinese files are mostly single characters
        first = letters[np.concatenate([np.zeros(0, dtype=bool), *(self.tagged.starts[place] for place in source)])]
        begins = starts & (kinds == IDEOGRAPH)
        begins[first] = True
        begins[np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])] = True
        words = spans_of(begins & (kinds != SPACE), kinds)
        return Spans(words=words, **{"phrases" if self.settings.level == "phrase" else "entities": units})

    def marks_at(self, places: np.ndarray) -> np.ndarray:
        """The marks of a sentence; the rest of a unit that was cut in two is a new unit."""
        marks = self.tagged.marks[places]
        if len(marks) and marks[0] == INSIDE:
            marks[0] = BEGINS
        return marks

    def find(self, text: str) -> np.ndarray:
        """Where in the file the characters of a sentence are."""
        bare = "".join(text.split())
        place = self.places.get(bare)
        if place is None:
            begins = (begin for size in range(1, OPENING + 1) for begin in self.openings.get(bare[:size], ()))
            place = next((begin for begin in begins if self.fits(bare, begin)), None)
        if place is None:
            place = next((begin for begin in occurrences(bare, self.tagged.text) if self.is_cut(begin, bare)), None)
        if place is None:
            raise InputError(self.departure(bare))
        return np.arange(place, place + len(bare))

    def fits(self, bare: str, begin: int) -> bool:
        """Does the file contain this text here, as one sentence or as several?"""
        return begin + len(bare) in self.ends and self.tagged.text.startswith(bare, begin)

    def is_cut(self, begin: int, bare: str) -> bool:
        """Is this a part of a sentence of the file, cut after a mark that ends one if white space follows?

        The file does not show whether there was white space.
        """
        after = begin in self.ends or self.tagged.text[begin - 1] in ENDINGS
        return after and (begin + len(bare) in self.ends or bare[-1:] in ENDINGS)

    def departure(self, bare: str) -> str:
        """The error at the line where the file first differs from the text, in the most similar sentence."""
        text = self.tagged.text
        shared, before = max((shared_length(text, begin, bare), -begin) for begin in self.places.values())
        place = shared - before
        line = int(self.tagged.lines[min(place, len(text) - 1)])
        expected = f"'{bare[shared:][:SHOWN]}'" if shared < len(bare) else tr("the end of a sentence")
        after = tr(" after '{text}'", text=bare[:shared][-SHOWN:]) if shared else ""
        found = f"'{text[place : place + SHOWN]}'" if place < len(text) else tr("nothing more")
        return tr(
            "{place}: differs from the corpus, which has {expected}{after}; the file has {found}.\n"
            "Tag the text of the corpus itself, all of its sentences.",
            place=where(self.settings.file, line),
            expected=expected,
            after=after,
            found=found,
        )


def occurrences(part: str, text: str) -> Iterator[int]:
    begin = text.find(part)
    while begin >= 0:
        yield begin
        begin = text.find(part, begin + 1)


def shared_length(text: str, begin: int, other: str) -> int:
    """Number of characters that are the same from `begin` on."""
    count = 0
    while count < len(other) and begin + count < len(text) and text[begin + count] == other[count]:
        count += 1
    return count


def marked(marks: np.ndarray, letters: np.ndarray) -> np.ndarray:
    """(U, 2) spans of the marks of these characters."""
    opens = np.flatnonzero(marks == BEGINS)
    closes = np.flatnonzero((marks != OUTSIDE) & (np.append(marks[1:], OUTSIDE) != INSIDE))
    return np.stack([letters[opens], letters[closes] + 1], axis=1)


def read_bio(path: str) -> Tagged:
    """Every line checked: a token, white space, its tag in the last column."""
    pieces: list[str] = []
    marks: list[int] = []
    starts: list[bool] = []
    lines: list[int] = []
    ends = [0]
    size = 0
    for words in sentences(enumerate(read_lines(path, FILE), start=1)):
        opened = False
        for word in words:
            mark = mark_of(word.cells, where(path, word.line))
            token = "".join(word.cells[0].split())
            if not token:
                continue
            inside = INSIDE if mark != OUTSIDE else OUTSIDE
            first = BEGINS if mark == INSIDE and not opened else mark
            opened = mark != OUTSIDE
            pieces.append(token)
            marks += [first, *[inside] * (len(token) - 1)]
            starts += [True, *[False] * (len(token) - 1)]
            lines += [word.line] * len(token)
            size += len(token)
        ends.append(size)
    if not size:
        raise InputError(
            tr("{path} has no tokens. Write one token and its tag per line, a blank line between sentences.", path=path)
        )
    return Tagged(
        text="".join(pieces),
        marks=np.array(marks, dtype=np.int8),
        starts=np.array(starts, dtype=bool),
        lines=np.array(lines, dtype=np.int32),
        sentences=ends,
    )


def mark_of(fields: Sequence[str], place: str) -> int:
    tag = fields[-1]
    if len(fields) > 1 and tag == "O":
        return OUTSIDE
    if len(fields) > 1 and tag[0] in MARKS and tag[1:2] in ("", "-", "_"):
        return MARKS[tag[0]]
    raise InputError(
        tr(
            "{place}: '{line}' is not a token and its tag.\n"
            "A line is a token, a space or tab, and B-KIND, I-KIND or O.",
            place=place,
            line=" ".join(fields)[:60],
        )
    )


def sentences_in(tagged: Tagged) -> Iterator[tuple[int, str]]:
    """Where each sentence of the file begins, and its text; also the sentences that our own rules split it into."""
    for begin, end in zip(tagged.sentences[:-1], tagged.sentences[1:], strict=True):
        text = tagged.text[begin:end]
        yield begin, text
        tokens = np.flatnonzero(tagged.starts[begin:end]).tolist()
        chinese = bool((kinds_of(codes_of(text)) == IDEOGRAPH).any())
        spaced = text if chinese else " ".join(text[a:b] for a, b in zip(tokens, [*tokens[1:], len(text)], strict=True))
        for sentence in split_sentences(spaced):
            bare = "".join(sentence.split())
            yield begin, bare
            begin += len(bare)
