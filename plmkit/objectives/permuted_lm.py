"""Predicting tokens in a random order, each from those before it in that order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import nn

from plmkit.layers.vocabulary_head import TableHead
from plmkit.objectives.contract import Objective, TokenHead


@dataclass(frozen=True, kw_only=True)
class PermutedLM(Objective):
    """Predict the last tokens of a random order from their positions and the tokens before (Yang et al., 2019, 2.2)."""

    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    name: ClassVar = "permuted_lm"
    reads: ClassVar = frozenset({"hidden", "targets", "attention_order"})

    def build(self, model: Any) -> "PermutedLMHead":
        return PermutedLMHead(model.tied_embedding, self.frequency_bias)


class PermutedLMHead(TokenHead):
    generates = True

    def __init__(self, embedding: nn.Embedding, frequency_bias: bool) -> None:
        super().__init__()
        self.frequency_bias = frequency_bias
        self.vocabulary = TableHead(embedding)

    def start(self, frequencies: np.ndarray) -> None:
        if self.frequency_bias:
            self.vocabulary.start_bias(frequencies)
