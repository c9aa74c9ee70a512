"""Predicting the masked tokens."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.layers.vocabulary_head import MakeVectors, VocabularyHead
from plmkit.objectives.contract import Objective, TokenHead


@dataclass(frozen=True, kw_only=True)
class MaskedLM(Objective):
    """Predict the masked tokens (Devlin et al., 2018, 3.1)."""

    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    near_vectors: bool = False  # start the token vectors at which tokens stand near each other in the corpus
    name: ClassVar = "masked_lm"
    label: ClassVar = "masked"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "MaskedLMHead":
        return MaskedLMHead(model, self.frequency_bias, self.near_vectors)


class MaskedLMHead(TokenHead):
    fills = True

    def __init__(self, model: Any, frequency_bias: bool, near_vectors: bool) -> None:
        super().__init__()
        self.frequency_bias, self.near_vectors = frequency_bias, near_vectors
        settings = model.settings
        self.vocabulary = VocabularyHead(
            model.tied_embedding, width=settings.width, activation=settings.activation, epsilon=settings.epsilon
        )

    def needed(self, batch: Batch) -> Tensor:
        return batch.predicted

    def start(self, frequencies: np.ndarray) -> None:
        if self.frequency_bias:
            self.vocabulary.start_bias(frequencies)

    def start_vectors(self, vectors: MakeVectors) -> None:
        """Before the first step: `vectors` makes some of a width, one for each token, from the corpus."""
        if self.near_vectors:
            self.vocabulary.start_vectors(vectors)
