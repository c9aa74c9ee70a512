"""Naming the hidden tokens."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.layers.vocabulary_head import MakeVectors, VocabularyHead
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class MaskedLM:
    """Name the hidden tokens (Devlin et al., 2018, 3.1)."""

    weight: float = 1.0
    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    near_vectors: bool = False  # start the token vectors at which tokens stand near each other in the corpus
    name: ClassVar = "masked_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "MaskedLMHead":
        return MaskedLMHead(model, self.frequency_bias, self.near_vectors)


class MaskedLMHead(NamingHead):
    def __init__(self, model: Any, frequency_bias: bool, near_vectors: bool) -> None:
        super().__init__()
        self.frequency_bias, self.near_vectors = frequency_bias, near_vectors
        settings = model.settings
        self.vocabulary = VocabularyHead(
            model.embed.tokens, width=settings.width, activation=settings.activation, epsilon=settings.epsilon
        )

    def wants(self, batch: Batch) -> Tensor:
        return batch.predicted

    def start_vectors(self, vectors: MakeVectors) -> None:
        """Before the first step: `vectors` makes some of a width, one for each token, from the corpus."""
        if self.near_vectors:
            self.vocabulary.start_vectors(vectors)
