"""Pairs in their order or swapped, and what a look at the words alone can tell of each task."""

import numpy as np
import pytest
from stores import all_documents, document_of, random_store, store_of

from plmkit.corruption.arrange.pairs import OrderedPairs, SentencePairs, SwappedPairs, plan_pairs
from plmkit.data.randomness import generator
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError


def plan_of(kind: type, store: TokenStore, length: int = 128, seed: int = 0, **settings) -> StretchPlan:
    return kind(**settings).plan(store, all_documents(store), length, generator(seed))


def of_one_document(store: TokenStore, plan: StretchPlan) -> np.ndarray:
    return document_of(store, plan.stretches[:, 0]) == document_of(store, plan.stretches[:, 2])


def test_half_of_the_pairs_are_swapped():
    store = random_store(3000, (40, 90), (5, 40))
    plan = plan_of(OrderedPairs, store, length=64)
    pairs = of_one_document(store, plan)
    assert pairs.sum() > 50_000
    assert plan.labels["swapped_order"][pairs].mean() == pytest.approx(0.50, abs=0.01)


def test_zero_is_in_order_and_one_is_swapped():
    store = random_store(300, (10, 60), (5, 40))
    plan = plan_of(OrderedPairs, store)
    pairs = of_one_document(store, plan)
    begin_a, begin_b = plan.stretches[:, 0], plan.stretches[:, 2]
    assert ((begin_b < begin_a) == (plan.labels["swapped_order"] == 1))[pairs].all()


def test_both_parts_of_a_pair_stand_side_by_side_in_the_text():
    store = random_store(300, (10, 60), (5, 40))
    plan = plan_of(OrderedPairs, store, length=100_000)  # room for everything: nothing is cut
    begin_a, end_a, begin_b, end_b = plan.stretches[of_one_document(store, plan)].T
    assert ((end_a == begin_b) | (end_b == begin_a)).all()


class Tossed(SwappedPairs):
    """The coin falls as `toss` says; chunks are split after their first sentence."""

    toss = 0.0

    def random(self) -> float:
        return self.toss

    def below(self, limit: int) -> int:
        return 0


def test_a_pair_and_its_swap_have_the_same_tokens(monkeypatch):
    store = store_of(*([[9, 14, 30, 25, 3]] * 200))  # rows of 40 tokens: most pairs are cut
    made = []
    for toss in (0.0, 0.9):
        monkeypatch.setattr(Tossed, "toss", toss)
        plan = plan_pairs(Tossed(store, np.arange(200), 40, generator(0)), np.arange(200), 0.0, "swapped_order")
        made.append(plan.only(np.flatnonzero(of_one_document(store, plan))))
    swapped, ordered = made
    assert swapped.labels["swapped_order"].all() and not ordered.labels["swapped_order"].any()
    assert len(swapped) == 400
    assert np.array_equal(swapped.stretches, ordered.stretches[:, [2, 3, 0, 1]])


def test_a_chunk_of_one_sentence_gets_its_second_text_from_another_document():
    store = store_of([50], [20], *([[30, 30]] * 50))
    plan = plan_of(OrderedPairs, store, length=60, short=0.0)
    alone = plan.stretches[:, 0] < 70
    assert alone.sum() == 2
    assert not of_one_document(store, plan)[alone].any()
    assert (plan.labels["swapped_order"][alone] == 1).all()


def test_every_sentence_of_an_ordered_pair_is_used_once():
    store = store_of([4, 5, 6, 7, 8, 9], [3, 3], [7, 7, 7])
    plan = plan_of(OrderedPairs, store, length=100, short=0.0)
    seen = np.zeros(len(store.tokens), dtype=int)
    for begin_a, end_a, begin_b, end_b in plan.stretches:
        seen[begin_a:end_a] += 1
        seen[begin_b:end_b] += 1
    assert (seen == 1).all()


def test_rows_fit():
    plan = plan_of(OrderedPairs, random_store(300, (1, 30), (1, 90)), length=64)
    sizes = plan.stretches[:, 1::2] - plan.stretches[:, ::2]
    assert sizes.min() > 0
    assert sizes.sum(axis=1).max() == 61


def test_documents_of_one_sentence_have_no_order():
    with pytest.raises(InputError, match=r"a\.txt, line 1: none of the 3 documents has two sentences, so there is no"):
        OrderedPairs().check(store_of([5], [5], [7]), np.arange(3), "a.txt, line 1")
    OrderedPairs().check(store_of([5], [5, 7]), np.arange(2), "a.txt, line 1")


@pytest.mark.parametrize("kind", [SentencePairs, OrderedPairs])
def test_a_share_is_a_share(kind):
    with pytest.raises(
        SettingError, match=r"corruption\.short must be a share of the documents, from 0 to 1; found 1\.5"
    ):
        kind(short=1.5)


def test_the_same_seed_gives_the_same_pairs():
    store = random_store(100, (2, 30), (5, 40))
    first, again, other = (plan_of(OrderedPairs, store, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.stretches, again.stretches) and np.array_equal(
        first.labels["swapped_order"], again.labels["swapped_order"]
    )
    assert not np.array_equal(first.labels["swapped_order"][:50], other.labels["swapped_order"][:50])


def topical_store(documents: int = 400) -> TokenStore:
    """Half of the words of a document are of its topic: twenty words of two thousand."""
    store = random_store(documents, (20, 40), (6, 20))
    rng = np.random.default_rng(1)
    topics = rng.integers(0, 2000, (documents, 20))
    here = document_of(store, np.arange(len(store.tokens)))
    words = np.where(
        rng.random(len(here)) < 0.5, topics[here, rng.integers(0, 20, len(here))], rng.integers(2000, 2500, len(here))
    )
    return TokenStore(
        tokens=words, sentences=store.sentences, documents=store.documents, sources=store.sources, survey=store.survey
    )


def overlap(store: TokenStore, stretches: np.ndarray) -> np.ndarray:
    """The share of words that both texts have: the same whichever comes first."""
    found = []
    for begin_a, end_a, begin_b, end_b in stretches.tolist():
        first, second = set(store.tokens[begin_a:end_a].tolist()), set(store.tokens[begin_b:end_b].tolist())
        found.append(len(first & second) / len(first | second))
    return np.array(found)


def accuracy(scores: np.ndarray, labels: np.ndarray) -> float:
    """The best threshold of one half, on the other half."""
    half = len(scores) // 2
    thresholds = np.quantile(scores[:half], np.linspace(0, 1, 101))
    best = max(thresholds, key=lambda at: ((scores[:half] < at) == labels[:half]).mean())
    return float(((scores[half:] < best) == labels[half:]).mean())


def test_words_alone_tell_whether_a_text_follows_but_not_in_which_order():
    """Why ALBERT leaves next sentence prediction: most of it is to know the topic (Lan et al., 2019, 3.1)."""
    store = topical_store()
    follow = plan_of(SentencePairs, store)
    assert accuracy(overlap(store, follow.stretches), follow.labels["random_next"]) > 0.85
    order = plan_of(OrderedPairs, store)
    order = order.only(np.flatnonzero(of_one_document(store, order)))
    assert len(order) > 1000
    scores = overlap(store, order.stretches)
    assert accuracy(scores, order.labels["swapped_order"]) == pytest.approx(0.5, abs=0.06)
    # with each pair in both orders any verdict from the overlap is right exactly once
    swapped = overlap(store, order.stretches[:, [2, 3, 0, 1]])
    assert np.array_equal(scores, swapped)
    for threshold in np.quantile(scores, [0.1, 0.5, 0.9]):
        verdicts = np.concatenate([scores, swapped]) < threshold
        labels = np.concatenate([order.labels["swapped_order"], 1 - order.labels["swapped_order"]])
        assert (verdicts == labels).mean() == 0.5
