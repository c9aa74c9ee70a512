"""Naming the token that follows."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.layers.vocabulary_head import TiedHead


@dataclass(frozen=True, kw_only=True)
class CausalLM:
    """At every position, name the token that follows (Radford et al., 2018, 3.1)."""

    weight: float = 1.0
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "CausalLMHead":
        return CausalLMHead(model.embed.tokens)


class CausalLMHead(nn.Module):
    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.vocabulary = TiedHead(table)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        asked = batch.targets != IGNORE
        if bool(asked.all()):  # as in every row but a stream's last
            return self.vocabulary.loss(states.hidden.flatten(0, 1), batch.targets.flatten())
        return self.vocabulary.loss(states.hidden[asked], batch.targets[asked])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, vocabulary) a score for every token at every position."""
        return self.vocabulary(states.hidden)

    def scored(self, batch: Batch) -> int:
        """How many positions the mean is over."""
        assert batch.targets is not None
        return int((batch.targets != IGNORE).sum())
