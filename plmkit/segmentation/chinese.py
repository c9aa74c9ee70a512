"""Chinese words, phrases and entities by jieba, as rjieba computes it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.segmentation.characters import SPACE, codes_of, plain_starts, spans_of
from plmkit.segmentation.lists import Names, check_lexicon, read_dictionary
from plmkit.segmentation.units import Segmenter, Spans, check_level, levels_to, without_overlaps

DICTIONARY = "corruption.segmenter.dictionary"
ENTITY_TAGS = ("nr", "ns", "nt", "nz")  # person, place, organisation, other name; nrt and nrfg are persons
PERSON, TIME = "nr", "t"
HEAD_TAGS = ("n", "vn", "an", "j", "eng")  # what a noun phrase may end with: nouns, and words used as one
MODIFIER_TAGS = ("a", "b")  # adjectives, and words such as 大型 that only modify
LONGEST_PHRASE = 4  # words; longer runs of nouns are mostly lists
TITLE = re.compile(r"《([^《》\n]{1,40})》")
NUMBER = "[0-9０-９]"
DATE = re.compile(
    rf"(?:{NUMBER}+|[〇零一二三四五六七八九]{{4}})年(?:{NUMBER}+月(?:{NUMBER}+[日号])?)?"
    rf"|{NUMBER}+月(?:{NUMBER}+[日号])?|{NUMBER}+[日号时点]|{NUMBER}+世纪"
)


@dataclass(frozen=True, kw_only=True)
class Jieba(Segmenter):
    """Chinese words from jieba's dictionary and model; larger units from its tags, 《titles》, dates and a lexicon.

    Words are jieba's own, but a run of letters and digits is never split, not even with accents or full-width letters,
    nor is a number with its points and commas: a word of the dictionary may contain such a run (T恤), but not begin
    inside it. jieba itself finds T恤 in AT恤, and splits é, Ａ and 1,000. In running text this affects one word in
    two thousand, all of them next to letters or digits.
    """

    dictionary: str | None = None  # a file of more words, `word [frequency] [tag]` per line; none: jieba's words only
    lexicon: str | None = None  # a file of entities, one per line; the longest match counts; none: no entities
    level: str = "word"  # the largest units to find: word, phrase (and words), entity (and both)
    unlisted: bool = True  # also find words that are not in the dictionary, as jieba does by default
    files: ClassVar[tuple[str, ...]] = ("dictionary", "lexicon")
    tool: ClassVar[str | None] = "rjieba"

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def finds(self) -> tuple[str, ...]:
        return levels_to(self.level)

    def check(self) -> None:
        check_lexicon(self.lexicon, self.level)
        if self.dictionary:
            read_dictionary(self.dictionary, DICTIONARY)

    def build(self) -> "JiebaFinder":
        return JiebaFinder(self)


class JiebaFinder:
    def __init__(self, settings: Jieba) -> None:
        import rjieba  # half a second to load its dictionary

        self.settings = settings
        self.jieba = rjieba.Jieba()
        for entry in read_dictionary(settings.dictionary, DICTIONARY) if settings.dictionary else ():
            self.jieba.add_word(entry.word, entry.frequency, entry.tag)  # no frequency: enough to be found
        self.names = Names(settings.lexicon)

    def spans(self, texts: Sequence[str]) -> Spans:
        text = "\n".join(texts)
        codes = codes_of(text)
        plain, kinds = plain_starts(codes)
        text = text.encode("utf-8", "replace").decode()  # half a character becomes a ?: rjieba accepts only whole ones
        if self.settings.level == "word":
            starts, _ = word_starts(self.jieba.cut(text, self.settings.unlisted), plain, kinds)
            return Spans(words=spans_of(starts, kinds))
        tagged = self.jieba.tag(text, self.settings.unlisted)
        starts, begins = word_starts([word for word, _ in tagged], plain, kinds)
        words, tags = spans_of(starts, kinds), [tag for _, tag in tagged]
        of_words = [tags[number] for number in np.searchsorted(begins, words[:, 0], side="right") - 1]
        noun = np.array([tag in HEAD_TAGS or tag.startswith("n") for tag in of_words], dtype=bool)
        modifier = np.array([tag in MODIFIER_TAGS for tag in of_words], dtype=bool)
        phrases = without_overlaps(list(noun_phrases(words, noun, modifier)))
        if self.settings.level == "phrase":
            return Spans(words=words, phrases=phrases)
        name = np.array([tag.startswith(ENTITY_TAGS) or tag == TIME for tag in of_words], dtype=bool)
        person = np.array([tag.startswith(PERSON) for tag in of_words], dtype=bool)
        entities = without_overlaps(
            list(self.names.find(codes, plain, kinds)),
            [match.span(1) for match in TITLE.finditer(text)],
            [match.span() for match in DATE.finditer(text)],
            list(tagged_entities(text, words, name, person)),
        )
        return Spans(words=words, phrases=phrases, entities=entities)


def word_starts(cut: Sequence[str], plain: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) where words begin, and (W,) where jieba's words do, which cover the text, white space included.

    A word that begins inside a run of letters is split: its letters belong to the run, the rest is another word.
    """
    sizes = np.fromiter(map(len, cut), dtype=np.int64, count=len(cut))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    starts = np.zeros(len(plain), dtype=bool)
    starts[begins] = True
    starts &= kinds != SPACE
    inside = np.flatnonzero(starts[begins] & ~plain[begins])
    starts &= plain
    for begin, end in zip(begins[inside].tolist(), ends[inside].tolist(), strict=True):
        rest = np.flatnonzero(plain[begin:end])[:1]
        starts[begin + rest] = True
    return starts, begins


def runs_of(flags: np.ndarray) -> np.ndarray:
    """(R, 2) begin and end of each run of True."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.stack([np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)], axis=1)


def noun_phrases(words: np.ndarray, noun: np.ndarray, modifier: np.ndarray) -> Iterator[tuple[int, int]]:
    """Two to four words that touch, adjectives and nouns, ending in a noun: 自然 语言 处理 is one, 我 的 书 is not."""
    fits = noun | modifier
    joined = np.zeros(len(words) + 1, dtype=bool)  # together with the word before
    joined[1:-1] = fits[1:] & fits[:-1] & (words[1:, 0] == words[:-1, 1])
    for first, last in (runs_of(joined) - [1, 0]).tolist():  # a run begins with the word before
        for begin in range(first, last, LONGEST_PHRASE):
            end = min(begin + LONGEST_PHRASE, last)
            while end > begin and not noun[end - 1]:
                end -= 1
            if end - begin > 1:
                yield int(words[begin, 0]), int(words[end - 1, 1])


def tagged_entities(text: str, words: np.ndarray, name: np.ndarray, person: np.ndarray) -> Iterator[tuple[int, int]]:
    """Words of two or more characters tagged as names; 乔治·华盛顿 is one name, as are adjacent names of persons."""
    spans, place = words.tolist(), 0
    for first in np.flatnonzero(name).tolist():
        if first < place:  # part of the name before
            continue
        begin, end = spans[first]
        place = first + 1
        while place < len(spans) and spans[place][0] == end:
            dotted = text[end] in "·•" and spans[place + 1 : place + 2] and spans[place + 1][0] == end + 1
            if not dotted and not (person[first] and person[place]):
                break
            place += 1 + bool(dotted)
            end = spans[place - 1][1]
        if end - begin > 1:
            yield begin, end
