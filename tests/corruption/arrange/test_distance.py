"""Pairs of texts: adjacent, apart in one document, or of two documents, by construction."""

import re

import numpy as np
import pytest
from stores import all_documents, document_of, random_store, store_of

from plmkit.corruption.arrange.distance import ADJACENT, APART, DIFFERENT, DistancePairs
from plmkit.data.randomness import generator
from plmkit.errors import InputError

STORE = random_store(500, (20, 60), (5, 30))


def plan_of(store=STORE, length: int = 128, documents=None, seed: int = 0, **settings):
    some = all_documents(store) if documents is None else np.array(documents)
    plan = DistancePairs(**settings).plan(store, some, length, generator(seed))
    return plan, plan.labels["distance"]


def test_labels_are_what_the_texts_are():
    plan, labels = plan_of(length=100_000, short=1.0)  # nothing is cut, and rows are of any length
    begin_a, end_a, begin_b, _ = plan.stretches.T
    first, second = document_of(STORE, begin_a), document_of(STORE, begin_b)
    assert (first != second)[labels == DIFFERENT].all()
    assert (first == second)[labels != DIFFERENT].all()
    assert (end_a == begin_b)[labels == ADJACENT].all()
    between = np.searchsorted(STORE.sentences, begin_b) - np.searchsorted(STORE.sentences, end_a)
    assert (between >= 1)[labels == APART].all()  # a sentence or more, in the order of the text
    assert set(labels.tolist()) == {ADJACENT, APART, DIFFERENT}


def test_a_fixture():
    """Two documents of three sentences of one token: the first and the third sentence are apart, others adjacent."""
    store = store_of([1, 1, 1], [1, 1, 1])
    seen = set()
    for seed in range(60):
        plan, labels = plan_of(store, length=5, short=0.0, seed=seed)
        seen |= {(*row[[0, 2]].tolist(), label) for row, label in zip(plan.stretches, labels.tolist(), strict=True)}
    assert {(a, b) for a, b, label in seen if label == APART} == {(0, 2), (3, 5)}
    assert {(a, b) for a, b, label in seen if label == ADJACENT} == {(0, 1), (1, 2), (3, 4), (4, 5)}
    assert {(a < 3) != (b < 3) for a, b, label in seen if label == DIFFERENT} == {True}


def test_each_distance_is_a_third_of_the_rows():
    plan, labels = plan_of()
    assert len(plan) > 3000
    assert np.bincount(labels) / len(labels) == pytest.approx([1 / 3] * 3, abs=0.03)


def test_each_distance_is_a_third_of_the_rows_of_documents_that_are_as_short_as_can_be():
    """Of three sentences, only the first and the last are apart."""
    store = random_store(3000, (3, 4), (5, 30))
    _, labels = plan_of(store)
    assert np.bincount(labels) / len(labels) == pytest.approx([1 / 3] * 3, abs=0.04)
    assert not list(DistancePairs().notes(store, all_documents(store), 128))


def test_shares_that_are_far_from_a_third_are_remarked():
    store = store_of(*([5] * (1 + number % 2) for number in range(600)), *([[5, 5, 5]] * 200))
    _, labels = plan_of(store)
    shares = np.bincount(labels) / len(labels)
    (said,) = DistancePairs().notes(store, all_documents(store), 128)
    assert said.endswith("not a third each: 600 of 800 documents have fewer than 3 sentences.")
    found = [int(share) / 100 for share in re.findall(r"(\d+)%", said)]
    assert found == pytest.approx(shares[[ADJACENT, APART, DIFFERENT]].tolist(), abs=0.05)
    assert shares[DIFFERENT] > 0.5


def test_the_lengths_do_not_tell_the_distance():
    plan, labels = plan_of(short=0.0)
    second = plan.stretches[:, 3] - plan.stretches[:, 2]
    means = [second[labels == label].mean() for label in (ADJACENT, APART, DIFFERENT)]
    assert max(means) - min(means) < 0.2 * np.mean(means)


def test_rows_fit_and_neither_text_is_empty():
    plan, _ = plan_of(length=48)
    sizes = plan.stretches[:, 1::2] - plan.stretches[:, ::2]
    assert (sizes > 0).all()
    assert (sizes.sum(axis=1) <= 45).all()


def test_what_is_said_to_be_of_two_documents_never_is_of_one():
    """With a single document, held out for example, there is no such pair."""
    _, labels = plan_of(documents=[7])
    assert set(labels.tolist()) == {ADJACENT, APART}
    two, labels = plan_of(store_of([3] * 40, [4] * 40), length=20)
    assert ((two.stretches[:, 0] < 120) != (two.stretches[:, 2] < 120))[labels == DIFFERENT].all()


def test_a_text_without_such_documents_is_refused():
    says = "at least two documents, one of them with at least 3 sentences; found 2 with at most 2"
    with pytest.raises(InputError, match=says):
        DistancePairs().check(store_of([5, 5], [5, 5]), np.arange(2), "a.txt, line 1")
    with pytest.raises(InputError, match="found 1 with at most 3"):
        DistancePairs().check(store_of([5, 5, 5]), np.arange(1), "a.txt, line 1")
    DistancePairs().check(store_of([5, 5, 5], [5]), np.arange(2), "a.txt, line 1")
