"""Connectives of English and Chinese, the relations they express, and the texts they connect, by rule."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from plmkit.data.text import HAN, WORD

# The relation of the second text to the first. The inventory is ours: the paper names neither connectives nor classes.
# Words of several senses (since, while, as, and, 而, 就) are left out: they do not make their relation explicit.
RELATIONS = (
    "cause", "result", "contrast", "concession", "condition", "purpose", "addition", "example", "restatement",
    "succession", "precedence", "simultaneity", "alternative", "confirmation", "similarity",
)  # fmt: skip

# They open a sentence and connect it with the sentence before; Chinese ones also open a clause after a comma.
OPENING = {
    "cause": "this is because|that is because|这是因为|那是因为|這是因為|那是因為",
    "result": "therefore|thus|hence|consequently|accordingly|as a result|as a consequence|for this reason|"
    "for that reason|所以|因此|因而|于是|从而|故而|为此|於是|從而|為此",
    "contrast": "but|however|yet|by contrast|in contrast|on the contrary|on the other hand|conversely|"
    "但|但是|然而|可是|不过|相反|反之|与此相反|相比之下|另一方面|不過|與此相反",
    "concession": "nevertheless|nonetheless|even so|despite this|in spite of this|despite that|"
    "尽管如此|虽然如此|即便如此|即使如此|话虽如此|儘管如此|雖然如此|話雖如此",
    "addition": "moreover|furthermore|in addition|additionally|what is more|what's more|"
    "而且|并且|况且|何况|此外|另外|除此之外|再者|再说|加之|不仅如此|並且|況且|再說|不僅如此",
    "example": "for example|for instance|例如|比如|譬如|比方说|举例来说|比如说|比方說|舉例來說|比如說",
    "restatement": "in other words|that is to say|put differently|in short|in sum|to sum up|in summary|in brief|"
    "换句话说|换言之|也就是说|总之|总而言之|综上所述|简而言之|简言之|換句話說|換言之|也就是說|總之|總而言之|綜上所述",
    "succession": "then|afterwards|afterward|later|subsequently|thereafter|after that|eventually|"
    "然后|随后|接着|后来|此后|其后|之后|紧接着|接下来|最后|然後|隨後|接著|後來|此後|其後|之後|接下來|最後",
    "precedence": "previously|earlier|before that|beforehand|此前|在此之前|先前|在这之前|在這之前",
    "simultaneity": "meanwhile|in the meantime|at the same time|simultaneously|"
    "同时|与此同时|此时|这时|同時|與此同時|此時|這時",
    "alternative": "otherwise|instead|alternatively|否则|不然|要不然|不然的话|或者|否則|不然的話",
    "confirmation": "indeed|in fact|as a matter of fact|in reality|"
    "其实|事实上|实际上|的确|确实|其實|事實上|實際上|的確|確實",
    "similarity": "similarly|likewise|in the same way|by the same token|同样|同样地|类似地|同理|同樣|同樣地|類似地",
}
# They connect two clauses of a sentence: English ones with the punctuation given here, Chinese ones after a comma.
INNER = {
    "cause": "because|因为|由于|因為|由於",
    "result": ", so|, therefore|, thus|, hence|, and therefore|, and thus|, and so|; therefore|; thus|; hence|"
    "; consequently|; as a result|以致|以至于|致使|以至於",
    "contrast": ", but|whereas|, yet|; however|; by contrast|; on the other hand",
    "concession": "although|even though|, though|even if|; nevertheless|; nonetheless|尽管|虽然|即使|哪怕|儘管|雖然",
    "condition": "unless|provided that|as long as|on condition that|assuming that|, if|除非|只要|如果|假如",
    "purpose": "so that|in order that|in order to|so as to|lest|以便|以免|以防|免得|省得|好让|为的是|好讓|為的是",
    "addition": "; moreover|; furthermore|; in addition",
    "example": ", for example|, for instance|; for example|; for instance",
    "restatement": ", in other words|, that is to say|; in other words|; that is to say",
    "succession": ", and then|, after which|, then|; then",
    "precedence": "as soon as",
    "simultaneity": ", meanwhile|, and meanwhile|; meanwhile|; at the same time",
    "alternative": ", or else|, otherwise|; otherwise|; instead|或是|要么|要麼",
    "confirmation": "; indeed|; in fact",
    "similarity": "; similarly|; likewise",
}
# They open the first clause of a sentence, which is then the second text; the main clause after it is the first.
FRONTED = {
    "cause": "because|given that|seeing that|now that|因为|由于|既然|鉴于|因為|由於|鑑於",
    "concession": "although|though|even though|even if|虽然|尽管|虽说|即使|即便|哪怕|纵然|就算|固然|"
    "雖然|儘管|雖說|縱然",
    "condition": "if|unless|provided that|as long as|assuming that|in case|如果|假如|假使|倘若|若是|"
    "要是|只要|只有|除非|一旦|万一|萬一",
    "purpose": "in order to|in order that|so as to|为了|為了",
    "precedence": "once|as soon as",
    "addition": "not only|不但|不仅|不光|不只|不僅",
}
# They open the main clause after a fronted connective and repeat its relation: both are removed.
ANSWERING = (
    "then|yet|still|nevertheless|nonetheless|but also|but|"
    "所以|因此|因而|那么|那麼|那|就|便|则|則|才|但是|但|可是|然而|不过|不過|却|卻|也|还|還|仍然|仍|依然|而且|并且|並且|反而|甚至|"
    "否则|否則|不然"
)
NOT_BEFORE = {  # patterns of what follows them where they are no connectives: because of, 但愿
    "because": "of", "this is because": "of", "that is because": "of", "instead": "of", "as a result": "of",
    "as a consequence": "of", "in case": "of", "but": "for",
    "in addition": "to", "in contrast": "to|with", "by contrast": "to|with", "at the same time": "as",
    "in the same way": "as|that", "yet": "another|to", "thus": "far",
    "so": "far|long|much|many|that", "and so": "on|forth|that",
    "once": "again|more|a|upon", "earlier": r"\w+", "later": r"\w+", "previously": r"\w+",
    "但": "[愿凡願]", "不过": "[是]", "不過": "[是]", "同时": "[代期]", "同時": "[代期]", "最后": "[一的期]",
    "最後": "[一的期]", "之后": "的", "之後": "的", "先前": "的", "另外": "[一两兩三几幾的]", "相反": "的",
    "同样": "[的是]", "同樣": "[的是]", "再说": "[说明到]", "再說": "[說明到]",
    "尽管": "如此", "儘管": "如此", "虽然": "如此", "雖然": "如此",
    "即使": "如此", "即便": "如此", "那": "[些个时样里個時樣裡]", "就": "[是业業]", "也": "[许許]",
}  # fmt: skip
# What is left in the texts gives a relation away, besides its own connectives: 他虽然累，但是 ..., not only ..., but.
CORRELATES = {"cause": "result", "result": "cause", "contrast": "concession", "concession": "contrast"}
GIVEAWAYS = {"contrast": "虽|雖|固然|诚然|誠然|一方面|on the one hand|not only|not just"}
NEEDED = {"只有": "才"}  # in the main clause, or it is no connective: 只有三个人来
LATER = ("因为", "因為")  # after a comma, what is before it is the main clause: 他们没去，因为下雨，路滑
# The first text of a connective within a sentence does not end with them. These are cut off:
DANGLING = re.compile(
    r"[\s,;]+(?:largely|mainly|mostly|partly|partially|primarily|chiefly|only|just|simply|merely|probably|perhaps|"
    r"possibly|presumably|precisely|especially|particularly|even|in part|[(\[—–-])$"
)
# After these, it is no text that the connective connects: `it is because ...`, `he came, and although ...`.
UNFINISHED = re.compile(
    r"(?:^|[\s,;(])(?:and|or|but|that|which|who|as|than|not|if|when|where|while|of|to|for|in|on|by|with|from|at|the|an?|"
    r"is|are|was|were|be|been|being|am|has|have|had|will|would|can|could|may|might|must|should|shall|it’s|it's)$"
)
FEWEST = 2  # words, or ideographs, of a text
AFTER = "[,，、:：]?"
NO_COMMA = r"(?!\s*,)"  # `it was, therefore, late`: connects nothing within the sentence
CLAUSE = "，,；;："  # ends a Chinese clause


@dataclass(frozen=True, kw_only=True)
class Connected:
    """A connective that was found, and the texts it connects: the sentence of each, and its characters from and to."""

    relation: int  # number in RELATIONS
    connective: int  # number in CONNECTIVES
    first: tuple[int, int, int]
    second: tuple[int, int, int]

    def shifted(self, sentences: int) -> Self:
        """The same among more sentences, with this number of them before."""
        first, second = ((number + sentences, begin, end) for number, begin, end in (self.first, self.second))
        return replace(self, first=first, second=second)


def bare(connective: str) -> str:
    """Without the punctuation before it."""
    return connective.lstrip(",; ")


def inventory(*lists: dict[str, str]) -> dict[str, str]:
    """The relation of each connective, as it is written in the lists."""
    return {text: relation for found in lists for relation, texts in found.items() for text in texts.split("|")}


CONNECTIVES = tuple(dict.fromkeys(map(bare, inventory(OPENING, INNER, FRONTED))))
HAN_LETTER = re.compile(f"[{HAN}]")


def is_chinese(connective: str) -> bool:
    return HAN_LETTER.match(bare(connective)) is not None


def any_of(texts: Sequence[str]) -> str:
    """A pattern of these connectives, the longest first; English ones are whole words."""
    return "|".join(pattern_of(text) for text in sorted(texts, key=len, reverse=True))


def pattern_of(text: str) -> str:
    words = bare(text)
    after = NOT_BEFORE.get(words)
    if is_chinese(text):
        return words + (f"(?!{after})" if after else "")
    whole = r"\s+".join(words.split())
    return rf"\b{whole}\b(?![-’'])" + (rf"(?!\s*(?:{after})\b)" if after else "")


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """How the connectives of each place are found in a sentence."""
    opening, fronted, answering = OPENING_OF, FRONTED_OF, ANSWERING.split("|")
    return {
        "opening": re.compile(rf"\s*[“\"]?(?P<word>{any_of(list(opening))}){AFTER}"),
        "fronted": re.compile(rf"\s*[“\"]?(?P<word>{any_of(list(fronted))})"),
        "answering": re.compile(rf"\s*(?:{any_of(answering)}){AFTER}"),
        "comma": re.compile("[,，]"),
    }


@cache
def inner_patterns() -> dict[str, re.Pattern[str]]:
    """How those within a sentence are found, by the punctuation before them; fast, as each begins with a character."""
    english = [text for text in INNER_OF if not is_chinese(text)]
    chinese = [text for text in (*OPENING_OF, *INNER_OF) if is_chinese(text)]
    of_mark = {mark: [bare(text) for text in english if text.startswith(mark)] for mark in (", ", "; ")}
    return {
        "": re.compile(rf"\s(?P<word>{any_of([text for text in english if bare(text) == text])}){NO_COMMA}"),
        ", ": re.compile(rf",\s+(?P<word>{any_of(of_mark[', '])}){NO_COMMA}"),
        "; ": re.compile(rf";\s+(?P<word>{any_of(of_mark['; '])}){AFTER}"),
        "，": re.compile(rf"[{CLAUSE}]\s*(?P<word>{any_of(chinese)}){AFTER}"),
    }


@cache
def of_relation(relation: str) -> re.Pattern[str]:
    """Whatever gives it away, wherever it stands: its connectives, and those that go together with them."""
    among = (relation, CORRELATES.get(relation))
    texts = {bare(text) for text, its in inventory(OPENING, INNER, FRONTED).items() if its in among}
    texts |= {text for text, its in FRONTED_OF.items() if its in among}
    return re.compile(any_of(sorted(texts | set(filter(None, GIVEAWAYS.get(relation, "").split("|"))))))


OPENING_OF, INNER_OF, FRONTED_OF = inventory(OPENING), inventory(INNER), inventory(FRONTED)
NUMBER = {text: number for number, text in enumerate(CONNECTIVES)}


def connected(sentences: Sequence[str]) -> Iterator[Connected]:
    """What connectives connect in the sentences of a document: at most one of each sentence."""
    sentences = [lowered(sentence) for sentence in sentences]
    for number, sentence in enumerate(sentences):
        found = in_fronted(sentence, number) or in_opening(sentences, number) or in_inner(sentence, number)
        if found and is_usable(found, sentences):
            yield found


def lowered(text: str) -> str:
    """In lower case; a text whose length would change by it (\u0130) is left as it is."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def as_written(match: re.Match[str], group: str = "word") -> str:
    """The connective as the inventory writes it."""
    return " ".join(match[group].split())


def in_fronted(sentence: str, number: int) -> Connected | None:
    """`Because it rained, they stayed.`: first they stayed, second it rained."""
    match = patterns()["fronted"].match(sentence)
    return with_main_after(match, sentence, number) if match else None


def with_main_after(match: re.Match[str], sentence: str, number: int) -> Connected | None:
    """A connective that opens a clause with its main clause after the next comma; None if there is no such comma."""
    comma = patterns()["comma"].search(sentence, match.end())
    text = as_written(match)
    if not comma or NEEDED.get(text, "") not in sentence[comma.end() :]:
        return None
    answer = patterns()["answering"].match(sentence, comma.end())
    return Connected(
        relation=RELATIONS.index(FRONTED_OF[text]),
        connective=NUMBER[text],
        first=(number, answer.end() if answer else comma.end(), len(sentence)),
        second=(number, match.end(), comma.start()),
    )


def in_opening(sentences: Sequence[str], number: int) -> Connected | None:
    """`It rained. Therefore, they stayed.`: first it rained, second they stayed."""
    match = patterns()["opening"].match(sentences[number])
    if not match or not number:
        return None
    text = as_written(match)
    return Connected(
        relation=RELATIONS.index(OPENING_OF[text]),
        connective=NUMBER[text],
        first=(number - 1, 0, len(sentences[number - 1])),
        second=(number, match.end(), len(sentences[number])),
    )


def in_inner(sentence: str, number: int) -> Connected | None:
    """`They stayed because it rained.`: first they stayed, second it rained."""
    found = {mark: match for mark, one in inner_patterns().items() if (match := one.search(sentence))}
    if not found:
        return None
    mark, match = min(found.items(), key=lambda item: item[1].start("word"))
    text = as_written(match)
    if mark == "，" and text in FRONTED_OF and (text not in LATER or is_answered(match, sentence)):
        fronted = with_main_after(match, sentence, number)  # 他很累，如果下雨，他不去: what is before is another clause
        if fronted is not None:
            return fronted
    relation = INNER_OF.get(f"{mark}{text}") or INNER_OF.get(text) or OPENING_OF[text]
    before = DANGLING.sub("", sentence[: match.start()].rstrip(" ,;")).rstrip(" ,;")
    if UNFINISHED.search(before) or is_inserted(match, sentence):
        return None
    return Connected(
        relation=RELATIONS.index(relation),
        connective=NUMBER[text],
        first=(number, 0, len(before)),
        second=(number, match.end(), len(sentence)),
    )


def is_answered(match: re.Match[str], sentence: str) -> bool:
    """Does a connective after the next comma repeat its relation?"""
    comma = patterns()["comma"].search(sentence, match.end())
    return comma is not None and patterns()["answering"].match(sentence, comma.end()) is not None


def is_inserted(match: re.Match[str], sentence: str) -> bool:
    """Does its clause stand between commas, within another one? `The king, although old, went there.`"""
    after_comma = sentence[: match.start("word")].rstrip().endswith(",")
    return after_comma and as_written(match) in FRONTED_OF and "," in sentence[match.end() :]


def is_usable(found: Connected, sentences: Sequence[str]) -> bool:
    """Both texts are long enough, and neither has anything that gives the relation away."""
    texts = [sentences[number][begin:end] for number, begin, end in (found.first, found.second)]
    expressed = of_relation(RELATIONS[found.relation])
    return all(len(WORD.findall(text)) >= FEWEST and not expressed.search(text) for text in texts)
