"""A yes or no for each token: is it written with a capital letter, does its document have it elsewhere?"""

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.objectives.contract import BuiltModel, Head, Objective


@dataclass(frozen=True, kw_only=True)
class CapitalPrediction(Objective):
    """Is the token written with a capital letter? 0: no, 1: yes (Sun et al., 2020, 4.2.1)."""

    name: ClassVar = "capital_prediction"
    label: ClassVar = "capitals"
    reads: ClassVar = frozenset({"hidden", "capitals"})

    def build(self, model: BuiltModel) -> "TokenClassHead":
        return TokenClassHead(model.settings.width, "capitals")


@dataclass(frozen=True, kw_only=True)
class TokenDocumentRelation(Objective):
    """Is the token in another segment of its document, too? 0: no, 1: yes (Sun et al., 2020, 4.2.1)."""

    name: ClassVar = "token_document_relation"
    label: ClassVar = "elsewhere"
    reads: ClassVar = frozenset({"hidden", "elsewhere"})

    def build(self, model: BuiltModel) -> "TokenClassHead":
        return TokenClassHead(model.settings.width, "elsewhere")


class TokenClassHead(Head):
    def __init__(self, width: int, label: str) -> None:
        super().__init__()
        self.label = label  # name of the batch field with the labels
        self.classify = nn.Linear(width, 2)
        init_truncated_normal(self)

    def forward(self, states: States, batch: Batch) -> Tensor:
        asked = self.needed(batch)
        return F.cross_entropy(self.classify(states.hidden[asked]), self.labels(batch)[asked])

    def labels(self, batch: Batch) -> Tensor:
        """(B, L) 0, 1, or IGNORE."""
        labels: Tensor | None = getattr(batch, self.label)
        assert labels is not None, f"{self.label} is missing"
        return labels

    def needed(self, batch: Batch) -> Tensor:
        return self.labels(batch) != IGNORE

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, 2)."""
        return self.classify(states.hidden)

    def scored(self, batch: Batch) -> int:
        return int(self.needed(batch).sum())
