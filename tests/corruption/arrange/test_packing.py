"""Rows packed with text: nothing lost, nothing twice, separators where documents meet."""

import numpy as np
import pytest
from stores import all_documents, document_of, random_store, row_lengths, store_of, times_seen

from plmkit.corruption.arrange.packing import DocSentences, FullSentences, SingleSegment
from plmkit.data.randomness import generator
from plmkit.data.rows import StretchPlan, fill
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary

KINDS = (SingleSegment, FullSentences, DocSentences)
STORES = {
    "documents longer than rows": random_store(60, (20, 90), (5, 40)),
    "documents shorter than rows": random_store(500, (1, 3), (1, 12)),
    "sentences longer than rows": random_store(40, (1, 4), (1, 500)),
    "single tokens": store_of(*([[1]] * 300)),
    "one sentence": store_of([1000]),
}


def plan_of(kind: type, store: TokenStore, length: int = 64, seed: int = 0) -> StretchPlan:
    return kind().plan(store, all_documents(store), length, generator(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("length", [5, 64, 512])
def test_every_token_is_seen_once_and_rows_fit(kind, name, length):
    store = STORES[name]
    plan = plan_of(kind, store, length)
    assert (times_seen(store, plan) == 1).all()
    assert row_lengths(plan).max() <= length
    assert row_lengths(plan).min() >= 3


@pytest.mark.parametrize("kind", [SingleSegment, DocSentences])
@pytest.mark.parametrize("name", STORES)
def test_these_never_cross_into_another_document(kind, name):
    store = STORES[name]
    plan = plan_of(kind, store)
    stretches, owners, segments = plan.of(np.arange(len(plan)))
    assert np.array_equal(owners, np.arange(len(plan)))  # one stretch a row
    assert (document_of(store, stretches[:, 0]) == document_of(store, stretches[:, 1] - 1)).all()
    assert not segments.any()


@pytest.mark.parametrize("name", STORES)
def test_full_rows_take_one_stretch_of_each_document_in_its_order(name):
    store = STORES[name]
    plan = plan_of(FullSentences, store)
    stretches, owners, segments = plan.of(np.arange(len(plan)))
    document = document_of(store, stretches[:, 0])
    assert (document == document_of(store, stretches[:, 1] - 1)).all()
    same_row = np.diff(owners) == 0
    assert (np.diff(document)[same_row] == 1).all()  # the next one, each once
    assert not segments.any()


@pytest.mark.parametrize("name", ["documents longer than rows", "documents shorter than rows", "single tokens"])
def test_a_row_ends_where_the_next_sentence_does_not_fit(name):
    store = STORES[name]
    plan = plan_of(FullSentences, store)
    lengths = row_lengths(plan)
    for row in range(len(plan) - 1):
        following = plan.of(np.array([row + 1]))[0][0, 0]
        sentence = np.searchsorted(store.sentences, following)
        assert store.sentences[sentence] == following  # rows begin with a sentence
        begins = bool(np.isin(sentence, store.documents))  # a document's first sentence needs a separator more
        size = store.sentences[sentence + 1] - following
        assert lengths[row] + size + begins > 64


def test_rows_are_full_but_for_the_last_sentence():
    store = STORES["documents longer than rows"]
    assert row_lengths(plan_of(FullSentences, store, 512))[:-1].mean() > 0.95 * 512
    single = row_lengths(plan_of(SingleSegment, store, 64))
    assert (single == 64).sum() >= len(single) - 60  # all but the last of each of the 60 documents


def test_a_separator_stands_where_documents_meet():
    words = Vocabulary.from_tokens([*SPECIAL_TOKENS, *"abcdefghij"])
    store = store_of([2, 2], [3], [3])
    text = TokenStore(
        tokens=np.array([words.tokens.index(letter) for letter in "abcdefghij"]), sentences=store.sentences,
        documents=store.documents, sources=store.sources, survey=store.survey,
    )  # fmt: skip
    shown = {}
    for kind in KINDS:
        plan = plan_of(kind, text, length=10)
        rows = fill(text, plan, np.arange(len(plan)), words, 10)
        shown[kind] = [
            " ".join(words.names(tokens[visible])) for tokens, visible in zip(rows.tokens, rows.visible, strict=True)
        ]
        assert not rows.segments.any()
    assert shown[FullSentences] == ["[CLS] a b c d [SEP] e f g [SEP]", "[CLS] h i j [SEP]"]
    alone = ["[CLS] a b c d [SEP]", "[CLS] e f g [SEP]", "[CLS] h i j [SEP]"]
    assert shown[DocSentences] == shown[SingleSegment] == alone


def test_sentences_stay_whole_where_they_can_and_segments_cut_anywhere():
    store = store_of([5, 5, 5, 5])
    assert plan_of(DocSentences, store, length=14).stretches.tolist() == [[0, 10], [10, 20]]
    assert plan_of(SingleSegment, store, length=14).stretches.tolist() == [[0, 12], [12, 20]]


def test_a_sentence_longer_than_a_row_is_cut_and_its_end_starts_the_next_row():
    store = store_of([3, 25, 4])
    assert plan_of(FullSentences, store, length=12).stretches.tolist() == [[0, 3], [3, 13], [13, 23], [23, 32]]


@pytest.mark.parametrize("kind", KINDS)
def test_documents_come_as_often_and_in_the_order_they_are_given(kind):
    store = store_of([4], [5], [6])
    plan = kind().plan(store, np.array([2, 0, 2]), 64, generator(0))
    assert times_seen(store, plan).tolist() == [1] * 4 + [0] * 5 + [2] * 6


def test_any_text_will_do():
    for kind in KINDS:
        kind().check(store_of([1]), np.arange(1), "a.txt, line 1")
