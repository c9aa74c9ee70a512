"""Stages for several tasks: their sets and budgets are exact, whatever ends the run."""

from collections import Counter

import pytest

from plmkit.data.mixture_source import FedStream, MixtureSource
from plmkit.schedules.schedule import Stage, stage_at
from plmkit.schedules.task_stages import TASK_STAGES, continual, joint, sequential

SEVEN = tuple("abcdefg")


class Nothing:
    def next(self, place, rows, length):
        raise AssertionError("only the order of the streams is looked at")


def steps_of(stages: tuple[Stage, ...], steps: int, *, known: bool = True, seed: int = 0) -> Counter[tuple[int, str]]:
    """The number of steps of each stream in each stage, from 1."""
    names = tuple(dict.fromkeys(name for stage in stages for name in stage.streams))
    source = MixtureSource(
        {name: FedStream(feed=Nothing()) for name in names}, stages, seed=seed, steps=steps if known else None
    )
    found: Counter[tuple[int, str]] = Counter()
    owed = {}
    for step in range(steps):
        number = stage_at(stages, step / steps)
        name, owed = source.chosen(number, step, owed)
        found[number + 1, name] += 1
    return found


def by_task(found: Counter[tuple[int, str]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for (_, name), count in found.items():
        total[name] += count
    return dict(total)


def test_four_tasks_of_fifty_steps_have_the_budgets_of_the_papers_table():
    """20 10 10 10, - 30 10 10, - - 40 10, - - - 50 (Sun et al., 2020)."""
    assert steps_of(continual("abcd", 8), 200) == {
        (1, "a"): 20, (2, "a"): 10, (3, "a"): 10, (4, "a"): 10,
        (2, "b"): 30, (3, "b"): 10, (4, "b"): 10,
        (3, "c"): 40, (4, "c"): 10,
        (4, "d"): 50,
    }  # fmt: skip


def test_seven_tasks_train_an_eighth_of_their_steps_in_each_later_stage():
    found = steps_of(continual(SEVEN, 8), 56 * 7)
    for number, task in enumerate(SEVEN, start=1):
        in_stages = [found[stage, task] for stage in range(1, 8)]
        assert in_stages == [0] * (number - 1) + [7 * (number + 1)] + [7] * (7 - number)
    assert set(by_task(found).values()) == {56}


def test_stage_k_trains_exactly_tasks_1_to_k():
    assert [set(stage.streams) for stage in continual("abcd", 8)] == [set("a"), set("ab"), set("abc"), set("abcd")]
    found = steps_of(continual(SEVEN, 8), 500)
    for number in range(1, 8):
        assert {name for stage, name in found if stage == number} == set(SEVEN[:number])


def test_the_other_schedules_train_one_task_after_another_or_all_from_the_beginning():
    assert [stage.streams for stage in sequential("abc", 8)] == [("a",), ("b",), ("c",)]
    assert steps_of(sequential("abc", 8), 30) == {(1, "a"): 10, (2, "b"): 10, (3, "c"): 10}
    assert [stage.streams for stage in joint("abc", 8)] == [("a", "b", "c")]
    assert steps_of(joint("abc", 8), 30) == {(1, "a"): 10, (1, "b"): 10, (1, "c"): 10}


@pytest.mark.parametrize("kind", TASK_STAGES)
@pytest.mark.parametrize("steps", [7, 63, 100, 700, 1001])
def test_every_task_gets_its_steps_whatever_their_number(kind, steps):
    """700 is no multiple of 56, so that stages end within a step; 100 is no multiple of 7 either."""
    found = by_task(steps_of(TASK_STAGES[kind](SEVEN, 8), steps))
    assert sum(found.values()) == steps
    assert set(found.values()) <= {steps // 7, -(-steps // 7)}


@pytest.mark.parametrize("steps", [61, 100, 997])
def test_without_a_number_of_steps_each_task_is_within_a_step_of_its_share(steps):
    stages = continual(SEVEN, 8)
    found = steps_of(stages, steps, known=False)
    lengths = Counter(stage_at(stages, step / steps) for step in range(steps))
    due: Counter[str] = Counter()
    for number, stage in enumerate(stages):
        for name, share in zip(stage.streams, stage.shares, strict=True):
            due[name] += lengths[number] * share / sum(stage.shares)
    for name, count in by_task(found).items():
        assert abs(count - due[name]) < 1


def test_tasks_take_turns_within_a_stage():
    """No run of one task that its share does not explain: 4 of 6 steps are never more than four in a row."""
    stages = continual("abc", 8)
    source = MixtureSource({name: FedStream(feed=Nothing()) for name in "abc"}, stages, seed=0, steps=120)
    owed, last = {}, []
    for step in range(60, 120):
        name, owed = source.chosen(2, step, owed)
        last.append(name)
    assert Counter(last) == {"a": 10, "b": 10, "c": 40}
    assert "ccccc" not in "".join(last)
