"""Embeddings from co-occurrence counts: what is near what, and how similar tokens with similar contexts are."""

from dataclasses import replace

import numpy as np
import pytest
from stores import all_documents, store_of
from threadpoolctl import threadpool_limits

from plmkit.data.shards import TokenStore
from plmkit.initialisation import corpus
from plmkit.initialisation.corpus import (
    WINDOW,
    count_cooccurrences,
    positive_pmi,
    sample_documents,
    text_of,
    token_vectors,
)


def store_with(*documents: list[int]) -> TokenStore:
    """Documents of one sentence each, of these tokens."""
    return replace(store_of(*([len(document)] for document in documents)), tokens=np.concatenate(documents))


def test_near_is_up_to_eight_tokens_to_either_side():
    near = count_cooccurrences(np.array([0, 1, *[2] * 7, 3]), 4).toarray()
    assert near[0, 1] == near[1, 0] == 1
    assert near[1, 3] == 1, "eight apart"
    assert near[0, 3] == 0, "nine apart"
    assert near[0, 2] == 7
    assert near[2, 2] == 2 * (6 + 5 + 4 + 3 + 2 + 1), "each pair from both of its ends"


def test_documents_are_not_near_each_other():
    row = text_of(store_with([0, 1], [2, 3]), np.array([0, 1]))
    assert row[row >= 0].tolist() == [0, 1, 2, 3]
    pairs = np.argwhere(count_cooccurrences(row, 4).toarray()).tolist()
    assert pairs == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_information_is_how_much_oftener_than_by_chance_and_never_below_zero():
    row = np.array([0, 1, *[-1] * WINDOW, 0, 1, *[-1] * WINDOW, 2, 3])
    found = positive_pmi(count_cooccurrences(row, 4)).toarray()
    smooth = np.array([2.0, 2.0, 1.0, 1.0]) ** 0.75
    assert found[0, 1] == pytest.approx(np.log(2 * smooth.sum() / (2 * smooth[1])), abs=1e-6)
    assert found[2, 3] == pytest.approx(np.log(smooth.sum() / smooth[3]), abs=1e-6)
    assert found[0, 2] == 0
    assert (found >= 0).all()
    larger = positive_pmi(count_cooccurrences(row, 1000)).toarray()
    np.testing.assert_allclose(larger[:4, :4], found, rtol=1e-6, err_msg="tokens that do not occur change nothing")


@pytest.fixture
def pets() -> TokenStore:
    """0 and 1 stand among 2 and 3, 4 and 5 among 6 and 7; 8 comes once, near 0 and 1's; 9 never."""
    rng = np.random.default_rng(0)
    kinds = [([0], [2, 3]), ([1], [2, 3]), ([4], [6, 7]), ([5], [6, 7])]
    documents = [[*rng.choice(near, 3), *own, *rng.choice(near, 3)] for own, near in kinds for _ in range(30)]
    return store_with(*documents, [2, 8, 3])


def test_tokens_with_similar_neighbours_are_similar(pets):
    vectors = token_vectors(pets, all_documents(pets), 10, 16, seed=0)
    alike = vectors @ vectors.T
    np.testing.assert_allclose(np.diag(alike)[:9], 1, atol=1e-5)
    assert alike[0, 1] > 0.7
    assert alike[4, 5] > 0.7
    assert alike[0, 4] < 0
    assert alike[0, 8] > max(0, alike[4, 8]), "one place is enough to know a token by"
    assert not vectors[9].any(), "of a token that does not occur nothing is known"


def directions(vectors: np.ndarray) -> np.ndarray:
    """The similarity of each pair of tokens, which no rotation changes."""
    return vectors @ vectors.T


def test_directions_are_turned_at_random_by_the_seed(pets):
    one, other = (token_vectors(pets, all_documents(pets), 10, 16, seed=seed) for seed in (0, 1))
    np.testing.assert_allclose(directions(one), directions(other), atol=1e-3)
    assert np.abs(one - other).max() > 0.1
    strengths = np.square(one).sum(0)  # ten tokens have ten directions at most: six columns of sixteen would be empty
    assert (strengths > 1e-3).all()


def test_vectors_are_the_directions_of_the_information_each_by_the_root_of_its_strength(pets):
    row = text_of(pets, all_documents(pets))
    known = positive_pmi(count_cooccurrences(row, 10)).toarray()
    left, strengths, _ = np.linalg.svd(known)
    exact = (left * np.sqrt(strengths))[:9]  # 9 does not occur
    exact -= exact.mean(0)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    made = token_vectors(pets, all_documents(pets), 10, 16, seed=0)[:9]
    np.testing.assert_allclose(directions(made), directions(exact), atol=1e-3)


def test_how_many_cores_there_are_changes_no_bit():
    store = store_with(np.random.default_rng(0).integers(0, 800, 20_000).tolist())
    made = []
    for cores in (2, 1):
        with threadpool_limits(cores):
            made.append(token_vectors(store, all_documents(store), 800, 128, seed=0))
    assert np.array_equal(*made)


def test_the_same_seed_gives_the_same_vectors(pets):
    first, again, other = (token_vectors(pets, all_documents(pets), 10, 16, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_text_of_which_nothing_can_be_counted_gives_no_vectors():
    lonely = store_with([1], [2])  # never next to anything
    assert not token_vectors(lonely, all_documents(lonely), 5, 4, seed=0).any()
    single = store_with([1, 1, 1])
    assert not token_vectors(single, all_documents(single), 5, 4, seed=0).any()
    partly = store_with(*[[1, 2]] * 3, *[[2, 1, 3]] * 3, [4], [0])
    assert token_vectors(partly, all_documents(partly), 6, 4, seed=0).any(1).tolist() == [0, 1, 1, 1, 0, 0]


def test_only_the_documents_that_are_given_are_counted(pets):
    some = token_vectors(pets, np.arange(60), 10, 16, seed=0)  # those of 0 and 1
    assert some[0].any()
    assert not some[4].any()


def test_of_a_large_text_documents_are_drawn_at_random(monkeypatch, pets):
    monkeypatch.setattr(corpus, "MOST_TOKENS", 70)
    chosen = sample_documents(pets, all_documents(pets), seed=0)
    assert 10 <= len(chosen) <= 11
    assert (np.diff(chosen) > 0).all()
    assert sample_documents(pets, all_documents(pets), seed=1).tolist() != chosen.tolist()
    monkeypatch.setattr(corpus, "MOST_TOKENS", 10**6)
    assert sample_documents(pets, all_documents(pets), seed=0).tolist() == all_documents(pets).tolist()


def test_of_a_document_longer_than_what_is_counted_the_beginning_is(monkeypatch):
    monkeypatch.setattr(corpus, "MOST_TOKENS", 7)
    long = store_with(list(range(20)))
    row = text_of(long, sample_documents(long, all_documents(long), seed=0))
    assert row[row >= 0].tolist() == list(range(7))
