"""Naming tokens in a random order, each from those before it in that order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.layers.vocabulary_head import TableHead


@dataclass(frozen=True, kw_only=True)
class PermutedLM:
    """Name the last tokens of a random order from their places and the tokens before them (Yang et al., 2019, 2.2)."""

    weight: float = 1.0
    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    name: ClassVar = "permuted_lm"
    reads: ClassVar = frozenset({"hidden", "targets", "reading"})

    def build(self, model: Any) -> "PermutedLMHead":
        return PermutedLMHead(model.embed.tokens, self.frequency_bias)


class PermutedLMHead(nn.Module):
    def __init__(self, table: nn.Embedding, frequency_bias: bool) -> None:
        super().__init__()
        self.frequency_bias = frequency_bias
        self.vocabulary = TableHead(table)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        asked = batch.targets != IGNORE
        return self.vocabulary.loss(states.hidden[asked], batch.targets[asked])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, vocabulary) a score for every token at every position."""
        return self.vocabulary(states.hidden)

    def start(self, frequencies: np.ndarray) -> None:
        if self.frequency_bias:
            self.vocabulary.start_bias(frequencies)

    def scored(self, batch: Batch) -> int:
        assert batch.targets is not None
        return int((batch.targets != IGNORE).sum())
