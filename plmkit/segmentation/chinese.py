"""Chinese words, phrases and entities by jieba."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from sys import intern
from typing import ClassVar

import numpy as np

from plmkit.segmentation.cutting import Cutter
from plmkit.segmentation.letters import IDEOGRAPH, LETTER, plain_starts, spans_of
from plmkit.segmentation.lists import Entry, Names, check_lexicon, read_dictionary
from plmkit.segmentation.spans import Spans, check_level, levels_to, no_spans, without_overlaps
from plmkit.segmentation.trie import Found, codes_of
from plmkit.segmentation.unlisted import FIRST, LAST, guesser, runs_of, tagger

DICTIONARY = "corruption.segmenter.dictionary"
ENTITY_TAGS = ("nr", "ns", "nt", "nz", "t")  # person, place, organisation, other name, time; nrt and nrfg are persons
PERSON, LATIN, NUMERAL, UNTAGGED = "nr", "eng", "m", "x"
HEAD_TAGS = ("n", "vn", "an", "j", "eng")  # what a noun phrase may end with: nouns, and what stands for one
MODIFIER_TAGS = ("a", "b")  # adjectives, and words such as 大型 that only modify
LONGEST_PHRASE = 4  # words; longer runs of nouns are mostly lists
TITLE = re.compile(r"《([^《》\n]{1,40})》")
NUMBER = "[0-9０-９]"
DATE = re.compile(
    rf"(?:{NUMBER}+|[〇零一二三四五六七八九]{{4}})年(?:{NUMBER}+月(?:{NUMBER}+[日号])?)?"
    rf"|{NUMBER}+月(?:{NUMBER}+[日号])?|{NUMBER}+[日号时点]|{NUMBER}+世纪"
)


@dataclass(frozen=True, kw_only=True)
class Jieba:
    """Chinese words from jieba's dictionary and model; larger units from its tags, 《titles》, dates and a lexicon.

    Words of Chinese characters alone are jieba's own. A run of letters and digits is never cut, be it with accents or
    of full width, nor is a number with its points and commas: a word of the dictionary may hold such a run whole (T恤),
    but not begin inside it. jieba finds T恤 in AT恤 too, and takes é, Ａ and 1,000 apart. Of running text this concerns
    one word in two thousand, all beside letters or digits.
    """

    dictionary: str | None = None  # a file of more words, `word [frequency] [tag]` a line
    lexicon: str | None = None  # a file of entities, one a line; the longest found in a place counts
    level: str = "word"  # the largest units to find: word, phrase (and words), entity (and both); tags take time
    unlisted: bool = True  # join lone characters to words that no dictionary has, as jieba does unless told
    files: ClassVar = ("dictionary", "lexicon")
    tool: ClassVar = "jieba"

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def finds(self) -> tuple[str, ...]:
        return levels_to(self.level)

    def check(self) -> None:
        """Refuse files that are missing, broken or of no use, before anything takes time."""
        check_lexicon(self.lexicon, self.level)
        if self.dictionary:
            read_dictionary(self.dictionary, DICTIONARY)

    def build(self) -> "JiebaSegmenter":
        return JiebaSegmenter(self)


class JiebaSegmenter:
    def __init__(self, settings: Jieba) -> None:
        self.settings = settings
        own = read_dictionary(settings.dictionary, DICTIONARY) if settings.dictionary else []
        self.cutter, tags = jieba_dictionary() if not own else extended(own)
        self.names = Names(settings.lexicon)
        if settings.level != "word":
            self.tags = Tags([*tags, *tagger().tags, LATIN, NUMERAL, UNTAGGED])
            self.of_entry = self.tags.numbers(tags)  # the tag of each word of the dictionary

    def spans(self, texts: Sequence[str]) -> Spans:
        text = "\n".join(texts)
        codes = codes_of(text)
        plain, kinds = plain_starts(codes)
        starts, number, found = self.cutter.cut(codes, plain, kinds)
        lone = lone_runs(codes, starts, kinds, found) if self.settings.unlisted else no_spans()
        if self.settings.level == "word":
            return Spans(words=spans_of(starts & guesser().starts(codes, lone), kinds))
        tagged = self.tagged(text, starts, number, lone)
        words = spans_of(starts, kinds)
        begins = words[:, 0]
        letters = (tagged[begins] < 0) & (number[begins] < 0) & (kinds[begins] == LETTER)
        for begin in begins[letters].tolist():
            tagged[begin] = self.tags.number[NUMERAL if text[begin].isdigit() else LATIN]
        of_words = np.where(tagged[begins] < 0, self.tags.number[UNTAGGED], tagged[begins])
        phrases = list(noun_phrases(words, self.tags.noun[of_words], self.tags.modifier[of_words]))
        if self.settings.level == "phrase":
            return Spans(words=words, phrases=without_overlaps(phrases))
        entities = without_overlaps(
            list(self.names.find(codes, plain, kinds)),
            [match.span(1) for match in TITLE.finditer(text)],
            [match.span() for match in DATE.finditer(text)],
            list(tagged_entities(text, words, self.tags.name[of_words], self.tags.person[of_words])),
        )
        return Spans(words=words, phrases=without_overlaps(phrases), entities=entities)

    def tagged(self, text: str, starts: np.ndarray, number: np.ndarray, lone: np.ndarray) -> np.ndarray:
        """(N,) the tag of the word that begins in each place, or -1; words of lone characters are marked on the way."""
        tags = np.full(len(starts), -1, dtype=np.int64)
        listed = np.flatnonzero(starts & (number >= 0))
        tags[listed] = self.of_entry[number[listed]]
        places, names = [], []
        words, of_name = tagger().words, self.tags.number
        for begin, end in lone.tolist():
            for place, tag in words(text[begin:end]):
                places.append(begin + place)
                names.append(of_name[tag])
        starts[within(lone, len(starts))] = False
        starts[places] = True
        tags[places] = names
        return tags


class Tags:
    """Parts of speech by number, and what each is good for."""

    def __init__(self, tags: Iterable[str]) -> None:
        self.number = {tag: number for number, tag in enumerate(dict.fromkeys(tags))}
        self.noun = self.flags(lambda tag: tag in HEAD_TAGS or tag.startswith("n"))
        self.modifier = self.flags(lambda tag: tag in MODIFIER_TAGS)
        self.name = self.flags(lambda tag: tag.startswith(ENTITY_TAGS[:4]) or tag == "t")
        self.person = self.flags(lambda tag: tag.startswith(PERSON))

    def flags(self, has: Callable[[str], bool]) -> np.ndarray:
        return np.array([has(tag) for tag in self.number], dtype=bool)

    def numbers(self, tags: Sequence[str]) -> np.ndarray:
        return np.fromiter(map(self.number.__getitem__, tags), dtype=np.int64, count=len(tags))


def within(runs: np.ndarray, length: int) -> np.ndarray:
    """(N,) True inside the runs (R, 2)."""
    steps = np.zeros(length + 1, dtype=np.int8)
    steps[runs[:, 0]] = 1
    steps[runs[:, 1]] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8) > 0


def lone_runs(codes: np.ndarray, starts: np.ndarray, kinds: np.ndarray, found: Found) -> np.ndarray:
    """(R, 2) runs of two or more ideographs that are words by themselves; not those that are a word together."""
    ends = np.append(starts[1:] | (kinds[1:] != IDEOGRAPH), True)
    runs = runs_of(starts & ends & (codes >= FIRST) & (codes <= LAST))
    sizes = np.zeros(len(codes), dtype=np.int64)
    sizes[runs[:, 0]] = runs[:, 1] - runs[:, 0]
    words = found.begins[found.lengths == sizes[found.begins]]
    sizes[words] = 0
    return runs[sizes[runs[:, 0]] > 1]


def noun_phrases(words: np.ndarray, noun: np.ndarray, modifier: np.ndarray) -> Iterator[tuple[int, int]]:
    """Two to four words that touch, adjectives and nouns, ending in a noun: 自然 语言 处理 is one, 我 的 书 is none."""
    fits = noun | modifier
    goes_on = np.zeros(len(words) + 1, dtype=bool)  # together with the word before
    goes_on[1:-1] = fits[1:] & fits[:-1] & (words[1:, 0] == words[:-1, 1])
    for first, last in (runs_of(goes_on) - [1, 0]).tolist():  # a run begins with the word before
        for begin in range(first, last, LONGEST_PHRASE):
            end = min(begin + LONGEST_PHRASE, last)
            while end > begin and not noun[end - 1]:
                end -= 1
            if end - begin > 1:
                yield int(words[begin, 0]), int(words[end - 1, 1])


def tagged_entities(text: str, words: np.ndarray, name: np.ndarray, person: np.ndarray) -> Iterator[tuple[int, int]]:
    """Words of two or more characters with the tag of a name; 乔治·华盛顿 is one, so are persons' that touch."""
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


@cache
def jieba_dictionary() -> tuple[Cutter, list[str]]:
    """jieba's own words and their tags."""
    return dictionary_of(jieba_words())


def extended(own: Sequence[Entry]) -> tuple[Cutter, list[str]]:
    """jieba's words and the user's; the user's overrule."""
    words = jieba_words()
    cutter, _ = jieba_dictionary()
    for entry, needed in zip(own, enough(cutter, [entry.word for entry in own], words), strict=True):
        _, tag = words.get(entry.word, (0, UNTAGGED))
        words[entry.word] = entry.frequency or needed, entry.tag or tag
    return dictionary_of(words)


def enough(cutter: Cutter, wanted: Sequence[str], words: Mapping[str, tuple[int, str]]) -> list[int]:
    """For each word wanted, a frequency that lets it win against its parts, by jieba's rule."""
    text = "\n".join(wanted)
    codes = codes_of(text)
    plain, kinds = plain_starts(codes)
    starts, _, _ = cutter.cut(codes, plain, kinds)
    parts = spans_of(starts, kinds)
    chances = [1.0] * len(wanted)
    lines = np.cumsum(codes == ord("\n"))[parts[:, 0]].tolist()
    for line, (begin, end) in zip(lines, parts.tolist(), strict=True):
        chances[line] *= words.get(text[begin:end], (1, ""))[0] / cutter.total
    return [
        max(int(chance * cutter.total) + 1, words.get(word, (1, ""))[0])
        for word, chance in zip(wanted, chances, strict=True)
    ]


def dictionary_of(words: Mapping[str, tuple[int, str]]) -> tuple[Cutter, list[str]]:
    return Cutter(list(words), [frequency for frequency, _ in words.values()]), [tag for _, tag in words.values()]


def jieba_words() -> dict[str, tuple[int, str]]:
    """Word to frequency and tag, from the file in jieba's package; its own cache, a marshal file in /tmp, is let be."""
    spec = find_spec("jieba")
    assert spec is not None and spec.submodule_search_locations, "jieba is among the dependencies"
    text = Path(spec.submodule_search_locations[0], "dict.txt").read_text(encoding="utf-8")
    fields = (line.split(" ") for line in text.splitlines())
    return {word: (int(frequency), intern(tag)) for word, frequency, tag in fields}
