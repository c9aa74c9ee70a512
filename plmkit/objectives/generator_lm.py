"""Teaching a generator to fill the blanks."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.layers.vocabulary_head import VocabularyHead


@dataclass(frozen=True, kw_only=True)
class GeneratorLM:
    """The generator names the hidden tokens (Clark et al., 2020, 2)."""

    weight: float = 1.0
    frequency_bias: bool = False  # as in MaskedLM
    name: ClassVar = "generator_lm"
    reads: ClassVar = frozenset({"guesses", "targets"})

    def build(self, model: Any) -> "GeneratorLMHead":
        return GeneratorLMHead(model.vocabulary, self.frequency_bias)


class GeneratorLMHead(nn.Module):
    """Without weights: the network scores the tokens itself, since it samples from them."""

    def __init__(self, vocabulary: VocabularyHead, frequency_bias: bool) -> None:
        super().__init__()
        self.frequency_bias = frequency_bias
        self._vocabulary = (vocabulary,)  # in a tuple, so that it stays the network's and is saved once

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.guesses is not None and batch.targets is not None
        return F.cross_entropy(states.guesses, self._vocabulary[0].placed(batch.targets[batch.predicted]))

    def start(self, frequencies: np.ndarray) -> None:
        if self.frequency_bias:
            self._vocabulary[0].start_bias(frequencies)

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())
