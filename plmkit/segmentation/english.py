"""English phrases and entities by rules over a part-of-speech tagger."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.segmentation.characters import codes_of, plain_starts, spans_of
from plmkit.segmentation.lists import Names, check_lexicon
from plmkit.segmentation.units import Segmenter, Spans, check_level, levels_to, without_overlaps

TOKEN = re.compile(r"\w+(?:['’](?!s\b)\w+)?|['’]s\b|[^\w\s]")
BEFORE_NOUNS = ("DT", "PDT", "PRP$", "CD", "JJ", "JJR", "JJS", "POS")
NOUNS = ("NN", "NNS", "NNP", "NNPS")
LINKS = frozenset("of de la van von der du di al bin".split())  # Bank of England, Vincent van Gogh
LONGEST_PHRASE = 6  # words
MANY_CAPITALS = 0.75  # of the words: a headline, where capitals mean nothing


@dataclass(frozen=True, kw_only=True)
class English(Segmenter):
    """English noun phrases over textblob's tags; entities are runs of capitalised words, and those of a lexicon."""

    lexicon: str | None = None  # a file of entities, one per line; the longest match counts; none: no entities
    level: str = "entity"  # the largest units to find: word, phrase (and words), entity (and both)
    files: ClassVar[tuple[str, ...]] = ("lexicon",)
    tool: ClassVar[str | None] = "textblob"

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def finds(self) -> tuple[str, ...]:
        return levels_to(self.level)

    def check(self) -> None:
        """Reject missing, invalid or unused files and a broken tagger before anything takes time."""
        check_lexicon(self.lexicon, self.level)
        if self.level != "word":
            parser()

    def build(self) -> "EnglishFinder":
        return EnglishFinder(self)


class EnglishFinder:
    def __init__(self, settings: English) -> None:
        self.settings = settings
        self.names = Names(settings.lexicon)

    def spans(self, texts: Sequence[str]) -> Spans:
        codes = codes_of("\n".join(texts))
        starts, kinds = plain_starts(codes)
        words = spans_of(starts, kinds)
        if self.settings.level == "word":
            return Spans(words=words)
        phrases: list[tuple[int, int]] = []
        entities: list[tuple[int, int]] = []
        place = 0
        for text in texts:
            tokens = [match.span() for match in TOKEN.finditer(text)]
            tags = tags_of([text[begin:end] for begin, end in tokens])
            phrases += ((place + begin, place + end) for begin, end in noun_phrases(text, tokens, tags))
            entities += ((place + begin, place + end) for begin, end in capitalised(text, tokens, tags))
            place += len(text) + 1
        if self.settings.level == "phrase":
            return Spans(words=words, phrases=without_overlaps(phrases))
        listed = list(self.names.find(codes, starts, kinds))
        return Spans(words=words, phrases=without_overlaps(phrases), entities=without_overlaps(listed, entities))


def noun_phrases(text: str, tokens: list[tuple[int, int]], tags: list[str]) -> Iterator[tuple[int, int]]:
    """Two to six words side by side: determiners, numbers, adjectives, then nouns, as in `the quick brown fox`."""
    run: list[int] = []
    for place in range(len(tokens) + 1):
        tag = tags[place] if place < len(tokens) else ""
        beside = bool(run) and bool(tag) and text[tokens[run[-1]][1] : tokens[place][0]] in ("", " ")
        # after a noun, only a noun or the 's between two continues the phrase
        follows = not run or tags[run[-1]] not in NOUNS or tag in NOUNS or tag == "POS"
        fits = tag in NOUNS or tag in BEFORE_NOUNS
        if run and not (fits and beside and follows and len(run) < LONGEST_PHRASE):
            while run and tags[run[-1]] not in NOUNS:
                run.pop()
            if len(run) > 1:
                yield tokens[run[0]][0], tokens[run[-1]][1]
            run = []
        if fits and (run or tag != "POS"):
            run.append(place)


def capitalised(text: str, tokens: list[tuple[int, int]], tags: list[str]) -> Iterator[tuple[int, int]]:
    """Runs of capitalised words; the first word of a sentence counts only as part of a longer name."""
    words = [text[begin:end] for begin, end in tokens]
    capital = [word[0].isupper() and word not in ("I", "I'm", "I'd", "I've", "I'll") for word in words]
    letters = [word[0].isalpha() for word in words]
    if sum(letters) > 3 and sum(capital) > MANY_CAPITALS * sum(letters):
        return
    place = next((number for number, letter in enumerate(letters) if letter), len(words))
    first = place
    if place < len(words) and not tags[place].startswith("NNP"):
        place += 1  # The, In, Yesterday: capitalised by their place
    while place < len(words):
        begin = place
        if not capital[place]:
            place += 1
            continue
        end = place = place + 1
        while place < len(words) and text[tokens[place - 1][1] : tokens[place][0]] in ("", " "):
            if capital[place]:
                end = place + 1
            elif not (words[place] in LINKS or words[place] in "-&" or is_initial(words, place)):
                break
            place += 1
        place = end
        if end - begin > 1 or begin != first:
            yield tokens[begin][0], tokens[end - 1][1]


def is_initial(words: list[str], place: int) -> bool:
    """The stop of `J. K. Rowling`."""
    return words[place] == "." and len(words[place - 1]) == 1


def tags_of(words: list[str]) -> list[str]:
    """Parts of speech in the letters of the Penn Treebank; names may come as NNP-PERS."""
    return [tag.partition("-")[0] for _, tag in parser().find_tags(words)]


@cache
def parser() -> Any:
    """textblob's tagger: a lexicon of 94,000 words and rules, all in its wheel; loading it takes a second or two."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from textblob.en import parser as found

            found.find_tags(["loads", "its", "files"])
        except Exception as error:  # whatever is missing of it, or of nltk: a module, a file, a name
            reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
            raise InputError(
                tr(
                    "textblob, which finds English phrases and entities, does not work here: {reason}.\n"
                    "Install it again: pip install --force-reinstall textblob nltk. Or find only words, without it: "
                    "--set corruption.segmenter.level=word.",
                    reason=reason,
                )
            ) from error
    return found
