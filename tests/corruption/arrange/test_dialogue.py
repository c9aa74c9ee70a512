"""Turns of dialogues: patterns, roles, and utterances from elsewhere."""

from collections import Counter

import numpy as np
import pytest
from stores import all_documents, document_of, store_of, times_seen

from plmkit.corruption.arrange.dialogue import Dialogue, shortened
from plmkit.data.randomness import generator
from plmkit.data.rows import fill
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import InputError, SettingError

WORDS = Vocabulary.from_tokens([*SPECIAL_TOKENS, *(f"w{number}" for number in range(400))])


def plan_of(store, length=128, seed=0, **settings):
    return Dialogue(**settings).plan(store, all_documents(store), length, generator(seed))


def talk_store(dialogues=3000, turns=9, seed=0):
    """Turns of one to three sentences of three tokens."""
    rng = np.random.default_rng(seed)
    documents, lines = [], []
    for _ in range(dialogues):
        counts = rng.integers(1, 4, turns)
        documents.append([3] * int(counts.sum()))
        lines += [number == 0 for count in counts for number in range(count)]
    return store_of(*documents, lines=lines)


def patterns(plan) -> Counter:
    filled = plan.stretches[:, 1::2] > plan.stretches[:, ::2]
    names = np.where(plan.segments == 0, "Q", "R")
    return Counter("".join(row[here]) for row, here in zip(names, filled, strict=True))


def test_rows_are_three_utterances_in_three_patterns():
    found = patterns(plan_of(talk_store()))
    assert set(found) == {"QRQ", "QRR", "QQR"}
    assert min(found.values()) > 0.15 * sum(found.values())


def test_speakers_take_turns_and_a_role_never_changes_within_one():
    """Q is who speaks first in the row; the two R of QRR are one turn, cut between two of its sentences."""
    store = talk_store(500)
    turn = np.cumsum(store.lines)  # of each sentence
    plan = plan_of(store, fake=0.0)
    assert not plan.labels["mixed_dialogue"].any()
    for stretches, roles in zip(plan.stretches.reshape(-1, 3, 2), plan.segments, strict=True):
        assert stretches[0, 1] == stretches[1, 0] and stretches[1, 1] == stretches[2, 0]  # side by side
        spoken = turn[np.searchsorted(store.sentences, stretches[:, 0])]
        assert np.isin(stretches, store.sentences).all()
        assert ((spoken - spoken[0]) % 2 == roles).all()
        assert spoken[2] - spoken[0] == (2 if roles.tolist() == [0, 1, 0] else 1)


def test_half_of_the_rows_have_one_utterance_of_another_dialogue():
    store = talk_store()
    plan = plan_of(store)
    assert len(plan) > 9000
    assert plan.labels["mixed_dialogue"].mean() == pytest.approx(0.50, abs=0.015)
    document = document_of(store, plan.stretches[:, ::2])
    different = np.array([len(set(row)) for row in document.tolist()])
    assert (different[plan.labels["mixed_dialogue"] == 0] == 1).all()
    assert (different[plan.labels["mixed_dialogue"] == 1] == 2).all()
    odd = [Counter(row).most_common() for row in document[plan.labels["mixed_dialogue"] == 1].tolist()]
    assert all(counts[0][1] == 2 and counts[1][1] == 1 for counts in odd)
    place = [
        row.index(counts[1][0])
        for row, counts in zip(document[plan.labels["mixed_dialogue"] == 1].tolist(), odd, strict=True)
    ]
    assert np.bincount(place) / len(place) == pytest.approx([1 / 3] * 3, abs=0.03)  # a question or an answer


def test_every_turn_is_in_some_row():
    store = talk_store(200)
    assert (times_seen(store, plan_of(store, fake=0.0)) >= 1).all()


def test_roles_are_the_segments_of_the_row():
    store = store_of([2, 3, 2], [4, 4, 4], lines=[1] * 6)
    plan = plan_of(store, fake=0.0)
    rows = fill(store, plan, np.array([0]), WORDS, 32)
    cls, sep = WORDS.cls, WORDS.sep
    assert rows.tokens[0, rows.visible[0]].tolist() == [cls, 0, 1, sep, 2, 3, 4, sep, 5, 6, sep]
    assert rows.segments[0, rows.visible[0]].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert rows.mixed_dialogue.tolist() == [0]


def test_a_dialogue_of_two_short_turns_is_a_row_of_two():
    store = store_of([4, 5], [3, 3], lines=[1, 1, 1, 1])
    assert patterns(plan_of(store)) == Counter({"QR": 2})


def test_a_dialogue_of_one_turn_gives_no_row():
    store = store_of([4, 5], [3, 3], lines=[1, 0, 1, 1])
    assert len(plan_of(store)) == 1


def test_where_lines_are_not_known_a_sentence_is_a_turn():
    assert patterns(plan_of(store_of(*([[4] * 7] * 20)))) == Counter({"QRQ": 60})


@pytest.mark.parametrize("length", [7, 16, 64])
def test_rows_fit_and_no_utterance_is_empty(length):
    rng = np.random.default_rng(0)
    store = store_of(*(rng.integers(1, 60, 6).tolist() for _ in range(200)))
    sizes = plan_of(store, length).stretches
    sizes = sizes[:, 1::2] - sizes[:, ::2]
    assert sizes.min() >= 1
    assert sizes.sum(axis=1).max() == length - 4


def test_the_longest_utterance_gives_way():
    sizes = np.array([[5, 5, 5], [2, 30, 9], [40, 50, 60], [0, 20, 3]])
    assert shortened(sizes, 21).tolist() == [[5, 5, 5], [2, 10, 9], [7, 7, 7], [0, 18, 3]]


def test_text_without_turns_is_refused_with_advice():
    with pytest.raises(
        InputError, match=r"talk\.txt: dialogues need at least two documents .* found 2 with at most 1\.\nPut each"
    ):
        Dialogue().check(store_of([4, 5], [3, 3], lines=[1, 0, 1, 0]), np.arange(2), "talk.txt")
    with pytest.raises(InputError, match="found 1 with at most 2"):
        Dialogue().check(store_of([4, 5], lines=[1, 1]), np.arange(1), "talk.txt")
    Dialogue().check(store_of([4, 5], [3], lines=[1, 1, 1]), np.arange(2), "talk.txt")


def test_the_same_seed_gives_the_same_rows():
    store = talk_store(100)
    first, again, other = (plan_of(store, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.stretches, again.stretches) and np.array_equal(first.segments, again.segments)
    assert not np.array_equal(first.labels["mixed_dialogue"][:50], other.labels["mixed_dialogue"][:50])


def test_a_share_is_a_share():
    with pytest.raises(SettingError, match=r"corruption\.fake must be a share of the rows, from 0 to 1; found 2"):
        Dialogue(fake=2)
