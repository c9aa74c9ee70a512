"""What text looks like: ideographs, markup, and the sentences of a paragraph, all by rule."""

import re
from collections.abc import Iterator
from unicodedata import category

IDEOGRAPHS = (  # Han characters of Unicode 15: extension A, the basic block, compatibility, extensions B to H
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
HAN = "".join(f"{chr(first)}-{chr(last)}" for first, last in IDEOGRAPHS)  # inside the brackets of a regular expression
KANA = "\u3040-\u30ff"
HANGUL = "\uac00-\ud7af"
UNSPACED = "\u0e00-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer: no space between words
MARKED = ((0x300, 0x1DFF), (0x20D0, 0x20FF), (0xA660, 0xABFF), (0xFE00, 0xFE2F), (0x11000, 0x11FFF))  # have marks
MARKS = "".join(  # vowel signs, accents: they belong to the letter before them, but are no letters
    mark for first, last in MARKED for mark in map(chr, range(first, last + 1)) if category(mark).startswith("M")
)
LETTERS = rf"[^\W{HAN}]"
WORD = re.compile(  # or a punctuation mark; an ideograph is a word
    rf"[{HAN}]|{LETTERS}+(?:[{MARKS}]+{LETTERS}*)*|[^\w\s]"
)
WIDE = f"{HAN}\u3000-\u30ff\uff00-\uff60“”‘’…—"  # no space is written before or after these


def is_ideograph(code: int) -> bool:
    """Is the code point a Han character?"""
    return any(first <= code <= last for first, last in IDEOGRAPHS)


TAGS = (
    "a|abbr|article|b|blockquote|body|br|caption|center|cite|code|dd|div|dl|dt|em|figure|font|footer|h[1-6]|head|"
    "header|hr|html|i|img|input|li|link|main|meta|nav|ol|p|pre|ref|s|script|section|small|span|strong|style|sub|sup|"
    "table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul"
)
HTML = re.compile(rf"<!--|<!doctype html|</?(?:{TAGS})(?:\s[^<>]*)?/?>|&(?:[a-z]{{2,8}}|#\d{{1,6}});", re.IGNORECASE)
BEGINS = re.compile(r"#{1,6} \S|```|~~~|\|?(?: *:?-{3,}:? *\|)+")  # a heading, a fence, the line below a table's header
WITHIN = re.compile(r"\[[^\[\]]*\]\([^()\s]+\)|\*\*[^\s*][^*]*\*\*")  # a link, bold


def is_html(line: str) -> bool:
    """Does the line contain an HTML tag or entity? A `<` alone does not count."""
    return ("<" in line or "&" in line) and HTML.search(line) is not None


def is_markdown(line: str) -> bool:
    """Does the line contain a heading, fence, table, link or bold text? A leading dash does not count: it is common."""
    if line[0] in "#`~|:-" and BEGINS.match(line):
        return True
    return ("](" in line or "**" in line) and WITHIN.search(line) is not None


LONGEST_SENTENCE = 1_000  # characters; text without punctuation is cut there
LONGEST_WORD = 24  # characters looked at before a full stop

STOPS = ".!?…。！？；｡"
WIDE_STOPS = re.compile("[。！？；｡]|……")  # these need no space after them
CLOSERS = "\"'”’』」）)\\]】》〉}»"
OPENERS = frozenset("\"'“‘『「（([【《〈{«¿¡-#@$€£¥<*")
CONTINUERS = frozenset("，、：,:;—～~")  # a sentence does not begin with these: “真的？”，他问。

CANDIDATE = re.compile(rf"[{STOPS}]+([{CLOSERS}{STOPS}]*)(\s*)")
CUTS = (*"，,；;：:、", " ", "\t", "\u3000")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# never at the end of a sentence, or so rarely that joining two does less harm than splitting one
ABBREVIATIONS = _words(
    """mr mrs ms mx dr prof st mt ft rev hon gen col maj capt cmdr lt sgt cpl adm gov sen rep pres supt messrs
    mme mlle fr jr sr vs cf viz etc al approx ca fig figs eq eqs vol vols ed eds trans resp dept univ inc ltd
    co corp bros est assn ave blvd rd"""
)
# only before a number: "No. 5", but "She said no. Then she left."
BEFORE_NUMBERS = _words(
    """no nos p pp ch chap sec sect art par para app tab ex ver
    jan feb mar apr jun jul aug sep sept oct nov dec"""
)


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph in order, with every character but the space between them."""
    sentences = []
    start = 0
    for match in CANDIDATE.finditer(paragraph):
        end = _end_of_sentence(paragraph, start, match)
        if end:
            sentences.append(paragraph[start:end])
            start = end
    sentences.append(paragraph[start:])
    return [piece for sentence in sentences if (text := sentence.strip()) for piece in _bounded(text)]


def _end_of_sentence(text: str, start: int, match: re.Match[str]) -> int:
    """Where the sentence ends if this run of stops ends it; 0 if the sentence continues."""
    first, end = match.span()
    following = text[end : end + 1]
    if not following or following in CONTINUERS:
        return 0
    if WIDE_STOPS.search(text, first, match.end(1)):
        return _before_opening_quote(text, start, match)
    if not match[2]:  # 3.14, example.com; but Chinese typed with narrow stops has no space
        stop = text[first]
        ends = _is_wide(following) and (stop in "!?" or _is_wide(text[first - 1 : first]))
        return _before_opening_quote(text, start, match) if ends else 0
    if not _may_begin(following):
        return 0
    lone_stop = text[first] == "." and text.count(".", first, end) == 1
    return 0 if lone_stop and _is_abbreviated(text, start, first, following) else end


def _may_begin(letter: str) -> bool:
    return letter in OPENERS or (letter.isalnum() and not letter.islower())


def _is_wide(letter: str) -> bool:
    return letter >= "\u2e80"


def _is_abbreviated(text: str, start: int, stop: int, following: str) -> bool:
    """Whether the word before a full stop is an abbreviation."""
    before = text[max(start, stop - LONGEST_WORD) : stop].rsplit(None, 1)
    word = before[-1].lstrip("\"'“‘([{<-—") if before else ""
    if word.isdecimal():  # "1. Introduction" is one sentence, "It was 1990. Then" is two
        return not text[start : stop - len(word)].strip()
    if len(word) == 1:  # J. K. Rowling
        return word.isalpha()
    if "." in word:  # U.S., e.g., Ph.D.; but not example.com
        return all(part.isalpha() and len(part) <= 2 for part in word.split("."))
    word = word.lower()
    return word in ABBREVIATIONS or (word in BEFORE_NUMBERS and following.isdecimal())


def _before_opening_quote(text: str, start: int, match: re.Match[str]) -> int:
    """The end of the match, or the place of a straight quote in it that opens the next sentence."""
    quote = text.find('"', *match.span(1))
    if quote < 0 or match[2]:
        return match.end()
    # look back a bounded distance: a long text of quotes would take quadratic time
    closes = text.count('"', max(start, quote - LONGEST_SENTENCE), quote) % 2
    return match.end() if closes else quote


def _bounded(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST_SENTENCE:
        cut = max(sentence.rfind(mark, LONGEST_SENTENCE // 2, LONGEST_SENTENCE) for mark in CUTS) + 1
        cut = cut or LONGEST_SENTENCE
        yield sentence[:cut].rstrip()
        sentence = sentence[cut:].lstrip()
    if sentence:
        yield sentence
