"""Sentences in two streams: every word is predicted once from each side."""

import numpy as np
import pytest
from stores import all_documents, store_of, times_seen

from plmkit.corruption.arrange.both_directions import BothDirections
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import generator
from plmkit.data.samples import Samples
from plmkit.data.vocabulary import Vocabulary

STORE = store_of([2, 3], [1])  # words 0 1 | 2 3 4 || 5
S, E = 6, 7
WORDS = Vocabulary(tokens=(*"abcdef", "<S>", "</S>"), cls=S, sep=E, special=frozenset({S, E}))


def rows_of(length: int):
    plan = BothDirections().plan(STORE, all_documents(STORE), length, generator(0))
    return BothDirections().fill(STORE, plan, np.arange(len(plan)), WORDS, length)


def test_forward_rows_read_from_the_first_word_and_backward_rows_from_the_last():
    rows = rows_of(9)
    assert rows.tokens.tolist() == [[S, 0, 1, S, 2, 3, 4, S, 5], [E, 5, E, 4, 3, 2, E, 1, 0]]
    assert rows.targets.tolist() == [[0, 1, E, 2, 3, 4, E, 5, E], [5, S, 4, 3, 2, S, 1, 0, S]]
    assert rows.reversed.tolist() == [False, True]
    assert rows.visible.all()


def test_rows_are_cut_where_they_are_full_and_the_last_of_a_direction_is_padded():
    rows = rows_of(4)
    assert rows.tokens.tolist() == [[S, 0, 1, S], [2, 3, 4, S], [5, 0, 0, 0], [E, 5, E, 4], [3, 2, E, 1], [0, 0, 0, 0]]
    assert rows.targets[:3].tolist() == [[0, 1, E, 2], [3, 4, E, 5], [E, IGNORE, IGNORE, IGNORE]]
    assert rows.targets[5].tolist() == [S, IGNORE, IGNORE, IGNORE]
    assert rows.visible.sum(1).tolist() == [4, 4, 1, 4, 4, 1]
    assert rows.reversed.tolist() == [False] * 3 + [True] * 3


def test_a_row_continues_the_same_row_of_the_batch_before_in_its_direction():
    samples = Samples(STORE, all_documents(STORE), [BothDirections()], WORDS, seed=0)
    first, second = (samples.batch(0, index, 2, 3) for index in (0, 2))
    assert first.source.tokens.tolist() == [[S, 0, 1], [E, 5, E]]
    assert second.source.tokens.tolist() == [[S, 2, 3], [4, 3, 2]]
    assert first.reversed.tolist() == second.reversed.tolist() == [False, True]
    assert (first.continues.tolist(), second.continues.tolist()) == ([False] * 2, [True] * 2)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 9, 50])
def test_every_word_is_in_one_row_of_each_direction(length):
    plan = BothDirections().plan(STORE, all_documents(STORE), length, generator(0))
    assert times_seen(STORE, plan).tolist() == [2] * 6
    assert plan.tokens() == 12
    assert len(plan) == 2 * -(-9 // length)


def test_a_corpus_in_part_is_read_in_part():
    plan = BothDirections().plan(STORE, np.array([1]), 4, generator(0))
    rows = BothDirections().fill(STORE, plan, np.arange(2), WORDS, 4)
    assert rows.tokens.tolist() == [[S, 5], [E, 5]]
    assert rows.targets.tolist() == [[5, E], [5, S]]
