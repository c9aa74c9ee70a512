"""Classifying the texts of a row together."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.objectives.contract import BuiltModel, Head, Objective


@dataclass(frozen=True, kw_only=True)
class NextSentence(Objective):
    """Does the second text follow the first? 0: yes, 1: no (Devlin et al., 2018, 3.1)."""

    name: ClassVar = "next_sentence"
    sentence_task: ClassVar = "nsp"
    label: ClassVar = "next"
    reads: ClassVar = frozenset({"pooled", "random_next"})

    def build(self, model: BuiltModel) -> "SentencePairHead":
        return SentencePairHead(model.settings.width, "random_next")


@dataclass(frozen=True, kw_only=True)
class SentenceOrder(Objective):
    """Are the two texts in their original order? 0: yes, 1: swapped (Lan et al., 2019, 3.1)."""

    name: ClassVar = "sentence_order"
    sentence_task: ClassVar = "sop"
    reads: ClassVar = frozenset({"pooled", "swapped_order"})

    def build(self, model: BuiltModel) -> "SentencePairHead":
        return SentencePairHead(model.settings.width, "swapped_order")


@dataclass(frozen=True, kw_only=True)
class RealDialogue(Objective):
    """Are all utterances from one dialogue? 0: yes, 1: one is from another (Sun et al., 2019, 3.3)."""

    name: ClassVar = "real_dialogue"
    sentence_task: ClassVar = "dialogue"
    reads: ClassVar = frozenset({"pooled", "mixed_dialogue"})

    def build(self, model: BuiltModel) -> "SentencePairHead":
        return SentencePairHead(model.settings.width, "mixed_dialogue")


class SentencePairHead(Head):
    def __init__(self, width: int, label: str, classes: int = 2) -> None:
        super().__init__()
        self.label = label  # name of the batch field with the labels
        self.classify = nn.Linear(width, classes)
        init_truncated_normal(self)

    def forward(self, states: States, batch: Batch) -> Tensor:
        return F.cross_entropy(self.answers(states, batch), self.labels(batch), ignore_index=IGNORE)

    def labels(self, batch: Batch) -> Tensor:
        """(B,) classes from 0 on, or IGNORE."""
        labels: Tensor | None = getattr(batch, self.label)
        assert labels is not None, f"{self.label} is missing"
        return labels

    def needed(self, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.source.visible)

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, classes)."""
        assert states.pooled is not None
        return self.classify(states.pooled)

    def scored(self, batch: Batch) -> int:
        return int((self.labels(batch) != IGNORE).sum())
