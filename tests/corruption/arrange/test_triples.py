"""Rows of triples: what is masked, what is to be predicted, and that no negative is a true triple."""

from dataclasses import replace

import numpy as np
import pytest
from stores import store_of

from plmkit.corruption.arrange.triples import (
    HEAD,
    TAIL,
    CorruptedTriples,
    EntityCloze,
    MissingEntity,
    MissingRelation,
    corrupted,
)
from plmkit.data.batch import IGNORE
from plmkit.data.graph import contained, keys_of
from plmkit.data.randomness import generator
from plmkit.data.vocabulary import ROBERTA_NAMES, SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError

NAMES = ("new", "york", "in", "usa", "south", "united", "states")
WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, *NAMES))
# new york (0) – in (0) – usa (1); south new york (2) – in (0) – united states (3)
STORE = store_of([2, 1, 1], [3, 1, 2])
STORE = replace(
    STORE,
    tokens=np.array([WORDS.tokens.index(word) for word in "new york in usa south new york in united states".split()]),
    triples=np.array([[0, 0, 1], [2, 0, 3]]),
)


def filled(kind, vocabulary=WORDS, length=32, store=STORE):
    plan = kind.plan(store, np.arange(len(store.triples)), length, generator(0))
    return kind.fill(store, plan, np.arange(len(plan)), vocabulary, length)


def texts(rows, vocabulary=WORDS) -> list[str]:
    return [" ".join(vocabulary.names(tokens[shown])) for tokens, shown in zip(rows.tokens, rows.visible, strict=True)]


def test_an_entity_is_one_mask_whatever_its_name_and_is_predicted_there():
    rows = filled(MissingEntity())
    assert texts(rows) == [
        "[CLS] new york [SEP] in [SEP] [MASK] [SEP]",
        "[CLS] south new york [SEP] in [SEP] [MASK] [SEP]",
        "[CLS] [MASK] [SEP] in [SEP] usa [SEP]",
        "[CLS] [MASK] [SEP] in [SEP] united states [SEP]",
    ]
    at = [(row, place, entity) for row, places in enumerate(rows.entities) for place, entity in enumerate(places)
          if entity != IGNORE]  # fmt: skip
    assert at == [(0, 6, 1), (1, 7, 3), (2, 1, 0), (3, 1, 2)]
    assert rows.segments[0].tolist()[:8] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert texts(filled(MissingEntity(both=False))) == texts(rows)[:2]


def test_a_cloze_has_a_mask_for_each_token_of_the_name():
    rows = filled(EntityCloze())
    assert texts(rows) == [
        "[CLS] new york [SEP] in [SEP] [MASK] [SEP]",
        "[CLS] south new york [SEP] in [SEP] [MASK] [MASK] [SEP]",
        "[CLS] [MASK] [MASK] [SEP] in [SEP] usa [SEP]",
        "[CLS] [MASK] [MASK] [MASK] [SEP] in [SEP] united states [SEP]",
    ]
    answers = [" ".join(WORDS.names(row[row != IGNORE])) for row in rows.targets]
    assert answers == ["usa", "united states", "new york", "south new york"]


def test_a_relation_is_predicted_from_the_two_entities():
    rows = filled(MissingRelation())
    assert texts(rows) == ["[CLS] new york [SEP] usa [SEP]", "[CLS] south new york [SEP] united states [SEP]"]
    assert rows.relation.tolist() == [0, 0]
    assert rows.segments[0].tolist()[:6] == [0, 0, 0, 0, 1, 1]


def test_true_triples_and_corrupted_ones_are_in_segments_0_1_0():
    rows = filled(CorruptedTriples(negatives=2))
    assert texts(rows)[:2] == [
        "[CLS] new york [SEP] in [SEP] usa [SEP]",
        "[CLS] south new york [SEP] in [SEP] united states [SEP]",
    ]
    assert rows.segments[0].tolist()[:8] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert rows.corrupted_triple.tolist() == [0, 0, 1, 1, 1, 1]
    assert not set(texts(rows)[2:]) & set(texts(rows)[:2])


def test_one_segment_and_two_separators_are_as_in_roberta():
    roberta = Vocabulary.from_tokens((*ROBERTA_NAMES, *NAMES))
    roberta = replace(roberta, separators=2, second=0)
    rows = filled(MissingEntity().in_one_segment(), roberta)
    assert texts(rows, roberta)[:1] == ["<s> new york </s> in </s> <mask> </s>"]
    assert not rows.segments.any()
    two = replace(roberta, second=1)  # two segments, and two separators between them
    rows = filled(MissingEntity(), two)
    assert texts(rows, two)[0] == "<s> new york </s> </s> in </s> <mask> </s>"
    assert texts(rows, two)[2] == "<s> <mask> </s> </s> in </s> usa </s>"
    assert (np.asarray(rows.entities != IGNORE) == (rows.tokens == two.mask)).all()


def test_nothing_of_an_answer_is_in_its_row():
    """The rows of two triples that differ in their tail alone are the same, but for what they ask."""
    store = replace(STORE, tokens=STORE.tokens.copy())
    store.tokens[3] = WORDS.tokens.index("south")  # in place of usa
    for kind in (MissingEntity(both=False), EntityCloze(both=False)):
        before, after = filled(kind), filled(kind, store=store)
        assert np.array_equal(before.tokens, after.tokens)
    assert not np.array_equal(before.targets, after.targets)


def test_long_names_are_cut_so_that_rows_fit():
    rows = filled(CorruptedTriples(), length=8)
    assert rows.tokens.shape[1] == 8
    assert texts(rows)[1] == "[CLS] south new [SEP] in [SEP] united [SEP]"
    cloze = filled(EntityCloze(), length=8)
    assert (cloze.tokens == WORDS.mask).any(1).all()


def random_graph(entities: int, relations: int, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    drawn = np.stack([rng.integers(size, size=count) for size in (entities, relations, entities)], axis=1)
    return np.unique(drawn, axis=0)


def test_a_negative_is_never_a_true_triple_and_changes_one_side_by_a_coin_flip():
    known = random_graph(20, 3, 900)  # of 1,200 possible
    train = known[::2]
    false = corrupted(np.repeat(train, 20, axis=0), known, generator(0), (np.arange(20), np.arange(3)))
    assert len(false) == 20 * len(train)
    true = {tuple(row) for row in known.tolist()}
    assert not {tuple(row) for row in false.tolist()} & true  # held-out triples neither
    given = np.repeat(train, 20, axis=0)
    changed = false != given
    assert (changed.sum(1) == 1).all() and not changed[:, 1].any()
    assert 0.45 < changed[:, TAIL].mean() < 0.55
    assert 0.45 < changed[:, HEAD].mean() < 0.55
    assert set(false[:, TAIL]) == set(range(20))


def test_a_triple_that_cannot_be_corrupted_is_left_out():
    complete = np.array([[head, 0, tail] for head in range(3) for tail in range(3)])
    assert len(corrupted(complete, complete, generator(0), (np.arange(3), np.arange(1)))) == 0


def test_a_negative_never_reads_as_a_true_triple():
    """Of two cities that are both called new york, one is in the usa: that the other is too would read as true."""
    store = store_of([2, 1, 1], [2, 1, 1])
    tokens = [WORDS.tokens.index(word) for word in "new york in usa new york in states".split()]
    store = replace(store, tokens=np.array(tokens), triples=np.array([[0, 0, 1], [2, 0, 3]]))
    rows = filled(CorruptedTriples(negatives=50), store=store)
    true = {text for text, false in zip(texts(rows), rows.corrupted_triple, strict=True) if not false}
    negative = {text for text, false in zip(texts(rows), rows.corrupted_triple, strict=True) if false}
    assert true == {f"[CLS] new york [SEP] in [SEP] {place} [SEP]" for place in ("usa", "states")}
    assert len(negative) > 3 and not negative & true


def test_membership_by_keys_is_membership_of_sets():
    some = random_graph(10, 2, 60)
    keys = np.sort(keys_of(some, 10, 2))
    assert len(set(keys.tolist())) == len(some)
    every = np.array([[head, relation, tail] for head in range(10) for relation in range(2) for tail in range(10)])
    found = contained(keys_of(every, 10, 2), keys)
    assert {tuple(row) for row in every[found].tolist()} == {tuple(row) for row in some.tolist()}
    assert not contained(np.array([3]), np.zeros(0, dtype=np.int64)).any()


def test_the_same_seed_and_epoch_give_the_same_negatives_and_others_differ():
    kind, documents = CorruptedTriples(negatives=5), np.arange(2)
    first, again, other = (
        kind.plan(STORE, documents, 32, generator(seed)).stretches.tolist() for seed in (0, 0, 1)
    )  # fmt: skip
    assert first == again != other


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="negatives must be at least 1"):
        CorruptedTriples(negatives=0)
    with pytest.raises(SettingError, match="relation_segment must be 0 or 1"):
        MissingEntity(relation_segment=2)
