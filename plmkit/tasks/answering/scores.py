"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1, SQuAD 2.0 and CMRC 2018 compute them."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
CHINESE = re.compile("[\u4e00-\u9fa5]")
# what CMRC's script ignores: these and no other marks, so that `,` and `…` count
CMRC_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")


MERGED = frozenset({"cannot", "gimme", "gonna", "gotta", "lemme", "wanna"})  # Treebank divides these words


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How well one answer agrees with the reference answers."""

    exact: float
    f1: float
    answerable: bool = True  # the question has an answer


def is_chinese(text: str) -> bool:
    """Whether CMRC's script is the one to score with."""
    return CHINESE.search(text) is not None


# English: Rajpurkar et al., 2016 and 2018


def normalised(answer: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def overlap(found: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two bags of words."""
    same = sum((Counter(found) & Counter(gold)).values())
    if same == 0:
        return 0.0
    precision, recall = 1.0 * same / len(found), 1.0 * same / len(gold)
    return 2 * precision * recall / (precision + recall)


def judged_v1(answer: str, gold: Sequence[str]) -> Judged:
    """By SQuAD 1.1: every question has an answer."""
    found = normalised(answer)
    pairs = [(found, normalised(one)) for one in gold]
    return Judged(
        exact=max(float(mine == true) for mine, true in pairs),
        f1=max(overlap(mine.split(), true.split()) for mine, true in pairs),
    )


def judged_v2(answer: str, gold: Sequence[str]) -> Judged:
    """By SQuAD 2.0: where there is no answer, only an empty one is right."""
    kept = [true for one in gold if (true := normalised(one))] or [""]
    found = normalised(answer)

    def f1(true: str) -> float:
        return overlap(found.split(), true.split()) if found and true else float(found == true)

    return Judged(exact=max(float(found == true) for true in kept), f1=max(map(f1, kept)), answerable=bool(gold))


# Chinese: Cui et al., 2019


@lru_cache(maxsize=1 << 16)
def words_of(text: str) -> list[str]:
    """By Treebank's rules, as nltk has them; without its division into sentences, which needs a download."""
    words = text.split()
    if all(word.isalnum() and word not in MERGED for word in words):  # nothing to divide
        return words
    from nltk.tokenize import NLTKWordTokenizer  # slow to import, and rarely needed

    return list(NLTKWordTokenizer().tokenize(text))


def cmrc_units(text: str) -> list[str]:
    """Chinese characters, and the words between them."""
    units: list[str] = []
    for part in re.split(f"({CHINESE.pattern})", without_marks(text)):
        units += [part] if CHINESE.fullmatch(part) else words_of(part)
    return units


def without_marks(text: str) -> str:
    return "".join(letter for letter in text.lower().strip() if letter not in CMRC_MARKS)


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest run that both have."""
    letters = {unit: chr(number) for number, unit in enumerate(dict.fromkeys((*one, *other)))}
    mine, theirs = ("".join(letters[unit] for unit in units) for units in (one, other))  # searched as strings: faster
    longest = 0
    for start in range(len(mine)):
        while start + longest < len(mine) and mine[start : start + longest + 1] in theirs:
            longest += 1
    return longest


def judged_cmrc(answer: str, gold: Sequence[str]) -> Judged:
    """By CMRC 2018: F1 of the longest common run; where there is no answer, as SQuAD 2.0."""
    if not gold:
        return Judged(exact=float(not answer), f1=float(not answer), answerable=False)
    found = cmrc_units(answer)
    scores = []
    for one in gold:
        true = cmrc_units(one)
        same = longest_common(true, found)
        precision, recall = (1.0 * same / len(found), 1.0 * same / len(true)) if same else (0.0, 0.0)
        scores.append(2 * precision * recall / (precision + recall) if same else 0.0)
    bare = without_marks(answer)
    return Judged(exact=max(float(without_marks(one) == bare) for one in gold), f1=max(scores))


# Whole files, in the official form: percentages under the official names

Gold = Mapping[str, Sequence[str]]  # reference answers by the id of their question; none if it has no answer


def squad_v1(predictions: Mapping[str, str], gold: Gold) -> dict[str, float]:
    """As evaluate-v1.1.py; a question without a prediction counts as wrong."""
    judged = [judged_v1(predictions[name], answers) for name, answers in gold.items() if name in predictions]
    exact, f1 = sum(one.exact for one in judged), sum(one.f1 for one in judged)
    return {"exact_match": 100.0 * exact / len(gold), "f1": 100.0 * f1 / len(gold)}


def squad_v2(
    predictions: Mapping[str, str], gold: Gold, null: Mapping[str, float] | None = None, threshold: float = 1.0
) -> dict[str, float]:
    """As evaluate-v2.0.py; with `null`, a question whose number is above the threshold gets no answer."""
    judged = {name: judged_v2(predictions[name], answers) for name, answers in gold.items() if name in predictions}
    given = null or dict.fromkeys(judged, 0.0)
    decided = {name: refused(one) if given[name] > threshold else one for name, one in judged.items()}
    scores = means("", list(decided.values()))
    for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
        if some := [one for one in decided.values() if one.answerable == wanted]:
            scores |= means(prefix, some)
    if null is not None:
        names = list(judged)
        answered = [bool(predictions[name]) for name in names]
        for measure in ("exact", "f1"):
            best, where = best_threshold([judged[name] for name in names], [null[name] for name in names],
                                         answered, measure)  # fmt: skip
            scores |= {f"best_{measure}": best, f"best_{measure}_thresh": where}
    return scores


def refused(one: Judged) -> Judged:
    """The same question, left without an answer."""
    right = float(not one.answerable)
    return Judged(exact=right, f1=right, answerable=one.answerable)


def means(prefix: str, judged: Sequence[Judged]) -> dict[str, float]:
    count = len(judged)
    exact, f1 = sum(one.exact for one in judged), sum(one.f1 for one in judged)
    return {f"{prefix}exact": 100.0 * exact / count, f"{prefix}f1": 100.0 * f1 / count, f"{prefix}total": count}


def best_threshold(
    judged: Sequence[Judged], null: Sequence[float], answered: Sequence[bool], measure: str
) -> tuple[float, float]:
    """The highest score that any threshold gives, in percent, and the lowest such threshold."""
    score = float(sum(not one.answerable for one in judged))  # that of no answer to any question
    best, where = score, 0.0
    for number in sorted(range(len(judged)), key=lambda number: null[number]):
        one = judged[number]
        score += vars(one)[measure] if one.answerable else -float(answered[number])
        if score > best:
            best, where = score, null[number]
    return 100.0 * best / len(judged), where


def cmrc(predictions: Mapping[str, str], gold: Gold) -> dict[str, float]:
    """As cmrc2018_evaluate.py; a question without a prediction counts as wrong."""
    judged = [judged_cmrc(predictions[name], answers) for name, answers in gold.items() if name in predictions]
    f1, exact = sum(one.f1 for one in judged), sum(one.exact for one in judged)
    scores = {"F1": 100.0 * f1 / len(gold), "EM": 100.0 * exact / len(gold)}
    return {"AVERAGE": (scores["EM"] + scores["F1"]) * 0.5, **scores, "TOTAL": len(gold),
            "SKIP": len(gold) - len(judged)}  # fmt: skip
