"""Tags that mark spans of words: B- begins one, I- is inside it, E- ends it, S- is one by itself, O is outside."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

BIO, BIOES, PLAIN = "BIO", "BIOES", "plain"  # plain tags, such as parts of speech, mark no spans
IOB1 = "IOB1"  # B- only between two spans of a type; read as BIO
TAG = re.compile(r"([BIOESMLU])(?:[-_](.+))?")
ALIKE = {"M": "I", "L": "E", "U": "S"}  # letters of BMES and BILOU
OUTSIDE = "O"
UNTYPED = "_"  # the type of a span whose tags are letters alone, as of words in BMES
PREFIXES = {BIO: "BI", BIOES: "BIES"}
FOLLOWS = {"B": "IE", "I": "IE", "E": "BSO", "S": "BSO", "O": "BSO"}  # in BIOES, within a type or after it


@dataclass(frozen=True, kw_only=True)
class Marked:
    """A span of words and its type."""

    begin: int  # the first word
    end: int  # the one after the last
    label: str


def letter_of(tag: str) -> str:
    return tag[0]


def type_of(tag: str) -> str:
    return tag[2:]


def scheme_of(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme of the tags of a file; IOB1 if no span begins with B- unless one of its type stands before it."""
    sentences = [*map(canonical, sentences)]
    tags = {tag for sentence in sentences for tag in sentence}
    if not all(tag == OUTSIDE or (TAG.fullmatch(tag) and tag[1:2] == "-") for tag in tags):
        return PLAIN
    if any(letter_of(tag) in "ES" for tag in tags):
        return BIOES
    pairs = [pair for sentence in sentences for pair in pairwise([OUTSIDE, *sentence])]
    opened = [tag for before, tag in pairs if tag != OUTSIDE and type_of(before) != type_of(tag)]
    inside = any(letter_of(tag) == "I" for tag in opened)
    return IOB1 if inside and not any(letter_of(tag) == "B" for tag in opened) else BIO


def canonical(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags with the letters B, I, E, S and O and a hyphen, if all of them can be read so; otherwise as they are."""
    found = [*map(canonical_tag, tags)]
    return tuple(tags) if None in found else tuple(tag for tag in found if tag)


@cache
def canonical_tag(tag: str) -> str | None:
    if not (found := TAG.fullmatch(tag)):
        return None
    letter = ALIKE.get(found[1], found[1])
    return OUTSIDE if letter == OUTSIDE else f"{letter}-{found[2] or UNTYPED}"


def spans_of(tags: Sequence[str]) -> list[Marked]:
    """The spans that tags mark; mistakes are read as in seqeval's default mode: I- begins one if none is open."""
    found: list[Marked] = []
    begin, label = 0, ""
    for place, (before, tag) in enumerate(pairwise([OUTSIDE, *tags, OUTSIDE])):
        if before != OUTSIDE and ends(before, tag):
            found.append(Marked(begin=begin, end=place, label=label))
        if tag != OUTSIDE and (before == OUTSIDE or ends(before, tag)):
            begin, label = place, type_of(tag)
    return found


def ends(before: str, tag: str) -> bool:
    """Whether a span ends between two tags, the first of which is in one."""
    return letter_of(before) in "ES" or letter_of(tag) in "BSO" or type_of(before) != type_of(tag)


def tags_of(spans: Iterable[Marked], words: int, scheme: str = BIO) -> tuple[str, ...]:
    """The tags of spans that do not overlap."""
    tags = [OUTSIDE] * words
    for span in spans:
        letters = ["B", *"I" * (span.end - span.begin - 1)]
        if scheme == BIOES:
            letters[-1] = "E" if len(letters) > 1 else "S"
        tags[span.begin : span.end] = [f"{letter}-{span.label}" for letter in letters]
    return tuple(tags)


def repaired(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Tags that mark the same spans without a mistake."""
    return tags_of(spans_of(tags), len(tags), scheme)


def classes_of(tags: Iterable[str], scheme: str) -> tuple[str, ...]:
    """All tags that may be predicted: of each type every letter of the scheme, whether training has it or not."""
    if scheme == PLAIN:
        return tuple(sorted(set(tags)))
    types = sorted({type_of(tag) for tag in tags} - {""})
    return (OUTSIDE, *(f"{letter}-{name}" for name in types for letter in PREFIXES[scheme]))


def scheme_in(classes: Sequence[str]) -> str:
    """The scheme of a model's classes, whose order says nothing."""
    found = scheme_of([[tag] for tag in classes])
    return BIO if found == IOB1 else found


def may_follow(before: str, tag: str, scheme: str) -> bool:
    """Whether a tag is possible after another; O stands before the first and after the last."""
    if scheme == PLAIN:
        return True
    same = type_of(before) == type_of(tag)
    if scheme == BIO:
        return letter_of(tag) != "I" or (before != OUTSIDE and same)
    return letter_of(tag) in FOLLOWS[letter_of(before)] and (letter_of(before) in "ESO" or same)
