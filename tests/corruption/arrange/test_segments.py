"""ELECTRA's rows: two segments that follow each other, sometimes one, sometimes short."""

import numpy as np
import pytest
from stores import all_documents, document_of, random_store, store_of, times_seen

from plmkit.corruption.arrange.packing import ContiguousSegments
from plmkit.data.randomness import generator
from plmkit.errors import SettingError

LONG = store_of(*([[2] * 30_000] * 20))  # sentences of two tokens: rows come out as they were meant


def plan_of(store, length=128, seed=0, **settings):
    return ContiguousSegments(**settings).plan(store, all_documents(store), length, generator(seed))


def test_a_tenth_is_one_segment_and_a_twentieth_has_a_random_length():
    plan = plan_of(LONG)
    assert len(plan) > 9000
    begin_a, _, begin_b, end_b = plan.stretches.T
    assert (end_b == begin_b).mean() == pytest.approx(0.10, abs=0.01)
    total = end_b - begin_a
    short = total < 125
    assert short.mean() == pytest.approx(0.05, abs=0.01)
    assert total[short].min() < 10
    assert total[short].mean() == pytest.approx(63, abs=5)


def test_both_halves_are_about_as_long_and_follow_each_other():
    plan = plan_of(LONG, single=0.0, short=0.0)
    begin_a, end_a, begin_b, end_b = plan.stretches.T
    assert (end_a == begin_b).all()
    whole = end_b - begin_a == 125
    assert whole.mean() > 0.99
    assert set((end_a - begin_a)[whole].tolist()) <= {60, 61, 62, 63, 64}


def test_the_sentence_in_the_middle_goes_to_either_side_half_of_the_time():
    store = store_of(*([[20, 30, 50, 25]] * 4000))
    plan = plan_of(store, single=0.0, short=0.0)
    assert set((plan.stretches[:, 1] - plan.stretches[:, 0]).tolist()) == {50, 100}
    assert (plan.stretches[:, 1] - plan.stretches[:, 0] == 50).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("length", [5, 64, 512])
@pytest.mark.parametrize("sentences", [(1, 500), (1, 3), (20, 40)])
def test_every_token_is_seen_once_in_rows_that_fit_and_keep_to_a_document(length, sentences):
    store = random_store(100, (1, 20), sentences)
    plan = plan_of(store, length)
    assert (times_seen(store, plan) == 1).all()
    begin_a, end_a, _, end_b = plan.stretches.T
    assert (end_a > begin_a).all()
    assert (end_b - begin_a).max() <= length - 3
    assert (document_of(store, begin_a) == document_of(store, end_b - 1)).all()
    assert not plan.labels


def test_the_same_seed_gives_the_same_rows():
    first, again, other = (plan_of(LONG, seed=seed).stretches for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first[:50], other[:50])


@pytest.mark.parametrize("name", ["single", "short"])
def test_shares_are_shares(name):
    with pytest.raises(SettingError, match=rf"corruption\.{name} must be a share of the rows, from 0 to 1; found -1"):
        ContiguousSegments(**{name: -1})
