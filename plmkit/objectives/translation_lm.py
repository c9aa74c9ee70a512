"""Predicting the next token of a target text, given its source."""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.vocabulary_head import TiedHead
from plmkit.objectives.contract import BuiltModel, Objective, TokenHead


@dataclass(frozen=True, kw_only=True)
class TranslationLM(Objective):
    """Predict the next token of the target, with label smoothing (Vaswani et al., 2017, 5.4)."""

    smoothing: float = 0.1  # share of the target's probability that is given to the whole vocabulary
    name: ClassVar = "translation_lm"
    reads: ClassVar = frozenset({"hidden", "target", "targets"})
    label: ClassVar = "loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.smoothing < 1:
            raise SettingError(
                tr(
                    "objectives.translation_lm.smoothing must be at least 0 and below 1; found {value}.",
                    value=self.smoothing,
                )
            )

    def build(self, model: BuiltModel) -> "TranslationLMHead":
        return TranslationLMHead(model.tied_embedding, self.smoothing)


class TranslationLMHead(TokenHead):
    """Its main loss is without smoothing, comparable between runs; the auxiliary loss is what smoothing adds to it."""

    translates = True

    def __init__(self, embedding: nn.Embedding, smoothing: float) -> None:
        super().__init__()
        self.vocabulary = TiedHead(embedding)
        self.smoothing = smoothing
        self.auxiliary = "smoothing" if smoothing else None

    def auxiliary_loss(self, states: States, batch: Batch) -> Tensor:
        """The target's logit minus the mean logit, times the share: the normaliser of both losses is the same."""
        assert batch.targets is not None
        table, predicted = self.vocabulary.table, batch.predicted
        apart = F.embedding(batch.targets[predicted], table) - table.mean(0)
        return self.smoothing * (states.hidden[predicted] * apart).sum(-1).mean()
