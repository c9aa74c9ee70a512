"""Orders and similarities by the words that texts share: what a network has to beat."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from plmkit.data.text import WORD

SATURATION, LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25 (Robertson & Zaragoza, 2009, 3.4)
MARK = re.compile(r"[^\w]")


def words_in(text: str) -> list[str]:
    """Its words in lower case, without punctuation; an ideograph is a word."""
    return [word for word in WORD.findall(text.lower()) if not MARK.fullmatch(word)]


class BM25:
    """Okapi BM25 of texts for a query, with the frequencies of words in a collection."""

    def __init__(self, collection: Sequence[str]) -> None:
        found = [set(words_in(text)) for text in collection]
        self.containing = Counter(word for words in found for word in words)
        self.texts = len(collection)
        self.mean_length = sum(len(words_in(text)) for text in collection) / max(1, len(collection))

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """(texts,)."""
        wanted = set(words_in(query))
        return np.array([self.score(wanted, words_in(text)) for text in texts])

    def score(self, wanted: set[str], words: Sequence[str]) -> float:
        long = 1 - LENGTH_SHARE + LENGTH_SHARE * len(words) / max(1.0, self.mean_length)
        counts = Counter(word for word in words if word in wanted)
        return math.fsum(
            self.rarity(word) * count * (SATURATION + 1) / (count + SATURATION * long) for word, count in counts.items()
        )

    def rarity(self, word: str) -> float:
        """Its inverse document frequency, never below 0 (as in Lucene)."""
        containing = self.containing[word]
        return math.log(1 + (self.texts - containing + 0.5) / (containing + 0.5))


def tfidf_vectors(texts: Sequence[str], others: Sequence[str]) -> tuple[Any, Any]:
    """Sparse matrices (texts, words) of unit length, with frequencies of both lists together."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    made = TfidfVectorizer(analyzer=words_in, sublinear_tf=True).fit([*texts, *others, "a"])
    return made.transform(texts), made.transform(others)


def tfidf_cosines(texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """(pairs,) the cosine of the two texts of each pair."""
    first, second = tfidf_vectors(texts, others)
    return np.asarray(first.multiply(second).sum(1)).ravel()
