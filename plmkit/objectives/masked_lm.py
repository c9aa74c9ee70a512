"""Predicting the masked tokens."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from plmkit.data.batch import Batch
from plmkit.layers.vocabulary_head import VocabularyHead
from plmkit.objectives.contract import BuiltModel, Objective, TokenHead


@dataclass(frozen=True, kw_only=True)
class MaskedLM(Objective):
    """Predict the masked tokens (Devlin et al., 2018, 3.1)."""

    corpus_vocabulary: bool = False  # in training, score only tokens that occur in the corpus: faster
    name: ClassVar = "masked_lm"
    label: ClassVar = "masked"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: BuiltModel) -> "MaskedLMHead":
        return MaskedLMHead(model, self.corpus_vocabulary)


class MaskedLMHead(TokenHead):
    fills = True

    def __init__(self, model: BuiltModel, corpus_vocabulary: bool) -> None:
        super().__init__()
        self.corpus_vocabulary = corpus_vocabulary
        settings = model.settings
        self.vocabulary = VocabularyHead(
            model.tied_embedding, width=settings.width, activation=settings.activation, epsilon=settings.epsilon
        )

    def needed(self, batch: Batch) -> Tensor:
        return batch.predicted
