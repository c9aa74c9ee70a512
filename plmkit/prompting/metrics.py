"""How close generated answers are to the expected ones: exact match, F1, ROUGE-L, BLEU."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from plmkit.data.text import WORD


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def plain(text: str) -> str:
    """Lower case, without articles and punctuation (Rajpurkar et al., 2016)."""
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact(predicted: Sequence[str], expected: Sequence[str]) -> float:
    return sum(plain(a) == plain(b) for a, b in zip(predicted, expected, strict=True)) / len(predicted)


def f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Mean over the answers of the harmonic mean of precision and recall of words."""
    return sum(overlap(words(plain(a)), words(plain(b))) for a, b in zip(predicted, expected, strict=True)) / len(
        predicted
    )


def overlap(predicted: Sequence[str], expected: Sequence[str]) -> float:
    return harmonic(sum((Counter(predicted) & Counter(expected)).values()), len(predicted), len(expected))


def harmonic(shared: int, predicted: int, expected: int) -> float:
    if not predicted or not expected:
        return float(predicted == expected)
    return 2 * shared / (predicted + expected)


def rouge_l(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Mean F1 of the longest common subsequence of words (Lin, 2004)."""
    pairs = [(words(a), words(b)) for a, b in zip(predicted, expected, strict=True)]
    return sum(harmonic(longest_common_subsequence(a, b), len(a), len(b)) for a, b in pairs) / len(pairs)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    best = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, start=1):
            before, best[place] = best[place], before + 1 if word == other else max(best[place], best[place - 1])
    return best[-1]


def bleu(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Corpus BLEU with n-grams up to 4, add-one smoothing from bigrams on (Papineni et al., 2002)."""
    pairs = [(words(a), words(b)) for a, b in zip(predicted, expected, strict=True)]
    mine, theirs = sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)
    if not mine:
        return 0.0
    logs = 0.0
    for size in range(1, 5):
        counts = [(ngrams(a, size), ngrams(b, size)) for a, b in pairs]
        shared = sum(sum((a & b).values()) for a, b in counts)
        total = sum(sum(a.values()) for a, _ in counts)
        extra = 0 if size == 1 else 1
        if shared + extra == 0:
            return 0.0
        logs += math.log((shared + extra) / (total + extra)) / 4
    return math.exp(logs + min(0.0, 1 - theirs / mine))


def ngrams(tokens: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[place : place + size]) for place in range(len(tokens) - size + 1))


METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
    "exact": exact,
    "f1": f1,
    "rouge_l": rouge_l,
    "bleu": bleu,
}
