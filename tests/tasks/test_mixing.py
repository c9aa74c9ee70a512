"""Batches of several tasks: each once per epoch and shuffled, in proportion, or one task after the other."""

from collections import Counter

import numpy as np
import pytest

from plmkit.data.samples import Place
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError
from plmkit.tasks.batches import LabelledExamples
from plmkit.tasks.contract import Example, Row
from plmkit.tasks.framing import Framed
from plmkit.tasks.kinds.classify import Classify
from plmkit.tasks.mixing import JointExamples, Mixing

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, "w"))
ROWS = {"a": 8, "b": 20, "c": 3}  # 2, 5 and 1 batches of four


def joint(mixing: Mixing = Mixing(), seed: int = 0, epochs: float = 2.0) -> JointExamples:
    sources = []
    for name, count in ROWS.items():
        framed = Framed(tokens=np.array([2, 5, 3]), second=3, cut=0)
        examples = [Example(row=Row(text="w", line=1), inputs=(framed,), label=number) for number in range(count)]
        sources.append(LabelledExamples(Classify(name=name), examples, WORDS, seed=seed, heads=frozenset({name})))
    return JointExamples(sources, mixing, seed=seed, epochs=epochs)


def read(source: JointExamples, batches: int) -> list[tuple[str, tuple[int, ...]]]:
    """The task and the rows of each batch."""
    place, found = Place(), []
    for _ in range(batches):
        batch, place = source.next(place, 4, 0)
        (name,) = batch.heads
        found.append((name, tuple(sorted(batch.labels.tolist()))))
    return found


def test_each_row_of_each_task_comes_once_per_epoch_and_the_tasks_are_shuffled():
    assert joint().batches(4) == 8
    found = read(joint(), 16)
    for epoch in (found[:8], found[8:]):
        for name, count in ROWS.items():
            assert sorted(row for task, rows in epoch for row in rows if task == name) == list(range(count))
    orders = [[name for name, _ in epoch] for epoch in (found[:8], found[8:])]
    assert orders[0] != orders[1]
    assert orders[0] != sorted(orders[0])


def test_the_order_is_a_pure_function_of_seed_and_place():
    assert read(joint(), 12) == read(joint(), 12)
    assert read(joint(seed=1), 8) != read(joint(), 8)
    batch, _ = joint().next(Place(epoch=1, index=3), 4, 0)
    (name,) = batch.heads
    assert (name, tuple(sorted(batch.labels.tolist()))) == read(joint(), 12)[11]


def test_a_ratio_takes_that_many_batches_of_the_others_per_batch_of_the_first():
    source = joint(Mixing(ratio=1.5))
    assert source.counts(4) == [2, 2, 1]  # 3 in all, in proportion to 5 and 1
    assert Counter(name for name, _ in read(source, 5)) == {"a": 2, "b": 2, "c": 1}
    rows = [row for name, rows in read(source, 15) if name == "b" for row in rows]
    assert sorted(rows[:20]) == list(range(20))  # what an epoch leaves is read in the next


def test_a_temperature_gives_small_tasks_more_batches():
    assert Mixing().counts([100, 1]) == [100, 1]
    assert Mixing(temperature=2.0).counts([100, 1]) == [92, 9]
    assert Mixing(temperature=1e5).counts([100, 1]) == [51, 50]


def test_sequential_training_finishes_one_task_before_the_next():
    names = [name for name, _ in read(joint(Mixing(order="sequential")), 16)]
    assert names == ["a"] * 4 + ["b"] * 10 + ["c"] * 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"order": "random"}, "order takes joint, sequential; found 'random'"),
        ({"ratio": 0.0}, "ratio must be a number above 0"),
        ({"temperature": 0.5}, "temperature must be 1 or more"),
        ({"ratio": 1.0, "temperature": 2.0}, "Give one of them"),
    ],
)
def test_settings_without_sense_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        Mixing(**settings)
