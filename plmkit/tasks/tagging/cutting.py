"""How a text is cut into words: in the way of the words that a task was trained on."""

from collections.abc import Sequence
from functools import cache

from plmkit.data.reading.words import IS_HAN, Span, every_character, every_mark, usual_words
from plmkit.segmentation.chinese import Jieba, JiebaFinder

CHARACTERS = "characters"  # each character
WORDS = "words"  # as treebanks have them; each ideograph
MARKS = "marks"  # at every punctuation mark; each ideograph
JIEBA = "jieba"  # as WORDS, with Chinese words by jieba
MANY = 0.1  # share of Chinese words, and among them of those with several characters, that counts
FEW = 0.001  # share of all words with several characters, up to which all are characters


@cache
def jieba() -> JiebaFinder:
    return Jieba().build()


def chinese_words(text: str) -> list[Span]:
    """Words as in WORDS, where runs of single ideographs are joined as jieba joins them."""
    whole = {begin: end for begin, end in jieba().spans([text]).words.tolist() if IS_HAN.match(text, begin)}
    spans: list[Span] = []
    for begin, end in usual_words(text):
        if not spans or begin >= spans[-1][1]:
            spans.append((begin, max(end, whole.get(begin, end))))
    return spans


WAYS = {CHARACTERS: every_character, WORDS: usual_words, MARKS: every_mark, JIEBA: chinese_words}


def cut(text: str, units: str) -> list[Span]:
    return WAYS[units](text)


def units_of(sentences: Sequence[Sequence[str]]) -> str:
    """How to cut a text so that its words are like these."""
    words = [word for sentence in sentences for word in sentence]
    long = sum(len(word) > 1 for word in words)
    chinese = [word for word in words if IS_HAN.match(word)]
    if len(chinese) < MANY * len(words):
        return WORDS
    if long <= FEW * len(words):
        return CHARACTERS
    if sum(len(word) > 1 for word in chinese) > MANY * len(chinese):
        return JIEBA
    return WORDS
