"""ERNIE's pairs: every right one, and as many wrong ones made of their halves."""

import numpy as np
import pytest
from stores import all_documents, random_store, store_of

from plmkit.corruption.arrange import pairs
from plmkit.corruption.arrange.pairs import MixedPairs
from plmkit.data.randomness import generator
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError


def plan_of(store: TokenStore, length: int = 128, seed: int = 0, **settings) -> StretchPlan:
    return MixedPairs(**settings).plan(store, all_documents(store), length, generator(seed))


def halves(plan: StretchPlan) -> tuple[np.ndarray, np.ndarray]:
    return plan.stretches[plan.labels["random_next"] == 0], plan.stretches[plan.labels["random_next"] == 1]


def test_right_pairs_stand_side_by_side_and_wrong_ones_are_their_firsts_with_the_second_of_another():
    right, wrong = halves(plan_of(random_store(200, (10, 30), (5, 40)), length=100_000))
    assert len(right) > 150
    assert (right[:, 1] == right[:, 2]).all()
    assert len(wrong) == len(right)
    assert sorted(map(tuple, wrong[:, :2].tolist())) == sorted(map(tuple, right[:, :2].tolist()))
    assert sorted(map(tuple, wrong[:, 2:].tolist())) == sorted(map(tuple, right[:, 2:].tolist()))
    assert not {*map(tuple, wrong.tolist())} & {*map(tuple, right.tolist())}


def test_wrong_pairs_that_are_longer_than_a_row_are_left_out():
    right, wrong = halves(plan_of(random_store(300, (2, 12), (5, 60)), length=64))
    sizes = (wrong[:, 1::2] - wrong[:, ::2]).sum(axis=1)
    assert sizes.max() <= 61
    assert 0.4 * len(right) < len(wrong) < len(right)
    assert (right[:, 1::2] - right[:, ::2]).sum(axis=1).max() == 61


def test_second_texts_are_exchanged_among_a_thousand_pairs(monkeypatch):
    monkeypatch.setattr(pairs, "BUFFER", 4)
    right, wrong = halves(plan_of(store_of(*([[9, 9]] * 10)), short=0.0))
    assert len(right) == len(wrong) == 10
    places = {tuple(second): number for number, second in enumerate(right[:, 2:].tolist())}
    firsts = {tuple(first): number for number, first in enumerate(right[:, :2].tolist())}
    taken = [(firsts[tuple(pair[:2])], places[tuple(pair[2:])]) for pair in wrong.tolist()]
    assert all(first // 4 == second // 4 and first != second for first, second in taken)
    assert [first for first, _ in taken] != sorted(first for first, _ in taken)  # in another order than the text


def test_a_lone_sentence_makes_no_pair_and_a_lone_pair_no_wrong_one():
    plan = plan_of(store_of([9], [5, 6], [7]), short=0.0)
    assert plan.stretches.tolist() == [[9, 14, 14, 20]]
    assert plan.labels["random_next"].tolist() == [0]


def test_the_same_seed_gives_the_same_pairs():
    store = random_store(50, (4, 9), (5, 20))
    first, again, other = (plan_of(store, seed=seed).stretches for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)


def test_text_without_pairs_is_refused():
    with pytest.raises(InputError, match=r"a\.txt, line 1: none of the 2 documents has two sentences"):
        MixedPairs().check(store_of([5], [7]), np.arange(2), "a.txt, line 1")
