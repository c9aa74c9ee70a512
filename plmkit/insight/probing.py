"""What the layers of a model know of words: a linear probe of tags, nearest neighbours of senses."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plmkit.errors import InputError
from plmkit.insight.tagged import Tagged
from plmkit.insight.word_states import word_states
from plmkit.language import tr
from plmkit.vectors.word_vectors import unit

if TYPE_CHECKING:
    from plmkit.inference.reader import Reader
    from plmkit.terminal.screen import Screen

HELD_OUT = 0.2  # of the sentences, without a test file
RESAMPLES = 200  # of the test sentences, for the standard deviation
ITERATIONS = 100  # of the linear probe, at most


@dataclass(frozen=True, kw_only=True)
class LayerScore:
    """The score of one layer; 0 is the embeddings."""

    layer: int
    score: float
    deviation: float  # standard deviation over resampled test sentences


@dataclass(frozen=True, kw_only=True)
class Probed:
    """Scores by layer."""

    model: str
    metric: str  # accuracy of tags, f1 of senses
    baseline: float  # the most frequent tag; or, of each lemma, its first sense
    scores: tuple[LayerScore, ...]
    train_words: int
    test_words: int

    @property
    def best(self) -> LayerScore:
        return max(self.scores, key=lambda one: one.score)


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Words with their answers, and their states at the layers that are probed."""

    layers: tuple[np.ndarray, ...]  # (N, width) each
    answers: tuple[tuple[str, ...], ...]
    lemmas: tuple[str, ...]
    sentences: np.ndarray  # (N,)


def probe(
    model: Reader, train: Sequence[Tagged], test: Sequence[Tagged], *, layers: Sequence[int] | None = None,
    inventory: dict[str, str] | None = None, screen: Screen | None = None,
) -> Probed:  # fmt: skip
    """Scores of the layers, all of them by default."""
    layers = range(model.architecture.layers + 1) if layers is None else layers
    known, asked = (examples_of(model, part, layers, screen) for part in (train, test))
    senses = bool(known.lemmas)
    first = {**(inventory or {}), **first_senses(known)} if senses else {}
    majority = Counter(answer[0] for answer in known.answers).most_common(1)[0][0]
    scores = []
    for number, layer in enumerate(layers):
        if senses:
            predicted = nearest_senses(known, asked, number, first)
        else:
            predicted = linear_tags(known.layers[number], [one[0] for one in known.answers], asked.layers[number])
        counted = counts_of(predicted, asked)
        scores.append(LayerScore(layer=layer, score=f1(counted), deviation=deviation(counted)))
    without = [first.get(lemma) for lemma in asked.lemmas] if senses else [majority] * len(asked.answers)
    return Probed(
        model=str(model.folder),
        metric="f1" if senses else "accuracy",
        baseline=f1(counts_of(without, asked)),
        scores=tuple(scores),
        train_words=len(known.answers),
        test_words=len(asked.answers),
    )


def split(tagged: Sequence[Tagged], seed: int = 0) -> tuple[list[Tagged], list[Tagged]]:
    """Sentences to train on, and others to test on."""
    if len(tagged) < 2:
        raise InputError(tr("One sentence cannot be split into training and test sentences. Give --test FILE."))
    order = random.Random(seed).sample(range(len(tagged)), len(tagged))
    held = set(order[: max(1, round(HELD_OUT * len(tagged)))])
    parts: tuple[list[Tagged], list[Tagged]] = ([], [])
    for number, one in enumerate(tagged):
        parts[number in held].append(one)
    return parts


def limited(tagged: Sequence[Tagged], words: int, seed: int = 0) -> list[Tagged]:
    """Random sentences with about this many answers."""
    order = random.Random(seed).sample(range(len(tagged)), len(tagged))
    total = np.cumsum([len(tagged[number].places) for number in order])
    return [tagged[number] for number in order[: int(np.searchsorted(total, words)) + 1]]


def examples_of(model: Reader, tagged: Sequence[Tagged], layers: Sequence[int], screen: Screen | None) -> Examples:
    wanted = [np.array(one.places, dtype=np.int64) for one in tagged]
    states = word_states(model, [one.sentence for one in tagged], wanted=wanted, layers=layers, screen=screen)
    if not len(states.words):
        raise InputError(tr("{folder} reads none of the words: they have no tokens.", folder=model.folder))
    pairs = list(zip(states.sentences.tolist(), states.words.tolist(), strict=True))
    places = [tagged[sentence].places.index(word) for sentence, word in pairs]
    found = [(tagged[sentence], place) for (sentence, _), place in zip(pairs, places, strict=True)]
    return Examples(
        layers=states.layers,
        answers=tuple(one.answers[place] for one, place in found),
        lemmas=tuple(one.lemmas[place] for one, place in found if one.lemmas),
        sentences=states.sentences,
    )


def linear_tags(train: np.ndarray, tags: Sequence[str], test: np.ndarray) -> list[str | None]:
    """The tags that multinomial logistic regression on standardised states predicts."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if len(set(tags)) < 2:
        raise InputError(tr("All words have the tag '{tag}': there is nothing to tell apart.", tag=tags[0]))
    mean, scale = train.mean(0), train.std(0) + 1e-6
    classifier = LogisticRegression(max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound on the iterations is part of the probe
        classifier.fit((train - mean) / scale, list(tags))
    return [str(tag) for tag in classifier.predict((test - mean) / scale)]


def first_senses(examples: Examples) -> dict[str, str]:
    """The most frequent sense of each lemma; of several, the one that comes first."""
    counts: dict[str, Counter[str]] = {}
    for lemma, answer in zip(examples.lemmas, examples.answers, strict=True):
        counts.setdefault(lemma, Counter())[answer[0]] += 1
    return {lemma: found.most_common(1)[0][0] for lemma, found in counts.items()}


def nearest_senses(train: Examples, test: Examples, layer: int, first: dict[str, str]) -> list[str | None]:
    """The sense whose mean state is nearest by cosine (Peters et al., 2018, 5.3), or the first sense of a new lemma."""
    groups: dict[str, dict[str, list[int]]] = {}
    for number, (lemma, answer) in enumerate(zip(train.lemmas, train.answers, strict=True)):
        groups.setdefault(lemma, {}).setdefault(answer[0], []).append(number)
    states = unit(test.layers[layer])
    predicted: list[str | None] = []
    for lemma, state in zip(test.lemmas, states, strict=True):
        if (senses := groups.get(lemma)) is None:
            predicted.append(first.get(lemma))
            continue
        means = np.stack([train.layers[layer][numbers].mean(0) for numbers in senses.values()])
        predicted.append(list(senses)[int((unit(means) @ state).argmax())])
    return predicted


def counts_of(predicted: Sequence[str | None], asked: Examples) -> np.ndarray:
    """(S, 3) of each sentence: right answers, answers given, words."""
    right = [answer in gold for answer, gold in zip(predicted, asked.answers, strict=True)]
    given = [answer is not None for answer in predicted]
    _, rows = np.unique(asked.sentences, return_inverse=True)
    return np.stack([np.bincount(rows, weights=kind) for kind in (right, given, np.ones(len(rows)))], axis=1)


def f1(counts: np.ndarray) -> float:
    """Harmonic mean of precision and recall; the accuracy, if every word has an answer."""
    right, given, words = counts.sum(0)
    return float(2 * right / (given + words))


def deviation(counts: np.ndarray, seed: int = 0) -> float:
    """The standard deviation of the score over samples of the sentences, with replacement."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(counts), size=(RESAMPLES, len(counts)))
    return float(np.std([f1(counts[rows]) for rows in drawn]))
