import numpy as np
import pytest
from stores import document_of, store_of

from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.data.randomness import generator
from plmkit.data.rows import cuts
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError


def big_store(documents: int = 1000, seed: int = 0) -> TokenStore:
    rng = np.random.default_rng(seed)
    return store_of(*(rng.integers(5, 40, rng.integers(40, 90)).tolist() for _ in range(documents)))


def plan_of(store: TokenStore, length: int = 128, seed: int = 0, **settings):
    documents = np.arange(len(store.documents) - 1)
    return SentencePairs(**settings).plan(store, documents, length, generator(seed))


def test_half_of_the_seconds_are_from_another_document():
    store = big_store()
    plan = plan_of(store)
    assert len(plan) > 3000
    assert 0.50 <= plan.labels["random_next"].mean() <= 0.55
    first, second = document_of(store, plan.stretches[:, 0]), document_of(store, plan.stretches[:, 2])
    assert (first != second)[plan.labels["random_next"] == 1].all()
    assert (first == second)[plan.labels["random_next"] == 0].all()


def test_a_second_that_follows_stands_right_after_the_first_before_cutting():
    store = big_store()
    plan = plan_of(store, length=100_000)  # room for everything: nothing is cut
    _, end_a, begin_b, _ = plan.stretches[plan.labels["random_next"] == 0].T
    assert (end_a == begin_b).all()


def test_rows_fit_and_neither_text_is_empty():
    plan = plan_of(big_store(), length=64)
    begin_a, end_a, begin_b, end_b = plan.stretches.T
    assert (end_a > begin_a).all()
    assert (end_b > begin_b).all()
    assert ((end_a - begin_a) + (end_b - begin_b) <= 61).all()


def test_a_tenth_of_the_documents_is_arranged_shorter():
    store = store_of(*([[2] * 300] * 2000))
    plan = plan_of(store)
    size = plan.stretches[:, [1, 3]].sum(1) - plan.stretches[:, [0, 2]].sum(1)
    longest = np.zeros(2000)
    np.maximum.at(longest, document_of(store, plan.stretches[:, 0]), size)
    # sentences of two tokens fill a row to within one of its target, which is 125 unless drawn short
    assert (longest < 124).mean() == pytest.approx(0.10, abs=0.02)


def test_every_sentence_is_used_as_first_or_as_following_text():
    store = store_of([4, 5, 6, 7, 8, 9], [3, 3], [20])
    plan = plan_of(store, length=100)
    seen = np.zeros(len(store.tokens), dtype=int)
    for (begin_a, end_a, begin_b, end_b), follows in zip(plan.stretches, plan.labels["random_next"], strict=True):
        seen[begin_a:end_a] += 1
        if not follows:
            seen[begin_b:end_b] += 1
    assert (seen == 1).all()  # what a random second pushed out comes back as a later first


@pytest.mark.parametrize(
    ("first", "second", "room", "expected"),
    [
        (10, 10, 20, (0, 0)),
        (10, 10, 19, (0, 1)),  # equal: the second gives way
        (10, 10, 18, (1, 1)),
        (12, 10, 20, (2, 0)),
        (12, 10, 19, (2, 1)),
        (3, 50, 13, (0, 40)),
        (50, 3, 13, (40, 0)),
    ],
)
def test_the_longer_text_is_cut_first(first, second, room, expected):
    assert cuts(first, second, room) == expected


def test_cuts_equal_a_loop_that_takes_one_token_at_a_time():
    rng = np.random.default_rng(1)
    for _ in range(300):
        first, second, room = int(rng.integers(1, 90)), int(rng.integers(1, 90)), int(rng.integers(4, 100))
        a, b = first, second
        while a + b > room:
            if a > b:
                a -= 1
            else:
                b -= 1
        assert cuts(first, second, room) == (first - a, second - b)


def test_cutting_takes_from_both_ends():
    store = store_of(*([[60, 60]] * 2000))
    plan = plan_of(store, length=63, short=0.0)
    begin = plan.stretches[:, 0] % 60  # every first text is one sentence
    assert 14 < begin.mean() < 16  # 30 of 60 go, each from the front or the back with probability a half


def test_the_same_seed_gives_the_same_plan_and_another_gives_another():
    store = big_store(200)
    assert (plan_of(store, seed=4).stretches == plan_of(store, seed=4).stretches).all()
    assert len(plan_of(store, seed=4)) != len(plan_of(store, seed=5)) or not np.array_equal(
        plan_of(store, seed=4).stretches, plan_of(store, seed=5).stretches
    )


def test_one_document_or_one_sentence_documents_are_refused():
    with pytest.raises(InputError, match="need at least two"):
        SentencePairs().check(store_of([5, 5, 5]), np.arange(1), "a.txt, line 1")
    with pytest.raises(InputError, match="two sentences"):
        SentencePairs().check(store_of([5], [5], [7]), np.arange(3), "a.txt, line 1")
