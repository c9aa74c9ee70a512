"""Saying what comes next, with rare tokens in clusters."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.layers.adaptive import AdaptiveSoftmax


@dataclass(frozen=True, kw_only=True)
class AdaptiveLM:
    """Say the next token by the input's own tables, rare ones by their cluster first (Dai et al., 2019)."""

    weight: float = 1.0
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "AdaptiveLMHead":
        return AdaptiveLMHead(model)


class AdaptiveLMHead(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vocabulary = AdaptiveSoftmax(model.embed)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        asked = batch.targets != IGNORE
        return self.vocabulary.loss(states.hidden[asked], batch.targets[asked])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, vocabulary) a score for every token at every position."""
        return self.vocabulary(states.hidden)

    def scored(self, batch: Batch) -> int:
        """How many positions the mean is over."""
        assert batch.targets is not None
        return int((batch.targets != IGNORE).sum())
