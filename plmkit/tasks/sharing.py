"""Several tasks over the same rows: which of them the model can read once for all."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from plmkit.tasks.batches import one_by_one
from plmkit.tasks.contract import Example, Task

Framed = Mapping[int, Example]  # by the number of its row; rows without text are left out
MOSTLY = 0.5  # share of the rows that tasks must read alike to be read together


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Rows that one or several tasks read alike."""

    tasks: Sequence[Task]
    numbers: Sequence[int]  # of the rows
    examples: Sequence[Sequence[Example]]  # of each task, one per row

    @property
    def steps(self) -> int:
        """What is grouped into batches: examples or, where these are read apart, their inputs or windows."""
        task, examples = self.tasks[0], self.examples[0]
        if task.apart:
            return sum(len(one.inputs) for one in examples)
        return len(one_by_one(task, examples))


def passes_of(tasks: Sequence[Task], framed: Mapping[str, Framed]) -> list[Pass]:
    """Tasks that read most rows alike together, and each alone over the other rows."""
    groups: list[list[Task]] = []
    for task in tasks:
        home = next((some for some in groups if are_alike(task, some[0], framed)), None)
        if home is None:
            groups.append([task])
        else:
            home.append(task)
    passes = []
    for some in groups:
        shared = shared_rows([framed[task.name] for task in some])
        passes.append(pass_over(some, shared, framed))
        passes += [pass_over([task], framed[task.name].keys() - shared, framed) for task in some]
    return [one for one in passes if one.numbers]


def are_alike(task: Task, other: Task, framed: Mapping[str, Framed]) -> bool:
    """Whether two tasks read most rows alike."""
    if task.apart or other.apart or (task.windows, task.fixed_length) != (other.windows, other.fixed_length):
        return False
    first, second = framed[task.name], framed[other.name]
    return len(shared_rows([first, second])) >= MOSTLY * max(1, len(first), len(second))


def shared_rows(framed: Sequence[Framed]) -> set[int]:
    """The rows that all tasks read alike."""
    first, *others = framed
    return {
        number
        for number, one in first.items()
        if all(number in other and same_inputs(one, other[number]) for other in others)
    }


def same_inputs(one: Example, other: Example) -> bool:
    """Whether a model computes the same states for both, and these are joined alike."""
    return (len(one.inputs), one.windows) == (len(other.inputs), other.windows) and all(
        first.second == second.second and np.array_equal(first.tokens, second.tokens)
        for first, second in zip(one.inputs, other.inputs, strict=True)
    )


def pass_over(tasks: Sequence[Task], rows: Set[int], framed: Mapping[str, Framed]) -> Pass:
    numbers = sorted(rows)
    return Pass(tasks=tasks, numbers=numbers, examples=[[framed[task.name][one] for one in numbers] for task in tasks])
