"""A linear model over n-grams: the floor under every classifier, alone and mixed with a network."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from torch import Tensor

from plmkit.language import tr
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.ngrams import LinearModel, Ngrams, matrix_of

# Of the linear model. The weakest are for labels that n-grams tell little of: on 3,000 rows of CoLA and of AFQMC, a
# strength of 4 is 2 and 4 points behind the most frequent label.
STRENGTHS = (0.0625, 0.25, 1.0, 4.0, 16.0, 64.0)
# Of the strengths with a score on dev within half a standard error of the best, the most likely is used: with few rows
# of dev, the score alone is mostly noise (benchmarks/strengths.py).
WITHIN = 0.5
# Mean and precision of the weights in a mix before dev is seen. A few rows of dev say little of a network, which may
# be sure and wrong, so that the mix is the linear model until they say more.
CERTAINTY = 4.0
TOGETHER, NETWORK, LINEAR = (0.0, 0.0, 1.0), (0.5, None, None), (None, None, 1.0)  # None: left out
WEIGHTS = 2  # that n-grams add to a mix; each must raise the log-likelihood of dev by 1 (Akaike, 1974)


@dataclass(frozen=True, kw_only=True)
class Mix:
    """What the answers of a network, of its own n-grams and of the linear model are multiplied by in their sum."""

    network: float = 1.0
    ngrams: float = 1.0
    linear: float = 0.0
    shift: float = 0.0  # added to the sum

    def __str__(self) -> str:
        if self.is_network:
            return tr("did not help on dev and were left out")
        return tr(
            "fitted on dev: {network:.2f} × the network + {ngrams:.2f} × its own n-grams + "
            "{linear:.2f} × the linear model",
            network=self.network,
            ngrams=self.ngrams,
            linear=self.linear,
        )

    @property
    def is_network(self) -> bool:
        """Whether neither n-grams nor the linear model are used."""
        return not self.ngrams and not self.linear

    def of(self, parts: Tensor) -> Tensor:
        """(rows, outputs) from (3, rows, outputs)."""
        weights = torch.tensor([self.network, self.ngrams, self.linear], dtype=parts.dtype)
        return (weights[:, None, None] * parts).sum(0) + self.shift


def with_ngrams(task: Task, rows: Sequence[Row]) -> Task:
    """The task with the n-grams of its training rows."""
    return replace(task, ngrams=Ngrams.of([(row.text, row.other) for row in rows], max(1, len(task.classes))))


def as_used(task: Task, weights: dict[str, Tensor], mix: Mix) -> tuple[Task, dict[str, Tensor]]:
    """The task and its weights, without n-grams if the network alone was best."""
    if not mix.is_network:
        return task, weights
    return replace(task, ngrams=None), {name: one for name, one in weights.items() if ".ngrams." not in name}


def rows_of(examples: Sequence[Example]) -> list[Row]:
    return [example.row for example in examples]


def most_likely(scores: Sequence[float], misfits: Sequence[float], rows: int) -> int:
    """The number of the model that explains dev best, of those with a score near the best (as of a share of rows)."""
    best = max(scores)
    least = best - WITHIN * math.sqrt(max(0.0, best * (1 - best)) / rows)
    return min((misfit, number) for number, misfit in enumerate(misfits) if scores[number] >= least)[1]


class Floor:
    """A linear model with its strength chosen on dev, and the weights of a sum with it, fitted on dev."""

    def __init__(self, task: Task, train: Sequence[Example], dev: Sequence[Example]) -> None:
        self.task, self.dev = task, dev
        self.labels = torch.from_numpy(np.array([example.label for example in dev]))
        matrix, rows = self.matrix(train), rows_of(train)
        self.of_dev = self.matrix(dev)
        fitted = [task.linear_model(matrix, rows, strength) for strength in STRENGTHS]
        models = [model for model in fitted if model is not None]
        scores = [self.scores(model, dev)[task.measure] for model in models]
        misfits = [task.misfit(model.answers(self.of_dev), self.labels) for model in models]
        self.linear = models[most_likely(scores, misfits, len(dev))]

    def matrix(self, examples: Sequence[Example]) -> csr_matrix:
        vectors = [example.ngrams for example in examples if example.ngrams is not None]
        return matrix_of(vectors, len(self.task.ngrams or ()))

    def scores(self, model: LinearModel, examples: Sequence[Example]) -> dict[str, Any]:
        """The scores of a linear model alone, by a task that its answers for dev determine."""
        task, _ = self.tuned(model.answers(self.of_dev))
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
        """The mix that explains dev best, the task as it determines it, and its scores.

        From the network's answers and its weights of n-grams. The network alone is preferred where n-grams explain no
        more of dev and give no higher score, and where dev shows that it is better than the linear model.
        """
        own = torch.from_numpy(np.asarray(self.of_dev @ weight.numpy())).float()
        parts = torch.stack([answers - own, own, self.linear.answers(self.of_dev)]).double()
        mix = self.fitted(parts, TOGETHER)
        task, scores = self.tuned(mix.of(parts).float())
        network, linear, both = (self.misfit(self.fitted(parts, used), parts) for used in (NETWORK, LINEAR, TOGETHER))
        if network - both <= WEIGHTS < linear - network:
            alone = Mix(ngrams=0.0)
            without = self.tuned(alone.of(parts).float())
            if without[1][self.task.measure] >= scores[self.task.measure]:
                return alone, *without
        return mix, task, scores

    def fitted(self, parts: Tensor, before: Sequence[float | None]) -> Mix:
        """The likeliest weights of (3, rows, outputs) answers, none below 0, from their means before dev is seen."""
        used = [number for number, mean in enumerate(before) if mean is not None]
        means = np.array([before[number] for number in used], dtype=float)

        def mixed(weights: Sequence[float] | np.ndarray) -> Mix:
            every = np.zeros(len(before))
            every[used] = weights
            return mix_of(every.tolist())

        def loss(weights: np.ndarray) -> float:
            return self.misfit(mixed(weights), parts) + CERTAINTY / 2 * float(((weights - means) ** 2).sum())

        mix = mixed(minimize(loss, means, bounds=[(0, None)] * len(used)).x)
        return replace(mix, shift=self.task.shift(mix.of(parts), self.labels))

    def misfit(self, mix: Mix, parts: Tensor) -> float:
        return self.task.misfit(mix.of(parts), self.labels)

    def mixed(self, weights: dict[str, Tensor], stem: str, mix: Mix) -> dict[str, Tensor]:
        """The weights of a network that gives the answers of a mix."""
        own = weights[f"{stem}.ngrams.weight"]
        return weights | {
            f"{stem}.ngrams.weight": mix.ngrams * own + mix.linear * torch.from_numpy(self.linear.weight),
            f"{stem}.ngrams.bias": mix.linear * torch.from_numpy(self.linear.bias) + mix.shift,
            f"{stem}.ngrams.share": torch.tensor(mix.network),
        }


def mix_of(weights: Sequence[float]) -> Mix:
    network, ngrams, linear = map(float, weights)
    return Mix(network=network, ngrams=ngrams, linear=linear)
