"""One stream of documents, cut into rows: every token is read once and asked for once."""

import numpy as np
import pytest

from plmkit.corruption.arrange.stream import Stream
from plmkit.data.batch import IGNORE
from plmkit.data.mixture import tokens_by_source
from plmkit.data.samples import Samples
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import Vocabulary

END = 9
WORDS = Vocabulary.from_tokens([*"abcdefghi", "<|endoftext|>"], needed=("end",))


def store_of(*documents: list[int]) -> TokenStore:
    borders = np.cumsum([0, *map(len, documents)])
    return TokenStore(
        tokens=np.concatenate(documents).astype(np.uint16),
        sentences=borders,
        documents=np.arange(len(documents) + 1),
        sources=np.arange(len(documents), dtype=np.int16) % 2,
        survey=Survey(),
    )


class InOrder(Stream):
    """Without the shuffle, so that a row can be read by eye."""

    def plan(self, store, documents, length, rng):
        return super().plan(store, documents, length, Still())


class Still:
    def permutation(self, documents):
        return documents


def rows_of(store: TokenStore, length: int):
    plan = InOrder().plan(store, np.arange(len(store.documents) - 1), length, None)
    return InOrder().fill(store, plan, np.arange(len(plan)), WORDS, length)


def test_rows_are_the_stream_and_targets_the_token_that_follows():
    rows = rows_of(store_of([0, 1, 2], [3, 4], [5]), 4)  # 0 1 2 E 3 4 E 5 E
    assert rows.tokens.tolist() == [[0, 1, 2, END], [3, 4, END, 5]]
    assert rows.targets.tolist() == [[1, 2, END, 3], [4, END, 5, END]]
    assert rows.visible.all()


def test_what_is_left_at_the_end_is_a_short_row():
    rows = rows_of(store_of([0, 1, 2], [3, 4]), 5)  # 0 1 2 E 3 4 E
    assert rows.tokens.tolist() == [[0, 1, 2, END, 3], [4, 0, 0, 0, 0]]
    assert rows.targets.tolist() == [[1, 2, END, 3, 4], [END, *[IGNORE] * 4]]
    assert rows.visible.sum(1).tolist() == [5, 1]
    alone = rows_of(store_of([0, 1]), 8)  # a stream shorter than one row
    assert alone.tokens.tolist() == [[0, 1]]
    assert alone.targets.tolist() == [[1, END]]


@pytest.mark.parametrize("length", [1, 3, 7, 64])
def test_every_token_but_the_first_is_predicted_once_per_epoch(length):
    rng = np.random.default_rng(0)
    store = store_of(*[rng.integers(0, 9, size=rng.integers(1, 9)).tolist() for _ in range(20)])
    samples = Samples(store, np.arange(20), [Stream()], WORDS, seed=1)
    plan, _ = samples.plan(0, length)
    batch = samples.batch(0, 0, len(plan), length)
    asked = batch.targets[batch.targets != IGNORE]
    assert len(asked) == len(store.tokens) + 20 - 1
    wanted = np.bincount(store.tokens, minlength=10)
    wanted[END] = 20
    wanted[int(plan.joined.tokens(np.array([0]), END)[0])] -= 1
    assert np.bincount(asked.numpy(), minlength=10).tolist() == wanted.tolist()
    assert plan.tokens() == len(store.tokens)
    # inside a row, a target is the token that is read next
    same = batch.source.tokens[:, 1:] == batch.targets[:, :-1]
    assert same[batch.source.visible[:, 1:]].all()


def test_another_epoch_has_another_order_and_the_same_epoch_the_same():
    store = store_of(*[[number] * 3 for number in range(9)])
    samples = Samples(store, np.arange(9), [Stream()], WORDS, seed=1)
    first, again, other = (samples.batch(epoch, 0, 4, 5).source.tokens for epoch in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_stretches_are_the_text_of_the_rows_for_mixing():
    store = store_of([0, 1, 2], [3, 4], [5])
    plan = InOrder().plan(store, np.arange(3), 4, None)
    stretches, owners, _ = plan.of(np.arange(2))
    assert stretches.tolist() == [[0, 3], [3, 5], [5, 6]]
    assert owners.tolist() == [0, 1, 1]
    assert tokens_by_source(plan, store, 2).tolist() == [[3, 0], [1, 2]]
    assert plan.only(np.array([1])).places(np.array([0])).tolist() == [[4, 5, 6, 7, 8]]


def test_weights_give_each_source_its_share_of_the_tokens():
    rng = np.random.default_rng(0)
    store = store_of(*[rng.integers(0, 9, size=40).tolist() for _ in range(200)])
    samples = Samples(store, np.arange(200), [Stream()], WORDS, seed=1, weights=(0.75, 0.25))
    plan, _ = samples.plan(0, 16)
    counts = tokens_by_source(plan, store, 2).sum(0)
    assert counts[0] / counts.sum() == pytest.approx(0.75, abs=0.01)
