"""From tokens on disk to batches."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from plmkit.corruption.arrange.dialogue import Dialogue
from plmkit.corruption.arrange.packing import ContiguousSegments, DocSentences, FullSentences, SingleSegment
from plmkit.corruption.arrange.pairs import MixedPairs, OrderedPairs, SentencePairs
from plmkit.corruption.contract import StretchArrangement
from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.batch import IGNORE, Batch
from plmkit.data.mixture import tokens_by_source
from plmkit.data.randomness import generator
from plmkit.data.rows import StretchPlan, fill
from plmkit.data.samples import Place, Samples, Split, mix, split
from plmkit.data.shards import TokenStore
from plmkit.data.survey import Survey
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import InputError

CHINESE = "我的狗很可爱企鹅不擅长飞行"
VOCABULARY = Vocabulary.from_tokens([*SPECIAL_TOKENS, *CHINESE, *(f"w{number}" for number in range(500))])


def store_of(documents: list[list[int]], sources: list[int] | None = None, seed: int = 0) -> TokenStore:
    """Documents given by the lengths of their sentences, filled with random words."""
    lengths = [length for document in documents for length in document]
    rng = np.random.default_rng(seed)
    return TokenStore(
        tokens=rng.integers(20, len(VOCABULARY), sum(lengths)).astype(np.uint16),
        sentences=np.concatenate([[0], np.cumsum(lengths)]),
        documents=np.concatenate([[0], np.cumsum([len(document) for document in documents])]),
        sources=np.array(sources or [0] * len(documents), dtype=np.int16),
        survey=Survey(),
    )


def random_store(count: int = 60, seed: int = 0, **settings) -> TokenStore:
    rng = np.random.default_rng(seed)
    return store_of([rng.integers(4, 12, rng.integers(2, 9)).tolist() for _ in range(count)], seed=seed, **settings)


@dataclass(frozen=True, kw_only=True)
class EachDocument(StretchArrangement):
    """An arrangement without chance: every document is a row."""

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        starts = store.sentences[store.documents]
        rows = [(starts[d], min(starts[d + 1], starts[d] + length - 2), 0, 0) for d in documents]
        return StretchPlan(stretches=np.array(rows, dtype=np.int64).reshape(-1, 4))


def samples_of(store: TokenStore, *corruption, seed: int = 5, **settings) -> Samples:
    chosen = corruption or (SentencePairs(), TokenMasking())
    documents = np.arange(len(store.documents) - 1)
    return Samples(store, documents, chosen, VOCABULARY, seed=seed, **settings)


def equal(first: Batch, second: Batch) -> bool:
    ours, theirs = ({**vars(batch), **vars(batch.source), "source": None} for batch in (first, second))
    tensors = {name: value for name, value in ours.items() if isinstance(value, torch.Tensor)}
    return all(torch.equal(value, theirs[name]) for name, value in tensors.items())


def masks_by_text(samples: Samples, epoch: int, length: int) -> dict[tuple, tuple]:
    """What each text of an epoch looks like when it is masked."""
    plan, _ = samples.plan(epoch, length)
    batch = samples.batch(epoch, 0, len(plan), length)
    texts = batch.source.tokens.where(batch.targets == IGNORE, batch.targets)
    shown = torch.stack([batch.source.tokens, batch.targets], dim=1)
    return {tuple(text.tolist()): tuple(row.flatten().tolist()) for text, row in zip(texts, shown, strict=True)}


def test_segments_are_zero_in_the_first_text_and_one_in_the_second():
    words = np.array([VOCABULARY.tokens.index(letter) for letter in CHINESE])
    store = TokenStore(
        tokens=words, sentences=np.array([0, 6, 13]), documents=np.array([0, 2]), sources=np.zeros(1), survey=Survey()
    )
    rows = fill(store, StretchPlan(stretches=np.array([[0, 6, 6, 13]])), np.array([0]), VOCABULARY, length=128)
    assert "".join(VOCABULARY.names(rows.tokens[0])) == "[CLS]我的狗很可爱[SEP]企鹅不擅长飞行[SEP]"
    assert rows.segments.tolist() == [[0] * 8 + [1] * 8]
    assert rows.visible.all()


def test_rows_are_filled_up_to_a_multiple_of_eight_but_never_past_the_length():
    store = store_of([[3, 4], [6, 9]])
    plan = StretchPlan(stretches=np.array([[0, 3, 3, 7], [7, 13, 13, 22]]), labels={"random_next": np.array([0, 1])})
    rows = fill(store, plan, np.array([1, 0]), VOCABULARY, length=128)
    assert rows.tokens.shape == (2, 24)
    assert rows.visible.sum(axis=1).tolist() == [18, 10]
    assert (rows.tokens[~rows.visible] == VOCABULARY.pad).all()
    assert (rows.segments[~rows.visible] == 0).all()
    assert rows.random_next.tolist() == [1, 0]
    assert rows.tokens[1, :5].tolist() == [VOCABULARY.cls, *store.tokens[:3], VOCABULARY.sep]
    assert fill(store, plan, np.array([1]), VOCABULARY, length=19).tokens.shape == (1, 19)


def test_a_row_without_a_second_text_ends_after_the_first():
    store = store_of([[4]])
    rows = fill(store, StretchPlan(stretches=np.array([[0, 4, 0, 0]])), np.array([0]), VOCABULARY, length=32)
    assert rows.tokens[0].tolist() == [VOCABULARY.cls, *store.tokens, VOCABULARY.sep, 0, 0]
    assert rows.random_next is None


def test_where_the_vocabulary_says_so_two_separators_stand_between_and_segments_are_all_0():
    roberta = replace(VOCABULARY, separators=2, second=0)
    store = random_store()
    samples = Samples(store, np.arange(len(store.documents) - 1), (SentencePairs(short=0.0),), roberta, seed=5)
    for length in (24, 40):
        batch = samples.batch(0, 0, 50, length)
        assert batch.source.tokens.shape[1] <= length
        assert batch.source.segments.sum() == 0
        full = 0
        for row, visible in zip(batch.source.tokens, batch.source.visible, strict=True):
            seps = torch.nonzero(row[visible] == roberta.sep).flatten().tolist()
            assert len(seps) == 3
            assert seps[1] == seps[0] + 1
            assert seps[2] == visible.sum() - 1
            full += int(visible.sum() == length)
        assert full > 10  # the room is used, and no token is lost at the edge


def test_a_row_of_many_parts_has_a_separator_after_each():
    store = store_of([[2, 3], [4], [1]])
    plan = StretchPlan(
        stretches=np.array([[0, 5], [5, 9], [9, 10], [2, 5]]), rows=np.array([0, 3, 4]), segments=np.array([0, 1, 0, 1])
    )
    rows = fill(store, plan, np.array([1, 0]), VOCABULARY, length=16)
    text, cls, sep = store.tokens.tolist(), VOCABULARY.cls, VOCABULARY.sep
    long = [cls, *text[:5], sep, *text[5:9], sep, text[9], sep]
    assert rows.tokens.tolist() == [[cls, *text[2:5], sep] + [0] * 11, [*long, 0, 0]]
    assert rows.segments.tolist() == [[0, 1, 1, 1, 1] + [0] * 11, [0] * 7 + [1] * 5 + [0] * 4]
    assert rows.visible.sum(axis=1).tolist() == [5, 14]


def test_a_plan_of_rows_of_any_kind_can_be_thinned_and_counted():
    pairs = StretchPlan(
        stretches=np.array([[0, 3, 3, 7], [7, 13, 0, 0], [1, 2, 5, 9]]), labels={"random_next": np.array([0, 1, 1])}
    )
    ragged = StretchPlan(
        stretches=np.array([[0, 3], [3, 7], [7, 13], [1, 2], [5, 9]]), rows=np.array([0, 2, 3, 5]),
        segments=np.array([0, 1, 0, 0, 1]), labels={"random_next": np.array([0, 1, 1])},
    )  # fmt: skip
    for plan in (pairs, ragged):
        assert (len(plan), plan.tokens()) == (3, 18)
        few = plan.only(np.array([2, 1]))
        assert (len(few), few.tokens(), few.labels["random_next"].tolist()) == (2, 11, [1, 1])
        stretches, owners, segments = few.of(np.array([0, 1]))
        assert stretches.tolist() == [[1, 2], [5, 9], [7, 13]]
        assert (owners.tolist(), segments.tolist()) == ([0, 0, 1], [0, 1, 0])


@pytest.mark.parametrize(
    "arrangement",
    [OrderedPairs(), FullSentences(), DocSentences(), SingleSegment(), ContiguousSegments(), Dialogue()],
    ids=lambda arrangement: type(arrangement).__name__,
)
def test_every_arrangement_gives_batches_that_are_functions_of_seed_epoch_and_index(arrangement):
    store = random_store()
    through, again = (samples_of(store, arrangement, TokenMasking()) for _ in range(2))
    again.batch(2, 8, 4, 48)
    for epoch, index in ((0, 0), (1, 4), (0, 8)):
        assert equal(through.batch(epoch, index, 4, 32), again.batch(epoch, index, 4, 32))
    whole = through.batch(1, 0, 8, 32)
    alone = again.batch(1, 3, 1, 32)
    width = alone.source.tokens.shape[1]
    assert torch.equal(alone.source.tokens[0], whole.source.tokens[3, :width])
    other = samples_of(store, arrangement, TokenMasking(), seed=6).batch(0, 0, 4, 32)
    assert not equal_tokens(through.batch(0, 0, 4, 32), other)
    assert not equal_tokens(through.batch(0, 0, 4, 32), through.batch(1, 0, 4, 32))


def test_batches_are_the_same_in_whatever_order_they_are_made():
    store = random_store()
    asked = [(epoch, index, length) for epoch in (0, 3, 1) for index in (0, 16, 8) for length in (32, 48)]
    forward, backward = samples_of(store), samples_of(store)
    first = {key: forward.batch(key[0], key[1], 8, key[2]) for key in asked}
    second = {key: backward.batch(key[0], key[1], 8, key[2]) for key in reversed(asked)}
    assert all(equal(first[key], second[key]) for key in asked)


def test_a_row_does_not_depend_on_other_rows():
    samples = samples_of(random_store())
    whole = samples.batch(2, 0, 12, 32)
    for row in range(12):
        alone = samples.batch(2, row, 1, 32)
        width = alone.source.tokens.shape[1]
        assert torch.equal(alone.source.tokens[0], whole.source.tokens[row, :width])
        assert torch.equal(alone.targets[0], whole.targets[row, :width])
        assert not whole.source.visible[row, width:].any()


def test_another_seed_gives_other_batches():
    store = random_store()
    assert not equal_tokens(samples_of(store, seed=1).batch(0, 0, 8, 32), samples_of(store, seed=2).batch(0, 0, 8, 32))


def equal_tokens(first: Batch, second: Batch) -> bool:
    return first.source.tokens.shape == second.source.tokens.shape and torch.equal(
        first.source.tokens, second.source.tokens
    )


def test_an_epoch_visits_every_example_once():
    samples = samples_of(random_store())
    plan, order = samples.plan(4, 32)
    assert sorted(order) == list(range(len(plan)))
    assert not np.array_equal(order, samples.plan(5, 32)[1])


def test_dynamic_masks_differ_from_epoch_to_epoch_and_come_again_for_the_same_epoch():
    store = random_store()
    samples = samples_of(store, EachDocument(), TokenMasking())
    first, second = masks_by_text(samples, 0, 64), masks_by_text(samples, 1, 64)
    assert first.keys() == second.keys() and len(first) == 60
    assert sum(first[text] != second[text] for text in first) > 55
    assert masks_by_text(samples_of(store, EachDocument(), TokenMasking()), 0, 64) == first
    seen = [masks_by_text(samples, epoch, 64) for epoch in range(20)]
    long = [text for text in first if sum(token > 0 for token in text) > 30]
    assert len(long) > 20
    assert all(len({masks[text] for masks in seen}) > 15 for text in long)


def test_ten_copies_give_each_text_at_most_ten_masks_each_used_as_often():
    samples = samples_of(random_store(count=40), EachDocument(), TokenMasking(static_masks=10))
    seen = [masks_by_text(samples, epoch, 64) for epoch in range(40)]
    for text in seen[0]:
        used = Counter(masks[text] for masks in seen)
        assert len(used) <= 10
        assert all(count % 4 == 0 for count in used.values())  # two copies may happen to have the same mask
    assert sum(len({masks[text] for masks in seen}) == 10 for text in seen[0]) > 35


def test_ten_copies_stay_ten_in_batches_of_any_width():
    samples = samples_of(random_store(count=40), EachDocument(), TokenMasking(static_masks=10))
    seen: dict[tuple, set] = {}
    for epoch in range(40):
        for index in range(0, 40, 4):
            batch = samples.batch(epoch, index, 4, 64)
            for tokens, targets, visible in zip(batch.source.tokens, batch.targets, batch.source.visible, strict=True):
                text = tokens.where(targets == IGNORE, targets)[visible]
                hidden = (tuple(tokens[visible].tolist()), tuple(targets[visible].tolist()))
                seen.setdefault(tuple(text.tolist()), set()).add(hidden)
    assert len(seen) == 40
    assert max(len(masks) for masks in seen.values()) <= 10


def test_ten_copies_come_again_in_turn_in_another_order():
    samples = samples_of(random_store(), SentencePairs(), TokenMasking(static_masks=10))
    rows = [sorted(masks_by_text(samples, epoch, 32).values()) for epoch in range(13)]
    assert rows[0] == rows[10] and rows[2] == rows[12]
    assert len({tuple(epoch) for epoch in rows}) == 10
    assert not np.array_equal(samples.plan(0, 32)[1], samples.plan(10, 32)[1])


def test_masks_of_one_epoch_of_ten_are_those_of_the_first_of_dynamic_masking():
    store = random_store()
    static = samples_of(store, SentencePairs(), TokenMasking(static_masks=10)).batch(3, 0, 8, 32)
    assert equal(static, samples_of(store, SentencePairs(), TokenMasking()).batch(3, 0, 8, 32))


def test_next_goes_through_the_epochs_and_leaves_out_rows_that_fill_no_batch():
    samples = samples_of(random_store(count=10), EachDocument(), TokenMasking())
    position, seen = Place(), []
    for _ in range(5):
        batch, position = samples.next(position, 4, 64)
        seen.append((position.epoch, position.index, len(batch.source.tokens)))
    assert seen == [(0, 4, 4), (0, 8, 4), (1, 4, 4), (1, 8, 4), (2, 4, 4)]


def test_next_needs_nothing_but_the_position():
    store = random_store()
    through, position = samples_of(store), Place()
    for _ in range(30):
        batch, after = through.next(position, 8, 32)
        again, same = samples_of(store).next(position, 8, 32)
        assert equal(batch, again) and after == same
        position = after


@pytest.mark.parametrize("rows", [1, 3, 64, 10_000])
def test_an_epoch_smaller_than_a_batch_never_hangs(rows):
    samples = samples_of(store_of([[5, 6], [4, 4, 9], [7]]))
    position, epochs = Place(), set()
    for _ in range(12):
        batch, position = samples.next(position, rows, 32)
        assert 1 <= len(batch.source.tokens) <= rows
        assert (batch.targets != IGNORE).any(dim=1).all()  # every row has a target
        epochs.add(position.epoch)
    assert len(epochs) > 1


def test_documents_of_which_nothing_can_be_made_are_refused():
    @dataclass(frozen=True)
    class Nothing(EachDocument):
        def plan(self, store, documents, length, rng):
            return StretchPlan(stretches=np.zeros((0, 4), dtype=np.int64))

    with pytest.raises(InputError, match=r"Nothing makes no examples from the 3 documents\. `plm doctor` shows"):
        samples_of(store_of([[5], [6], [7]]), Nothing(), TokenMasking()).next(Place(), 4, 32)


def share_of_first(store: TokenStore, documents: np.ndarray) -> float:
    sizes, sources = store.document_tokens()[documents], store.sources[documents]
    return float(sizes[sources == 0].sum() / sizes.sum())


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (0.05, 0.95), (9, 1)])
def test_mix_weights_are_obeyed_to_a_hundredth(weights):
    rng = np.random.default_rng(0)
    long = [rng.integers(5, 40, 10).tolist() for _ in range(300)]
    short = [rng.integers(5, 20, 3).tolist() for _ in range(1500)]
    store = store_of(long + short, sources=[0] * 300 + [1] * 1500)
    documents = np.arange(1800)
    for epoch in range(3):
        mixed = mix(store, documents, weights, generator(epoch))
        assert share_of_first(store, mixed) == pytest.approx(weights[0] / sum(weights), abs=0.01)
        total = store.document_tokens()[mixed].sum() / store.document_tokens().sum()
        assert total == pytest.approx(1.0, abs=0.01)  # an epoch stays as long as it was


def test_rows_follow_the_mixture_where_documents_of_both_sources_are_equally_long():
    rng = np.random.default_rng(0)
    documents = [rng.integers(5, 20, 6).tolist() for _ in range(1500)]
    store = store_of(documents, sources=[0] * 1000 + [1] * 500)
    samples = samples_of(store, weights=(1, 3))
    begin = store.sentences[store.documents[1000]]  # tokens from here on are the second source's
    counts = np.zeros(2)
    for epoch in range(4):
        for first, last in samples.plan(epoch, 64)[0].stretches.reshape(-1, 2):
            counts[int(first >= begin)] += last - first
    assert counts[0] / counts.sum() == pytest.approx(0.25, abs=0.01)


def share_in_rows(samples: Samples, source: int, epochs: int = 3, length: int = 128) -> float:
    """A source's share of the tokens that the rows of some epochs hold."""
    counts = sum(
        tokens_by_source(samples.plan(epoch, length)[0], samples.store, len(samples.weights)).sum(axis=0)
        for epoch in range(epochs)
    )
    return float(counts[source] / counts.sum())


ARRANGED = [
    SentencePairs(),
    MixedPairs(),
    OrderedPairs(),
    FullSentences(),
    DocSentences(),
    SingleSegment(),
    ContiguousSegments(),
]


@pytest.mark.parametrize("arrangement", ARRANGED, ids=lambda arrangement: type(arrangement).__name__)
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.2, 0.8), (0.9, 0.1)])
def test_rows_obey_the_mix_where_documents_differ_much(arrangement, weights):
    rng = np.random.default_rng(0)
    books = [rng.integers(5, 40, 200).tolist() for _ in range(40)]
    notes = [rng.integers(2, 9, 3).tolist() for _ in range(4000)]
    store = store_of(books + notes, sources=[0] * 40 + [1] * 4000)
    samples = samples_of(store, arrangement, TokenMasking(), weights=weights)
    assert share_in_rows(samples, 0) == pytest.approx(weights[0], abs=0.01)


def test_rows_of_three_sources_obey_the_mix_and_a_source_without_documents_is_left_out():
    rng = np.random.default_rng(0)
    documents = [rng.integers(5, 40, size).tolist() for size in [150] * 60 + [3] * 1500 + [20] * 200]
    store = store_of(documents, sources=[0] * 60 + [1] * 1500 + [2] * 200)
    samples = samples_of(store, weights=(0.3, 0.3, 0.4))
    found = [share_in_rows(samples, source) for source in range(3)]
    assert found == pytest.approx([0.3, 0.3, 0.4], abs=0.01)
    without = Samples(store, np.arange(1560), (SentencePairs(), TokenMasking()), VOCABULARY, seed=0, weights=(1, 3, 9))
    assert share_in_rows(without, 1) == pytest.approx(0.75, abs=0.01)


def test_a_mix_drops_no_more_rows_than_it_must():
    rng = np.random.default_rng(0)
    documents = [rng.integers(5, 20, 6).tolist() for _ in range(1500)]
    samples = samples_of(store_of(documents, sources=[0] * 1000 + [1] * 500), FullSentences(), weights=(1, 3))
    assert samples.plan(0, 64)[0].tokens() > 0.97 * samples.store.document_tokens().sum()


def test_rows_with_weights_come_again_for_the_same_epoch():
    store = random_store(sources=[0] * 30 + [1] * 30)
    first, second = (samples_of(store, weights=(0.8, 0.2)) for _ in range(2))
    second.batch(3, 0, 8, 32)
    assert equal(first.batch(1, 0, 8, 32), second.batch(1, 0, 8, 32))


def test_without_weights_every_document_comes_once():
    store = random_store(count=7)
    assert mix(store, np.arange(7), (), generator(0)).tolist() == list(range(7))


def test_a_mix_repeats_small_sources_whole_before_it_repeats_parts():
    store = store_of([[10], [10], [10], [10]], sources=[0, 1, 1, 1])
    counts = Counter(mix(store, np.arange(4), (0.5, 0.5), generator(0)).tolist())
    assert counts[0] == 2
    assert max(counts[document] for document in (1, 2, 3)) == 1


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_held_out_documents_are_never_trained_on(share):
    store = random_store(count=200)
    parts = split(store, seed=3, share=share)
    assert sorted([*parts.train, *parts.valid]) == list(range(200))
    tokens = store.document_tokens()
    assert share <= tokens[parts.valid].sum() / tokens.sum() < share + tokens.max() / tokens.sum()
    assert np.array_equal(split(store, seed=3, share=share).valid, parts.valid)
    assert not np.array_equal(split(store, seed=4, share=share).valid, parts.valid)


@pytest.mark.parametrize(("count", "train", "valid"), [(1, 1, 0), (2, 1, 1), (3, 2, 1)])
def test_a_few_documents_are_never_all_held_out(count, train, valid):
    for share in (0.01, 0.5):
        parts: Split = split(store_of([[5, 5]] * count), seed=0, share=share)
        assert len(parts.train) >= 1
        if share == 0.01:
            assert (len(parts.train), len(parts.valid)) == (train, valid)


@pytest.mark.parametrize("seed", range(10))
def test_a_giant_is_not_held_out_where_there_are_others(seed):
    store = store_of([[1000] * 100, *([[10, 10]] * 300)])  # 100,000 tokens in the first of 106,000
    parts = split(store, seed=seed)
    assert 0 not in parts.valid
    held = store.document_tokens()[parts.valid].sum()
    assert 1060 <= held < 1060 + 20


@pytest.mark.parametrize("seed", range(10))
def test_among_giants_one_that_is_not_the_larger_half_is_held_out(seed):
    store = store_of([[100] * 100, [100] * 90, [100] * 30, [100] * 20])
    parts = split(store, seed=seed)
    assert len(parts.valid) == 1
    assert parts.valid[0] in (2, 3)


def test_two_documents_stay_to_train_on():
    store = store_of([[1000] * 100, [1000] * 100, [10], [10], [10]])  # the small ones are less than is wanted
    parts = split(store, seed=0)
    assert parts.train.tolist() == [0, 1]
    store = store_of([[1000] * 100, [10], [10], [10]])
    assert len(split(store, seed=0).train) == 2


def test_held_out_text_has_a_limit_and_can_be_none():
    store = store_of([[100]] * 50)
    assert len(split(store, seed=0, share=0.5, most=300).valid) == 3
    assert len(split(store, seed=0, share=0.0).valid) == 0
