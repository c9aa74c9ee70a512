"""Sources and targets in rows of their own: the frame, the cut, and batches of pairs of like length."""

from dataclasses import replace

import numpy as np
from stores import all_documents, store_of

from plmkit.corruption.arrange.source_target import SourceTarget
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import generator
from plmkit.data.samples import Place, Samples, grouped
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary

TEXT = tuple(f"w{number}" for number in range(200))
BERT = Vocabulary.from_tokens((*SPECIAL_TOKENS, *TEXT))
WORDS = Vocabulary.from_tokens(("<unk>", "<|endoftext|>", *TEXT), needed=("end",))


def filled(vocabulary, *pairs, length=32):
    first = 5 if vocabulary is BERT else 2
    store = store_of(*pairs)
    store = replace(store, tokens=store.tokens + first)
    plan = SourceTarget().plan(store, all_documents(store), length, generator(0))
    return SourceTarget().fill(store, plan, np.arange(len(plan)), vocabulary, length)


def shown(vocabulary, tokens):
    return [" ".join("-" if token == IGNORE else vocabulary.tokens[token] for token in row) for row in tokens.tolist()]


def test_the_target_is_shifted_right_and_each_side_is_padded_to_its_own_longest_row():
    rows = filled(BERT, [2, 1], [1, 3])
    assert shown(BERT, rows.tokens) == ["[CLS] w0 w1 [SEP]", "[CLS] w3 [SEP] [PAD]"]
    assert shown(BERT, rows.target.tokens) == ["[CLS] w2 [PAD] [PAD]", "[CLS] w4 w5 w6"]
    assert shown(BERT, rows.targets) == ["w2 [SEP] - -", "w4 w5 w6 [SEP]"]
    assert rows.visible.tolist() == [[True] * 4, [True] * 3 + [False]]
    assert rows.target.visible.tolist() == [[True, True, False, False], [True] * 4]


def test_without_cls_the_end_token_starts_the_target():
    rows = filled(WORDS, [2, 1])
    end = "<|endoftext|>"
    assert shown(WORDS, rows.tokens) == [f"w0 w1 {end}"]
    assert shown(WORDS, rows.target.tokens) == [f"{end} w2"]
    assert shown(WORDS, rows.targets) == [f"w2 {end}"]


def test_sides_are_cut_at_their_end_and_a_cut_target_does_not_predict_the_end():
    rows = filled(BERT, [4, 4], [3, 5], [9, 9], length=5)
    assert shown(BERT, rows.tokens) == ["[CLS] w0 w1 w2 [SEP]", "[CLS] w8 w9 w10 [SEP]", "[CLS] w16 w17 w18 [SEP]"]
    assert shown(BERT, rows.targets) == ["w4 w5 w6 w7 [SEP]", "w11 w12 w13 w14 w15", "w25 w26 w27 w28 w29"]


def test_what_is_cut_is_counted():
    store = store_of([4, 4], [3, 5], [9, 9], [1, 1])
    (note,) = SourceTarget().notes(store, all_documents(store), 5)
    assert note.startswith("Sides longer than 5 tokens are cut at their end: 2 sources and 2 targets of 4 pairs.")
    assert list(SourceTarget().notes(store, all_documents(store), 11)) == []


def test_a_document_with_tokens_on_one_side_only_is_no_pair():
    rows = filled(BERT, [2, 1], [4], [1, 1])
    assert shown(BERT, rows.tokens) == ["[CLS] w0 w1 [SEP]", "[CLS] w7 [SEP] [PAD]"]


def test_every_row_is_in_one_batch_of_rows_of_like_length():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, (1_003, 2))
    order = grouped(lengths, 8, generator(1))
    assert sorted(order.tolist()) == list(range(1_003))
    batches = order[:1_000].reshape(-1, 8)
    padding = lengths[batches].max(1).sum() * 8 - lengths[batches].sum()
    plain = rng.permutation(1_003)[:1_000].reshape(-1, 8)
    assert padding < 0.4 * (lengths[plain].max(1).sum() * 8 - lengths[plain].sum())
    longest = lengths[batches].max((1, 2))
    assert (np.diff(longest) < 0).mean() > 0.3  # batches are in random order, not from short to long
    assert grouped(lengths, 8, generator(1)).tolist() == order.tolist()
    assert grouped(lengths, 8, generator(2)).tolist() != order.tolist()


def test_batches_are_a_function_of_seed_epoch_and_place():
    rng = np.random.default_rng(0)
    store = store_of(*rng.integers(1, 9, (50, 2)).tolist())
    store = replace(store, tokens=store.tokens % 200 + 5)

    def samples() -> Samples:
        return Samples(store, all_documents(store), [SourceTarget()], BERT, seed=3)

    first, place = samples().next(Place(), 8, 16)
    second, place = samples().next(place, 8, 16)  # from a new object, as after a stop
    one = samples()
    assert (one.next(Place(), 8, 16)[0].source.tokens == first.source.tokens).all()
    again, after = one.next(Place(index=8), 8, 16)
    assert (again.target.tokens == second.target.tokens).all()
    assert (after, place) == (Place(index=16), Place(index=16))
    assert one.next(Place(index=48), 8, 16)[1] == Place(epoch=1, index=8)  # the two rows that are left are dropped
