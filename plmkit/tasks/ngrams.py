"""N-grams of rows, weighted by TF-IDF: what a linear model reads, and the head of a network beside its states."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from plmkit.errors import FolderError
from plmkit.language import tr
from plmkit.storage.files import read_json, write_text
from plmkit.tasks.framing import Texts
from plmkit.training.run_folder import NGRAMS

MOST = 1 << 20  # n-grams that are kept, the most frequent ones
WEIGHTS = 1 << 22  # of n-grams, one per output: with many classes, fewer n-grams are kept
CROWD = 2  # times as many are counted at once; then the rarest are forgotten, to save memory
CHARACTERS = (1, 3)  # lengths of n-grams in Chinese and other text without spaces
WORDS, WITHIN = (1, 2), (3, 5)  # lengths of n-grams of words, and of characters within words
CERTAIN = 20.0  # the logit of a class that all training rows have
WORD = re.compile(r"\w+|[^\w\s]")
UNSPACED = re.compile(r"[぀-ヿ㐀-䶿一-鿿豈-﫿]")
MANY = 0.3  # share of such characters from which a text counts as written without spaces


@dataclass(frozen=True, kw_only=True)
class Ngrams:
    """The n-grams of training rows, and in how many rows each occurs."""

    unspaced: bool  # n-grams of characters alone, as there are no spaces between words
    rows: int  # training rows
    counts: dict[str, int]  # rows that contain each n-gram

    @classmethod
    def of(cls, rows: Sequence[Texts], outputs: int = 1) -> Self:
        most = min(MOST, WEIGHTS // outputs)
        texts = [text for row in rows for text in row if text]
        unspaced = sum(len(UNSPACED.findall(text)) for text in texts) > MANY * sum(map(len, texts))
        counted: Counter[str] = Counter()
        for row in rows:
            # in the order of the text, not of a set: every process must number them alike
            counted.update(dict.fromkeys((name for block in blocks_of(row, unspaced) for name in block), 1))
            if len(counted) > CROWD * MOST:
                counted = Counter(dict(counted.most_common(MOST)))
        return cls(unspaced=unspaced, rows=len(rows), counts=dict(counted.most_common(most)))

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.counts)}

    @cached_property
    def idf(self) -> np.ndarray:
        """Inverse document frequency, smoothed as if one more row had every n-gram."""
        return np.log((1 + self.rows) / (1 + np.array(list(self.counts.values())))) + 1

    def vector(self, row: Texts) -> "Vector":
        """Sublinear TF-IDF; the n-grams of each kind together have length 1."""
        numbers: list[int] = []
        weights: list[np.ndarray] = []
        for block in blocks_of(row, self.unspaced):
            known = {number: count for name, count in block.items() if (number := self.numbers.get(name)) is not None}
            if known:
                values = (1 + np.log(list(known.values()))) * self.idf[list(known)]
                numbers += known
                weights.append(values / math.sqrt(values @ values))
        return Vector(
            numbers=np.array(numbers, dtype=np.int32),  # half the memory: there is one per n-gram of every row
            weights=np.concatenate([*weights, np.zeros(0)]).astype(np.float32),
        )

    def as_json(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Vector:
    """The n-grams of a row."""

    numbers: np.ndarray  # (K,)
    weights: np.ndarray  # (K,)


@dataclass(frozen=True, kw_only=True)
class LinearModel:
    """Weights of n-grams that give one logit per class, or a number."""

    weight: np.ndarray  # (n-grams, outputs)
    bias: np.ndarray  # (outputs,)
    strength: float

    def answers(self, matrix: sparse.csr_matrix) -> Tensor:
        """(rows, outputs)."""
        return torch.from_numpy(matrix @ self.weight + self.bias).float()


def logistic(
    matrix: sparse.csr_matrix, targets: np.ndarray, strength: float, weights: np.ndarray | None = None
) -> LinearModel:  # fmt: skip
    """Logistic regression of one class against the rest; certain of a class that all rows have, or none.

    `weights`, (rows,), say how much each row counts.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import

    if targets.all() or not targets.any():
        certain = CERTAIN if targets.all() else -CERTAIN
        weight, bias = np.zeros((matrix.shape[1], 1)), np.array([certain])
    else:
        found = LogisticRegression(C=strength, solver="liblinear").fit(matrix, targets, weights)
        weight, bias = found.coef_.T, found.intercept_
    return LinearModel(weight=weight.astype(np.float32), bias=bias.astype(np.float32), strength=strength)


def all_outputs(models: Sequence[LinearModel]) -> LinearModel:
    """Models with one output each as one with all of them."""
    weight = np.concatenate([model.weight for model in models], axis=1)
    return LinearModel(
        weight=weight, bias=np.concatenate([model.bias for model in models]), strength=models[0].strength
    )


def matrix_of(vectors: Sequence[Vector], width: int) -> sparse.csr_matrix:
    """(rows, n-grams)."""
    ends = np.cumsum([0, *(len(vector.numbers) for vector in vectors)])
    numbers = np.concatenate([vector.numbers for vector in vectors])
    weights = np.concatenate([vector.weights for vector in vectors])
    return sparse.csr_matrix((weights, numbers, ends), shape=(len(vectors), width))


def padded(vectors: Sequence[Vector]) -> tuple[Tensor, Tensor]:
    """(rows, K) numbers and weights; 0 where a row has fewer."""
    width = max(1, *(len(vector.numbers) for vector in vectors))
    numbers, weights = np.zeros((len(vectors), width), np.int64), np.zeros((len(vectors), width), np.float32)
    for place, vector in enumerate(vectors):
        numbers[place, : len(vector.numbers)] = vector.numbers
        weights[place, : len(vector.weights)] = vector.weights
    return torch.from_numpy(numbers), torch.from_numpy(weights)


def blocks_of(row: Texts, unspaced: bool) -> Iterator[Counter[str]]:
    """The n-grams of a row by kind, with their counts; of a pair, those of both texts and those of one alone."""
    text, second = row
    first = list(kinds_of(text, unspaced))
    if second is None:
        yield from first
        return
    for one, other in zip(first, kinds_of(second, unspaced), strict=True):
        yield Counter({f"= {name}": min(one[name], other[name]) for name in one if name in other})
        yield Counter({f"< {name}": one[name] for name in one if name not in other})
        yield Counter({f"> {name}": other[name] for name in other if name not in one})


def kinds_of(text: str, unspaced: bool) -> Iterator[Counter[str]]:
    text = text.lower()
    if unspaced:
        yield Counter(runs("".join(text.split()), CHARACTERS))
        return
    words = WORD.findall(text)
    yield Counter(
        " ".join(words[start : start + n]) for n in range(*around(WORDS)) for start in range(len(words) - n + 1)
    )
    yield Counter(f"{part}…" for word in text.split() for part in runs(f" {word} ", WITHIN))


def runs(text: str, lengths: tuple[int, int]) -> Iterator[str]:
    """All runs of characters of these lengths; the text itself if it is shorter."""
    if len(text) < lengths[0]:
        yield from [text] if text else []
    for n in range(*around(lengths)):
        yield from (text[start : start + n] for start in range(len(text) - n + 1))


def around(lengths: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a range over both lengths and those between."""
    return lengths[0], lengths[1] + 1


def save_ngrams(folder: Path, tasks: Mapping[str, Ngrams]) -> None:
    """The n-grams of tasks, by the names of the tasks; none leave no file."""
    if tasks:
        write_text(
            folder / NGRAMS, json.dumps({name: made.as_json() for name, made in tasks.items()}, ensure_ascii=False)
        )
    else:
        (folder / NGRAMS).unlink(missing_ok=True)


def load_ngrams(folder: Path) -> dict[str, Ngrams]:
    """The n-grams of the tasks of a folder."""
    path = folder / NGRAMS
    if not path.is_file():
        return {}
    try:
        return {name: Ngrams(**record) for name, record in read_json(path).items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise FolderError(
            tr("{folder} is damaged ({error}). Copy the folder again.", folder=path, error=error)
        ) from error
