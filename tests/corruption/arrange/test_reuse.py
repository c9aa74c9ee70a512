"""Rows that begin with text to be read again, and streams in both directions."""

from dataclasses import replace

import numpy as np
import pytest
from stores import all_documents, random_store, store_of

from plmkit.corruption.arrange.reuse import ReusedText
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import generator
from plmkit.data.samples import Place, Samples
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError

NAMES = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")


def vocabulary_of(size: int) -> Vocabulary:
    """Every word is its own place in the store, the special tokens come after."""
    return Vocabulary.from_tokens((*(f"▁{number}" for number in range(size)), *NAMES), mark="▁")


def plan_of(step: ReusedText, store, length: int, seed: int = 0):
    return step.plan(store, all_documents(store), length, generator(seed))


def filled(step: ReusedText, store, length: int, seed: int = 0):
    plan, vocabulary = plan_of(step, store, length, seed), vocabulary_of(len(store.tokens))
    return step.fill(store, plan, np.arange(len(plan)), vocabulary, length), plan, vocabulary


def test_a_row_is_text_first_sep_second_sep_cls_with_segments_0_0_0_1_1_2():
    rows, _, vocabulary = filled(ReusedText(backward=False), random_store(20, (3, 9), (3, 9)), 32)
    assert rows.visible.all()
    for tokens, segments in zip(rows.tokens, rows.segments, strict=True):
        separators = np.flatnonzero(tokens == vocabulary.sep)
        assert len(separators) == 2 and separators[0] > 16 and separators[1] == 30
        assert np.flatnonzero(tokens == vocabulary.cls).tolist() == [31]
        assert segments.tolist() == [0] * (separators[0] + 1) + [1] * (30 - separators[0]) + [2]


def test_each_row_starts_where_the_reused_part_of_the_one_before_ended():
    rows, plan, vocabulary = filled(ReusedText(backward=False), random_store(20, (3, 9), (3, 9)), 32)
    stream = plan.joined.tokens(np.arange(len(plan.joined)), vocabulary.end)
    for number, tokens in enumerate(rows.tokens):
        assert tokens[:16].tolist() == stream[16 * number : 16 * number + 16].tolist()
        assert tokens[16] == stream[16 * number + 16]  # the first text continues from there
    assert len(rows.tokens) == (len(stream) - 32) // 16 + 1


def test_the_second_text_follows_half_of_the_time_and_starts_a_sentence():
    store = random_store(400, (3, 9), (2, 5))
    rows, plan, vocabulary = filled(ReusedText(backward=False), store, 64)
    stream = plan.joined.tokens(np.arange(len(plan.joined)), vocabulary.end)
    where = {token: place for place, token in enumerate(stream.tolist()) if token != vocabulary.end}
    starts = set(plan.joined.sentence_starts().tolist())
    follows = begins = 0
    for tokens in rows.tokens:
        border = np.flatnonzero(tokens == vocabulary.sep)[0]
        if vocabulary.end in tokens[[border - 1, border + 1]]:
            continue
        before, after = where[tokens[border - 1]], where[tokens[border + 1]]
        follows += 0 < after - before <= 8  # where the first text was longer than the second, it has lost its tail
        begins += after in starts
    assert begins == pytest.approx(len(rows.tokens), rel=0.2)
    assert follows / begins == pytest.approx(0.5, abs=0.08)


def test_documents_end_with_the_end_token():
    rows, _, vocabulary = filled(ReusedText(backward=False), store_of([4, 5], [6], [7, 3]), 16)
    assert (rows.tokens == vocabulary.end).any()


def test_backward_rows_read_the_same_stream_from_its_end():
    store = random_store(20, (3, 9), (3, 9))
    rows, plan, vocabulary = filled(ReusedText(), store, 32)
    half = len(plan) // 2
    assert rows.reversed.tolist() == [False] * half + [True] * half
    stream = plan.joined.tokens(np.arange(len(plan.joined)), vocabulary.end)[::-1]
    for number, tokens in enumerate(rows.tokens[half:]):
        assert tokens[:16].tolist() == stream[16 * number : 16 * number + 16].tolist()
        assert tokens[-1] == vocabulary.cls and tokens[-2] == vocabulary.sep


def test_a_batch_continues_the_previous_one_and_half_of_it_runs_backward():
    store = random_store(60, (3, 9), (3, 9))
    vocabulary = vocabulary_of(len(store.tokens))
    samples = Samples(store, all_documents(store), (ReusedText(), PermutedSpans()), vocabulary, seed=1)
    first, position = samples.next(Place(), 4, 32)
    second, _ = samples.next(position, 4, 32)
    assert not first.continues.any() and second.continues.all()
    assert first.reversed.tolist() == second.reversed.tolist() == [False, False, True, True]
    plan, _ = samples.plan(0, 32, 4)
    stream = plan.joined.tokens(np.arange(len(plan.joined)), vocabulary.end)
    for row in range(4):
        line = stream if row < 2 else stream[::-1]
        text = np.concatenate([first.source.tokens[row, :16], second.source.tokens[row, :16]]).tolist()
        assert any(text == line[place : place + 32].tolist() for place in range(len(line) - 31))
    assert ((first.targets != IGNORE).sum(1) == 5).all()


def test_a_text_shorter_than_a_row_is_read_round_and_round():
    rows, plan, vocabulary = filled(ReusedText(backward=False), store_of([3, 2]), 16)
    assert len(plan) == 1
    assert rows.tokens[0, :8].tolist() == [0, 1, 2, 3, 4, vocabulary.end, 0, 1]


def test_the_same_seed_gives_the_same_rows_and_another_seed_others():
    store = random_store(20, (3, 9), (3, 9))
    one, again, other = (filled(ReusedText(), store, 32, seed)[0].tokens for seed in (0, 0, 1))
    assert np.array_equal(one, again) and not np.array_equal(one, other)


def test_rows_that_are_left_keep_their_text():
    store = random_store(20, (3, 9), (3, 9))
    rows, plan, vocabulary = filled(ReusedText(), store, 32)
    kept = np.array([1, 4, 7])
    assert np.array_equal(
        ReusedText().fill(store, plan.only(kept), np.arange(3), vocabulary, 32).tokens, rows.tokens[kept]
    )


def test_the_tokens_of_a_plan_are_those_of_its_rows_without_separators_and_cls():
    rows, plan, vocabulary = filled(ReusedText(), random_store(20, (3, 9), (3, 9)), 32)
    of_text = ~np.isin(rows.tokens, (vocabulary.sep, vocabulary.cls))
    assert plan.tokens() == of_text.sum()
    assert plan.only(np.arange(3)).tokens() == of_text[:3].sum()


def test_settings_that_cannot_be_are_refused_by_name():
    with pytest.raises(SettingError, match=r"corruption\.reuse must be a share of the row"):
        ReusedText(reuse=1.0)
    with pytest.raises(SettingError, match=r"rows of 4 tokens; ReusedText needs at least 8"):
        plan_of(replace(ReusedText(), backward=False), store_of([3]), 4)
