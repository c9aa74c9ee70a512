"""Weights of losses that are learnt with the rest."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.layers.vocabulary_head import MakeVectors


@dataclass(frozen=True, kw_only=True)
class LearnedWeight:
    """An objective whose weight is learnt, from its own on: the surer its answers, the more (Kendall et al., 2018)."""

    objective: Any
    weight: ClassVar = 1.0

    def __post_init__(self) -> None:
        if not self.objective.weight > 0:
            raise SettingError(
                f"objectives.{self.objective.name}.weight is where the learnt weight begins: above 0; "
                f"found {self.objective.weight:g}."
            )

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def reads(self) -> frozenset[str]:
        return self.objective.reads

    @property
    def writes(self) -> frozenset[str]:
        return getattr(self.objective, "writes", frozenset())

    def build(self, model: Any) -> "LearnedWeightHead":
        return LearnedWeightHead(self.objective.build(model), self.objective.weight)


class LearnedWeightHead(nn.Module):
    def __init__(self, inner: Any, weight: float) -> None:
        super().__init__()
        self.inner = inner
        self.log_variance = nn.Parameter(torch.tensor(-math.log(weight)))

    @property
    def factor(self) -> Tensor:
        """What the loss is multiplied by; at rest it is one over the loss."""
        return torch.exp(-self.log_variance)

    def forward(self, states: States, batch: Batch) -> Tensor:
        return self.inner(states, batch)

    def weigh(self, loss: Tensor, *, beside: bool) -> Tensor:
        """The loss as it is minimised; the one `beside` it shares the factor, which the first keeps from 0."""
        return self.factor * loss if beside else self.factor * loss + self.log_variance

    def wants(self, batch: Batch) -> Tensor | None:
        return self.inner.wants(batch) if hasattr(self.inner, "wants") else None

    @property
    def also(self) -> str | None:
        return getattr(self.inner, "also", None)

    def beside(self, states: States, batch: Batch) -> Tensor:
        return self.inner.beside(states, batch)

    def advance(self, progress: float) -> None:
        if hasattr(self.inner, "advance"):
            self.inner.advance(progress)

    def start(self, frequencies: np.ndarray) -> None:
        if hasattr(self.inner, "start"):
            self.inner.start(frequencies)

    def start_vectors(self, vectors: MakeVectors) -> None:
        if hasattr(self.inner, "start_vectors"):
            self.inner.start_vectors(vectors)

    def meet(self, heads: Any) -> None:
        if hasattr(self.inner, "meet"):
            self.inner.meet(heads)

    def scored(self, batch: Batch) -> int:
        return self.inner.scored(batch)
