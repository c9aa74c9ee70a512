"""A student's head of a task compared with the answers of its teacher."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.objectives.contract import Head
from plmkit.objectives.distillation import soft_answers, soft_binary

PROBLEMS = ("classification", "multilabel", "regression", "choice")  # of tasks whose answers can be compared
NAME = "soft_answers"


class SoftAnswersHead(Head):
    """Has no weights: it compares what the head of the task answers; from a share of the run on."""

    def __init__(self, task: str, problem: str, temperature: float, since: float = 0.0) -> None:
        super().__init__()
        self.task, self.problem, self.temperature = task, problem, temperature
        self.since, self.progress = since, 0.0
        self._answering: tuple[Any, ...] = ()  # in a tuple, so that torch does not register it here

    def connect(self, heads: Mapping[str, Head]) -> None:
        self._answering = (heads[self.task],)

    def advance(self, progress: float) -> None:
        self.progress = progress

    def scored(self, batch: Batch) -> int:
        return batch.examples if batch.soft is not None and self.progress >= self.since else 0

    def needed(self, batch: Batch) -> Tensor | None:
        [head] = self._answering
        found: Tensor | None = head.needed(batch)
        return found

    def forward(self, states: States, batch: Batch) -> Tensor:
        [head] = self._answering
        assert batch.soft is not None
        ours = head.answers(states, batch)
        if self.problem == "regression":  # in standard deviations of the labels
            return F.mse_loss(ours / head.deviation, batch.soft.reshape(ours.shape) / head.deviation)
        compare = soft_binary if self.problem == "multilabel" else soft_answers
        return compare(ours.float(), batch.soft, self.temperature).mean()
