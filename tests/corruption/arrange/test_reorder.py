"""Shuffled paragraphs: the label tells how to put them back, and nothing but the order is changed."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from stores import all_documents, random_store, store_of

from plmkit.catalogue import find
from plmkit.corruption.arrange.reorder import ReorderedSentences
from plmkit.data.orders import order_of
from plmkit.data.randomness import generator
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import InputError, RecipeError, SettingError
from plmkit.objectives.text_classes import SentenceReordering
from plmkit.recipe import one_stream

STORE = random_store(400, (8, 30), (4, 20))


def plan_of(store=STORE, length: int = 128, seed: int = 0, **settings):
    return ReorderedSentences(**settings).plan(store, all_documents(store), length, generator(seed))


def parts_of(row: np.ndarray) -> list[tuple[int, int]]:
    return [(begin, end) for begin, end in row.reshape(-1, 2).tolist() if end > begin]


@pytest.mark.parametrize("most", [2, 3, 5])
def test_the_label_puts_the_parts_back_into_the_text_as_it_was(most):
    plan = plan_of(max_parts=most)
    borders = set(STORE.sentences.tolist())
    for row, label in zip(plan.stretches, plan.labels["order"].tolist(), strict=True):
        shown, order = parts_of(row), order_of(label)
        assert len(shown) == len(order) <= most
        original = [shown[order.index(part)] for part in range(len(order))]
        assert all(end == begin for (_, end), (begin, _) in pairwise(original))
        assert {place for part in original for place in part} <= borders  # whole sentences


def test_every_sentence_is_in_one_row():
    plan = plan_of()
    seen = np.zeros(len(STORE.tokens), dtype=int)
    for row in plan.stretches:
        for begin, end in parts_of(row):
            seen[begin:end] += 1
    assert (seen == 1).all()


def test_one_to_three_parts_are_equally_frequent_and_so_are_their_orders():
    long = random_store(3000, (10, 12), (3, 6))
    labels = plan_of(long, length=256).labels["order"]
    share = np.bincount(labels, minlength=9) / len(labels)
    assert len(labels) >= 3000
    expected = [1 / 3] + [1 / 6] * 2 + [1 / 18] * 6
    assert share == pytest.approx(expected, abs=0.025)


def test_the_borders_of_three_parts_of_four_sentences_are_equally_frequent():
    plan = plan_of(store_of(*([[1, 1, 1, 1]] * 6000)), length=64)
    three = plan.stretches[plan.labels["order"] >= 3].reshape(-1, 3, 2)
    sizes = Counter(tuple((np.sort(row, axis=0)[:, 1] - np.sort(row, axis=0)[:, 0]).tolist()) for row in three)
    assert set(sizes) == {(1, 1, 2), (1, 2, 1), (2, 1, 1)}
    assert min(sizes.values()) / sum(sizes.values()) == pytest.approx(1 / 3, abs=0.03)


def test_the_length_of_a_part_does_not_tell_where_it_belongs():
    """Where parts are cut, too: the longest is cut, wherever it stood in the text."""
    for length in (24, 128):
        plan = plan_of(random_store(4000, (2, 14), (4, 40)), length=length, max_parts=2)
        two = plan.labels["order"] > 0
        sizes = plan.stretches[two, 1::2] - plan.stretches[two, ::2]
        longer = sizes[:, 0] > sizes[:, 1]
        swapped = plan.labels["order"][two] == 2
        assert longer[swapped].mean() == pytest.approx(1 - longer[~swapped].mean(), abs=0.12)
        assert longer.mean() == pytest.approx((sizes[:, 0] < sizes[:, 1]).mean(), abs=0.05)


def test_rows_fit_and_are_one_text_with_separators():
    words = Vocabulary.from_tokens((*SPECIAL_TOKENS, *map(str, range(100))))
    store = random_store(50, (2, 9), (1, 60))
    store = replace(store, tokens=store.tokens % 100 + 5)
    plan = plan_of(store, length=32, max_parts=4)
    rows = ReorderedSentences(max_parts=4).fill(store, plan, np.arange(len(plan)), words, 32)
    assert rows.tokens.shape[1] == 32
    assert not rows.segments.any()
    assert ((rows.tokens == words.sep).sum(axis=1) == [len(order_of(label)) for label in rows.order.tolist()]).all()


def test_the_same_seed_gives_the_same_plan_and_another_gives_another():
    assert (plan_of(seed=4).stretches == plan_of(seed=4).stretches).all()
    assert not (plan_of(seed=4).labels["order"] == plan_of(seed=5).labels["order"]).all()


def test_documents_of_one_sentence_have_no_order_and_short_ones_are_reported():
    with pytest.raises(InputError, match="none of the 2 documents has two sentences, so there is no order to learn"):
        ReorderedSentences().check(store_of([5], [7]), np.arange(2), "a.txt, line 1")
    short = store_of([5, 6], [5, 5], [3, 3, 3])
    (note,) = ReorderedSentences().notes(short, np.arange(3), 128)
    assert note.startswith("2 of 3 documents have fewer than 3 sentences")
    assert not list(ReorderedSentences().notes(STORE, all_documents(STORE), 128))


def test_the_rows_and_the_loss_have_the_same_number_of_parts():
    with pytest.raises(SettingError, match=r"corruption\.max_parts must be from 2 to 6; found 1"):
        ReorderedSentences(max_parts=1)
    mini = find("bert-mini")
    kept = {"streams": one_stream(ReorderedSentences(max_parts=4)), "objectives": (SentenceReordering(max_parts=4),)}
    head = replace(mini, **kept).objectives[0]
    assert dict(head.classes) == {"order": 33}
    with pytest.raises(RecipeError, match="ReorderedSentences has 33 classes of `order`, but SentenceReordering has 9"):
        replace(mini, **kept | {"objectives": (SentenceReordering(),)})
