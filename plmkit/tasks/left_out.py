"""Several tasks over the same input, of which some cannot read it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from plmkit.errors import InputError, PlmError
from plmkit.language import tr
from plmkit.tasks.contract import Task

Read = TypeVar("Read")


def readable(tasks: Sequence[Task], read: Callable[[Task], Read]) -> tuple[dict[str, Read], list[str]]:
    """What each task reads, by its name, and a line about each task that cannot; at least one must."""
    if len(tasks) == 1:
        return {tasks[0].name: read(tasks[0])}, []
    found, refused = {}, {}
    for task in tasks:
        try:
            found[task.name] = read(task)
        except PlmError as error:
            refused[task.name] = str(error).splitlines()[0]
    if not found:
        reasons = "\n".join(f"{name}: {reason}" for name, reason in refused.items())
        raise InputError(tr("None of the tasks can read these rows.\n{reasons}", reasons=reasons))
    remarks = [tr("Task {name} is left out. {reason}", name=name, reason=reason) for name, reason in refused.items()]
    return found, remarks
