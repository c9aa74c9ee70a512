"""A linear model over n-grams: the floor under every classifier, alone and mixed with a network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plmkit.language import tr
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.ngrams import LinearModel, Ngrams, matrix_of

STRENGTHS = (1.0, 4.0, 16.0, 64.0)  # of the linear model; the best on dev is used
USUAL = 16.0  # without dev
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the linear model's answers in a mix


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How much of the answers is the linear model's; the rest is the network's, with or without its own n-grams."""

    linear: float = 0.0
    ngrams: bool = True

    def __str__(self) -> str:
        if self.is_network:
            return tr("n-grams did not help on dev and were left out")
        if self.linear == 1:
            return tr("the linear model alone was best on dev")
        network = tr("the network with its n-grams") if self.ngrams else tr("the network")
        if not self.linear:
            return tr("{network} was best on dev", network=network)
        return tr(
            "best on dev: {own:.0%} {network}, {linear:.0%} the linear model",
            own=1 - self.linear,
            network=network,
            linear=self.linear,
        )

    @property
    def is_network(self) -> bool:
        """Whether neither n-grams nor the linear model are used."""
        return not self.ngrams and not self.linear


MIXES = [
    Mix(linear=share, ngrams=ngrams) for ngrams in (True, False) for share in SHARES if ngrams or share < 1
]  # in the order in which equal ones are preferred


def with_ngrams(task: Task, rows: Sequence[Row]) -> Task:
    """The task with the n-grams of its training rows."""
    return replace(task, ngrams=Ngrams.of([(row.text, row.other) for row in rows]))


def as_used(task: Task, weights: dict[str, Tensor], mix: Mix) -> tuple[Task, dict[str, Tensor]]:
    """The task and its weights, without n-grams if the network alone was best."""
    if not mix.is_network:
        return task, weights
    return replace(task, ngrams=None), {name: one for name, one in weights.items() if ".ngrams." not in name}


def rows_of(examples: Sequence[Example]) -> list[Row]:
    return [example.row for example in examples]


class Floor:
    """A linear model with the strength that is best on dev, and the choice of its share."""

    def __init__(self, task: Task, train: Sequence[Example], dev: Sequence[Example]) -> None:
        self.task, self.dev = task, dev
        matrix, rows = self.matrix(train), rows_of(train)
        self.of_dev = self.matrix(dev) if dev else None
        fitted = [task.linear_model(matrix, rows, strength) for strength in (STRENGTHS if dev else (USUAL,))]
        models = [model for model in fitted if model is not None]
        self.linear = max(models, key=lambda model: self.scores(model, dev)[task.measure]) if dev else models[0]

    def matrix(self, examples: Sequence[Example]) -> csr_matrix:
        vectors = [example.ngrams for example in examples if example.ngrams is not None]
        return matrix_of(vectors, len(self.task.ngrams or ()))

    def scores(self, model: LinearModel, examples: Sequence[Example]) -> dict[str, Any]:
        """The scores of a linear model alone, by a task that its answers for dev determine."""
        task = self.task if self.of_dev is None else self.tuned(model.answers(self.of_dev))[0]
        return task.score(task.decide(model.answers(self.matrix(examples)), examples), rows_of(examples))

    def summary(self, parts: Mapping[str, Sequence[Example]]) -> dict[str, Any]:
        """What scores.json says of the linear model."""
        best = self.task.measure
        found = {part: self.scores(self.linear, examples)[best] for part, examples in parts.items()}
        return {"ngrams": len(self.task.ngrams or ()), "strength": self.linear.strength, "measure": best, **found}

    def tuned(self, answers: Tensor) -> tuple[Task, dict[str, Any]]:
        """The task as these answers for dev determine it, and its scores."""
        rows, predictions = rows_of(self.dev), self.task.decide(answers, self.dev)
        made = self.task.tuned(predictions, rows)
        return made, made.score([made.revised(prediction) for prediction in predictions], rows)

    def choose(self, answers: Tensor, weight: Tensor) -> tuple[Mix, Task, dict[str, Any]]:
        """The mix that is best on dev, the task as it determines it, and its scores.

        From the network's answers and its weights of n-grams.
        """
        own = torch.from_numpy(np.asarray(self.of_dev @ weight.numpy())).float()
        linear = self.linear.answers(self.of_dev)
        found = {}
        for mix in MIXES:
            mine = answers if mix.ngrams else answers - own
            found[mix] = self.tuned((1 - mix.linear) * mine + mix.linear * linear)
        best = max(MIXES, key=lambda mix: found[mix][1][self.task.measure])
        return best, *found[best]

    def mixed(self, weights: dict[str, Tensor], stem: str, mix: Mix) -> dict[str, Tensor]:
        """The weights of a network that gives the answers of a mix."""
        own = weights[f"{stem}.ngrams.weight"] * float(mix.ngrams)
        share = 1 - mix.linear
        return weights | {
            f"{stem}.ngrams.weight": share * own + mix.linear * torch.from_numpy(self.linear.weight),
            f"{stem}.ngrams.bias": mix.linear * torch.from_numpy(self.linear.bias),
            f"{stem}.ngrams.share": torch.tensor(share),
        }
