"""How near a written answer is to the expected one."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from plmkit.data.characters import HAN

WORD = re.compile(rf"[{HAN}]|[^\W{HAN}]+|[^\w\s]")  # ideographs count alone


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def plain(text: str) -> str:
    """Lower case, without articles and punctuation (Rajpurkar et al., 2016)."""
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact(said: Sequence[str], wanted: Sequence[str]) -> float:
    return sum(plain(a) == plain(b) for a, b in zip(said, wanted, strict=True)) / len(said)


def f1(said: Sequence[str], wanted: Sequence[str]) -> float:
    """Mean over the answers of the harmonic mean of how many words are right and how many were found."""
    return sum(overlap(words(plain(a)), words(plain(b))) for a, b in zip(said, wanted, strict=True)) / len(said)


def overlap(said: Sequence[str], wanted: Sequence[str]) -> float:
    return harmonic(sum((Counter(said) & Counter(wanted)).values()), len(said), len(wanted))


def harmonic(shared: int, said: int, wanted: int) -> float:
    if not said or not wanted:
        return float(said == wanted)
    return 2 * shared / (said + wanted)


def rouge_l(said: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 of the longest words in common that keep their order (Lin, 2004)."""
    pairs = [(words(a), words(b)) for a, b in zip(said, wanted, strict=True)]
    return sum(harmonic(in_order(a, b), len(a), len(b)) for a, b in pairs) / len(pairs)


def in_order(first: Sequence[str], second: Sequence[str]) -> int:
    best = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, start=1):
            before, best[place] = best[place], before + 1 if word == other else max(best[place], best[place - 1])
    return best[-1]


def bleu(said: Sequence[str], wanted: Sequence[str]) -> float:
    """Of the whole file, up to four words, smoothed by one from the second on (Papineni et al., 2002)."""
    pairs = [(words(a), words(b)) for a, b in zip(said, wanted, strict=True)]
    mine, theirs = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    if not mine:
        return 0.0
    logs = 0.0
    for size in range(1, 5):
        counts = [(grams(a, size), grams(b, size)) for a, b in pairs]
        shared = sum(sum((a & b).values()) for a, b in counts)
        total = sum(sum(a.values()) for a, _ in counts)
        extra = 0 if size == 1 else 1
        if shared + extra == 0:
            return 0.0
        logs += math.log((shared + extra) / (total + extra)) / 4
    return math.exp(logs + min(0.0, 1 - theirs / mine))


def grams(tokens: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[place : place + size]) for place in range(len(tokens) - size + 1))


MEASURES: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
    "exact": exact,
    "f1": f1,
    "rouge_l": rouge_l,
    "bleu": bleu,
}
