"""What is saved of a seed while it trains, so that the same command continues inside it."""

import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from plmkit.data.reading.columns import Say
from plmkit.errors import CheckpointError
from plmkit.language import tr
from plmkit.tasks.contract import Task
from plmkit.tasks.seed_result import SeedResult, load_result, save_result
from plmkit.training.checkpoint import KEPT, load_checkpoint
from plmkit.training.loop import State
from plmkit.training.step import Step
from plmkit.training.watch import Checkpoints

EVERY_SECONDS = 60.0  # between two checkpoints, at least
SAVING_SHARE = 0.05  # of the time that writing them may take
BEST = re.compile(r"best-(\d+)")


class SeedSaves:
    """Checkpoints of a seed, with its best epoch so far in a folder beside them."""

    def __init__(self, folder: Path, step: Step, task: Task) -> None:
        self.folder, self.step, self.task = folder, step, task
        self.checkpoints = Checkpoints(folder, step, every=1, saved=0)
        self.due = time.monotonic() + EVERY_SECONDS

    def load(self, say: Say) -> tuple[State, SeedResult | None]:
        """Where the seed was when it was last saved, and its best epoch; the network has the weights of then."""
        state = load_checkpoint(self.folder, self.step.network, self.step.optimizer, say)
        if state is None:
            return State(), None
        self.checkpoints.saved = state.step
        if state.notes["best"] is None:
            return state, None
        path = self.best(state.notes["best"])
        if (result := load_result(path, self.task)) is None:
            raise CheckpointError(
                tr(
                    "{path} is damaged, so this seed cannot be continued.\n"
                    "Remove {folder} and run the same command again: the seed starts again.",
                    path=path,
                    folder=self.folder,
                )
            )
        return state, result

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self.due

    def save(self, state: State, best: SeedResult | None, notes: dict[str, Any]) -> None:
        """The best epoch first: a checkpoint names the one that it belongs to."""
        started = time.monotonic()
        if best is not None and not self.best(best.scores["step"]).is_dir():
            save_result(self.best(best.scores["step"]), best)
        self.checkpoints.save(replace(state, notes={**notes, "best": best and best.scores["step"]}))
        for old in sorted(path for path in self.folder.iterdir() if BEST.fullmatch(path.name))[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        ended = time.monotonic()
        self.due = ended + max(EVERY_SECONDS, (ended - started) / SAVING_SHARE)

    def best(self, step: int) -> Path:
        return self.folder / f"best-{step:08d}"
