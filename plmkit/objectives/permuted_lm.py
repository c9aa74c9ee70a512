"""Predicting tokens in a random order, each from those before it in that order."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from plmkit.layers.vocabulary_head import TableHead
from plmkit.objectives.contract import BuiltModel, Objective, TokenHead


@dataclass(frozen=True, kw_only=True)
class PermutedLM(Objective):
    """Predict the last tokens in a random order, each from its position and earlier ones (Yang et al., 2019, 2.2)."""

    corpus_vocabulary: bool = False  # in training, score only tokens that occur in the corpus: faster
    name: ClassVar = "permuted_lm"
    reads: ClassVar = frozenset({"hidden", "targets", "attention_order"})

    def build(self, model: BuiltModel) -> "PermutedLMHead":
        return PermutedLMHead(model.tied_embedding, self.corpus_vocabulary)


class PermutedLMHead(TokenHead):
    generates = True

    def __init__(self, embedding: nn.Embedding, corpus_vocabulary: bool) -> None:
        super().__init__()
        self.corpus_vocabulary = corpus_vocabulary
        self.vocabulary = TableHead(embedding)
