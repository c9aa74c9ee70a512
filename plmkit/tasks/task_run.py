"""One of the tasks that a network is trained on: its examples, its head and its scores."""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from plmkit.data.samples import Place
from plmkit.data.vocabulary import Vocabulary
from plmkit.network import Network
from plmkit.tasks.batches import LabelledExamples, answers_of, evaluate, tune
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.floor import Floor, Mix
from plmkit.tasks.heads import TaskHead
from plmkit.training.checkpoint import weights_of


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task with its examples, framed once for all seeds and epochs."""

    task: Task
    train: list[Example]
    dev: list[Example]
    test: list[Example]
    sample: list[Example] = field(default_factory=list)  # of the training rows, to score
    floor: Floor | None = None  # where the head reads n-grams

    @property
    def scored(self) -> dict[str, list[Example]]:
        """What there is of dev and test."""
        return {name: some for name, some in (("dev", self.dev), ("test", self.test)) if some}

    def rows(self, part: str) -> list[Row]:
        """The rows of `train`, `dev` or `test`."""
        return list({id(example.row): example.row for example in vars(self)[part]}.values())  # a row may have windows


class TaskRun:
    """One of the tasks that a network is trained on: its head and its scores."""

    def __init__(self, data: TaskData, network: Network, vocabulary: Vocabulary, device: torch.device) -> None:
        self.data, self.task = data, data.task
        self.network, self.vocabulary, self.device = network, vocabulary, device
        self.head = cast(TaskHead, network.heads[data.task.name])
        self.stem = f"heads.{data.task.name}"
        self.baseline = data.task.baseline(data.rows("train"), data.rows("dev")) if data.dev else None

    def fit(self, source: LabelledExamples, rows: int) -> None:
        """Initialise the head from the labels, and the states of a first batch."""
        first = source.next(Place(), rows, self.task.length)[0].to(self.device)
        self.network.eval()
        with torch.no_grad():
            self.head.fit(
                lambda: self.task.labels(self.data.train, self.vocabulary, self.task.length),
                lambda: (self.network.states(first), first),
            )

    @torch.inference_mode()
    def dev_scores(self) -> tuple[Task, dict[str, Any], Mix | None]:
        """The task as dev determines it, and its scores; with n-grams, those of the best mix with the linear model."""
        data = self.data
        if data.floor is None:
            return *self.tuned_on(data.dev), None
        self.network.eval()
        joint = answers_of(self.network, data.task, data.dev, self.vocabulary, self.device)
        weight = self.head.in_units(weights_of(self.network), self.stem)[f"{self.stem}.ngrams.weight"]
        mix, task, scores = data.floor.choose(joint, weight.detach().cpu())
        return task, scores, mix

    def tuned_on(self, examples: list[Example]) -> tuple[Task, dict[str, Any]]:
        """The task with what labelled examples determine of it, and its scores on them."""
        return tune(self.network, self.task, examples, self.vocabulary, self.device)

    def scores(self, task: Task, examples: list[Example]) -> dict[str, Any]:
        return evaluate(self.network, task, examples, self.vocabulary, self.device)

    def finished(self, weights: dict[str, Tensor], mix: Mix | None) -> dict[str, Tensor]:
        """The weights in the units of the labels, mixed with the linear model."""
        weights = self.head.in_units(weights, self.stem)
        return self.data.floor.mixed(weights, self.stem, mix) if mix and self.data.floor else weights
