"""Attention that covers every region of an image over the words of its caption."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.objectives.contract import BuiltModel, Head, Objective


@dataclass(frozen=True, kw_only=True)
class DoublyStochasticAttention(Objective):
    """Σ (1 - a)² over regions of an image, a: the attention to one, summed over all words (Xu et al., 2015, 4.2.1)."""

    name: ClassVar = "doubly_stochastic_attention"
    label: ClassVar = "coverage"
    reads: ClassVar = frozenset({"region_attention", "targets"})

    def build(self, model: BuiltModel) -> "DoublyStochasticAttentionHead":
        return DoublyStochasticAttentionHead()


class DoublyStochasticAttentionHead(Head):
    def forward(self, states: States, batch: Batch) -> Tensor:
        """The penalties of all captions, per word: the paper adds that of a caption to the sum over its words."""
        assert states.region_attention is not None
        words = batch.predicted
        covered = (states.region_attention * words[..., None]).sum(1)  # (B, regions)
        return (1 - covered).square().sum() / words.sum()

    def needed(self, batch: Batch) -> Tensor:
        return torch.zeros_like(batch.source.visible)

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())
