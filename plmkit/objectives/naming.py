"""Naming tokens: what the heads that do so share."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from plmkit.data.batch import Batch, States


class NamingHead(nn.Module):
    """Names the token at every position that is asked, by a part `vocabulary` that scores all tokens."""

    vocabulary: Any
    frequency_bias = False

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        asked = batch.predicted
        if bool(asked.all()):  # as in every row of a stream but its last
            return self.vocabulary.loss(states.hidden.flatten(0, 1), batch.targets.flatten())
        # of masked text, projecting only these saves 85% of the largest product
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
        return int(batch.predicted.sum())
