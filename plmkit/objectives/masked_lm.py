"""Naming the hidden tokens."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.layers.vocabulary_head import VocabularyHead


@dataclass(frozen=True, kw_only=True)
class MaskedLM:
    """Name the hidden tokens (Devlin et al., 2018, 3.1)."""

    weight: float = 1.0
    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    name: ClassVar = "masked_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "MaskedLMHead":
        return MaskedLMHead(model, self.frequency_bias)


class MaskedLMHead(nn.Module):
    def __init__(self, model: Any, frequency_bias: bool) -> None:
        super().__init__()
        self.frequency_bias = frequency_bias
        settings = model.settings
        self.vocabulary = VocabularyHead(
            model.embed.tokens, width=settings.width, activation=settings.activation, epsilon=settings.epsilon
        )

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        asked = batch.targets != IGNORE  # projecting only these saves 85% of the largest product
        return self.vocabulary.loss(states.hidden[asked], batch.targets[asked])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, vocabulary) a score for every token at every position."""
        return self.vocabulary(states.hidden)

    def start(self, frequencies: np.ndarray) -> None:
        """Before the first step: `frequencies` counts each token of the vocabulary in the corpus."""
        if self.frequency_bias:
            self.vocabulary.start_bias(frequencies)

    def scored(self, batch: Batch) -> int:
        """How many positions the mean is over."""
        assert batch.targets is not None
        return int((batch.targets != IGNORE).sum())
