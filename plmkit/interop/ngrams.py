"""The n-grams of a classifier, in two files beside a network that other libraries load."""

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from plmkit.storage.tensors import load_tensors, save_tensors
from plmkit.tasks.contract import Task
from plmkit.tasks.ngrams import Ngrams, load_ngrams, save_ngrams
from plmkit.tasks.registry import LABEL
from plmkit.training.run_folder import NGRAMS

TENSORS = "ngrams.safetensors"
FILES = (NGRAMS, TENSORS)


@dataclass(frozen=True, kw_only=True)
class NgramFiles:
    """The n-grams of the only task, and the weights with which its head reads them."""

    ngrams: Ngrams
    weights: dict[str, Tensor]  # by their names in the head

    def save(self, folder: Path) -> None:
        save_ngrams(folder, {LABEL: self.ngrams})
        save_tensors(folder / TENSORS, self.weights)


Tasks = tuple[Task, ...]
Weights = dict[str, Tensor]


def apart(tasks: Tasks, weights: Weights) -> tuple[Tasks, Weights, NgramFiles | None]:
    """A model's tasks and weights without the n-grams of its only task, and these."""
    if len(tasks) != 1 or (ngrams := tasks[0].ngrams) is None:
        return tasks, weights, None
    stem = f"heads.{tasks[0].name}.ngrams."
    taken = {name.removeprefix(stem): weight for name, weight in weights.items() if name.startswith(stem)}
    kept = {name: weight for name, weight in weights.items() if not name.startswith(stem)}
    return (replace(tasks[0], ngrams=None),), kept, NgramFiles(ngrams=ngrams, weights=taken)


def joined(folder: Path, task: Task, weights: Weights) -> tuple[Task, Weights]:
    """The task and the weights that a folder holds, with the n-grams beside them."""
    found, path = load_ngrams(folder).get(LABEL), folder / TENSORS
    if found is None or not path.is_file():
        return task, weights
    more = {f"heads.{task.name}.ngrams.{name}": weight for name, weight in load_tensors(path).items()}
    return replace(task, ngrams=found), weights | more
