"""Saying what comes next after every layer, and what comes after that."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.kernels.chunked import chunked_cross_entropy
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class AuxiliaryLM:
    """Name the next token and the one after, from layer l of n too until l / 2n of the run (Al-Rfou et al., 2018)."""

    weight: float = 1.0
    ahead: float = 0.5  # weight of the token after the next
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "layers", "targets"})

    def build(self, model: Any) -> "AuxiliaryLMHead":
        return AuxiliaryLMHead(model, self.ahead)


class AuxiliaryLMHead(NamingHead):
    """Its own loss is the last layer's, which compares between runs; all others are a second one, in training only."""

    also: ClassVar = "auxiliary_lm"

    def __init__(self, model: Any, ahead: float) -> None:
        super().__init__()
        size, width = model.embed.tokens.weight.shape
        layers = model.settings.layers
        self.ahead = ahead
        self.progress = 0.0  # share of the run that is done
        self.vocabulary = nn.Linear(width, size, bias=False)  # after the last layer
        self.before_last = nn.ModuleList(nn.Linear(width, size, bias=False) for _ in range(layers - 1))
        self.after_next = nn.ModuleList(nn.Linear(width, size, bias=False) for _ in range(layers))
        for part in (self.vocabulary, *self.before_last, *self.after_next):
            nn.init.normal_(part.weight, std=0.02)

    def advance(self, progress: float) -> None:
        self.progress = progress

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        return entropy(states.hidden, self.vocabulary, batch.targets)

    def beside(self, states: States, batch: Batch) -> Tensor:
        """The token after the next, and what the inner layers say."""
        assert batch.targets is not None
        loss = self.ahead * entropy(states.hidden[:, :-1], self.after_next[-1], batch.targets[:, 1:])
        for number, hidden in self.asked(states):
            loss = loss + entropy(hidden, self.before_last[number], batch.targets)
            loss = loss + self.ahead * entropy(hidden[:, :-1], self.after_next[number], batch.targets[:, 1:])
        return loss

    def asked(self, states: States) -> Iterator[tuple[int, Tensor]]:
        """The inner layers that still answer, counted from 0, and what they made."""
        layers = len(self.after_next)
        for number, hidden in enumerate((states.layers or ())[1:-1]):
            if self.progress < (number + 1) / (2 * layers):
                yield number, hidden


def entropy(hidden: Tensor, classify: nn.Module, targets: Tensor) -> Tensor:
    """Mean over the positions that are asked; 0 where none is, as in rows of one token."""
    asked = targets != IGNORE
    if not bool(asked.any()):
        return hidden.new_zeros(())
    return chunked_cross_entropy(hidden[asked], classify.get_parameter("weight"), targets[asked])
