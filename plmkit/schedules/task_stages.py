"""Stages for several pretraining tasks, each a stream: all tasks get the same number of steps, in another order."""

from collections.abc import Callable, Sequence

from plmkit.schedules.schedule import Stage


def continual(tasks: Sequence[str], length: int) -> tuple[Stage, ...]:
    """Continual multi-task learning: stage k trains tasks 1 to k (Sun et al., 2020, 3.2).

    Of n tasks, each trains 1 / (n + 1) of its steps in every stage after its first, and the rest in its first: with 4
    tasks of 50,000 steps, the first trains 20,000, 10,000, 10,000 and 10,000 and the last 50,000.
    """
    count = len(tasks)
    return tuple(
        Stage(
            until=number * (number + 1) / (count * (count + 1)),
            length=length,
            streams=tuple(tasks[:number]),
            shares=(*(1 for _ in tasks[: number - 1]), number + 1),
        )
        for number in range(1, count + 1)
    )


def sequential(tasks: Sequence[str], length: int) -> tuple[Stage, ...]:
    """Plain continual learning: one task after another, each in a stage of its own."""
    count = len(tasks)
    return tuple(
        Stage(until=number / count, length=length, streams=(task,), shares=(1,))
        for number, task in enumerate(tasks, start=1)
    )


def joint(tasks: Sequence[str], length: int) -> tuple[Stage, ...]:
    """Plain multi-task learning: all tasks from the beginning, in one stage."""
    return (Stage(length=length, streams=tuple(tasks), shares=tuple(1 for _ in tasks)),)


TASK_STAGES: dict[str, Callable[[Sequence[str], int], tuple[Stage, ...]]] = {
    "continual": continual,
    "sequential": sequential,
    "joint": joint,
}
