"""Rows of a training file that are held out as dev, where no file is given for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plmkit.data.randomness import generator
from plmkit.errors import InputError
from plmkit.language import tr
from plmkit.tasks.contract import Labelled, Row, Task

HELD_OUT = 14  # key of the random numbers: the same rows for every --seed, so that their scores can be compared
FEWEST = 20  # rows to hold out, at least; fewer choose an epoch by chance
TRAINED = 9  # times as many rows must be left to train on: of 100 rows, each is needed for training
TEXTS = 5  # that are held out as a whole, at least, to choose from


def split(rows: Sequence[Row], task: Task, share: float) -> tuple[list[Row], list[Row]] | None:
    """The rows to train on and those held out, each label in like shares; None: there are too few to split."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(tuple(str(vars(row)[name]).strip() for name in task.together), []).append(number)
    if len(rows) < FEWEST * (1 + TRAINED) or len(groups) < TEXTS:
        return None
    strata: dict[str, list[list[int]]] = {}
    found = task.strata(rows)
    shuffled = generator(0, HELD_OUT).permutation(len(groups))
    members = list(groups.values())
    for place in shuffled:
        strata.setdefault(found[members[place][0]], []).append(members[place])
    spare = [group for stratum in sorted(strata) for group in strata[stratum][1:]]  # one of each label is trained on
    wanted = min(max(1, round(max(share, FEWEST / len(rows)) * len(groups))), len(spare))
    chosen = np.floor((np.arange(wanted) + 0.5) * len(spare) / max(1, wanted)).astype(int)
    held = {number for place in chosen for number in spare[place]}
    kept, dev = ([row for number, row in enumerate(rows) if (number in held) == wants] for wants in (False, True))
    return (kept, dev) if dev and len(kept) >= len(dev) and are_fit(kept, dev, task) else None


def are_fit(kept: Sequence[Row], dev: Sequence[Row], task: Task) -> bool:
    """Whether the task can be trained on the one and scored on the other."""
    try:
        task.learn(kept, Path())
        task.check(dev, Path())
    except InputError:
        return False
    return True


def hold_out(files: dict[str, Labelled], task: Task, share: float) -> tuple[dict[str, Labelled], str]:
    """The files with a share of train as dev, and what to say about it."""
    train = files["train"]
    if (parts := split(train.rows, task, share)) is None:
        return files, tr(
            "{path}: {rows:,} rows are too few to hold out some as dev, so the last epoch is kept. Rows of --dev would "
            "choose the best one.",
            path=train.path,
            rows=len(train.rows),
        )
    kept, dev = parts
    said = tr(
        "{path}: {held:,} of its {rows:,} rows are held out as dev, chosen at random{evenly} (task.dev_share="
        "{share:g}; 0 trains on all rows and keeps the last epoch).",
        path=train.path,
        held=len(dev),
        rows=len(train.rows),
        evenly=tr(" within each label") if len(set(task.strata(train.rows))) > 1 else "",
        share=share,
    )
    made = {"train": Labelled(path=train.path, rows=kept, columns=train.columns, names=train.names)}
    return files | made | {"dev": Labelled(path=train.path, rows=dev, columns=train.columns, names=train.names)}, said
