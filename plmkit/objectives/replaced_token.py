"""Telling tokens that were replaced from those that were there."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.initialisation.weights import start_weights
from plmkit.layers.activations import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class ReplacedToken:
    """Is each token the one that stood there? 0 it is, 1 it is not (Clark et al., 2020, 2)."""

    weight: float = 50.0
    name: ClassVar = "replaced_token"
    reads: ClassVar = frozenset({"hidden", "replaced"})
    writes: ClassVar = frozenset({"verdicts"})

    def build(self, model: Any) -> "ReplacedTokenHead":
        return ReplacedTokenHead(model.settings.width, model.settings.activation)


class ReplacedTokenHead(nn.Module):
    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.verdict = nn.Linear(width, 1)
        start_weights(self)

    def verdicts(self, hidden: Tensor) -> Tensor:
        """(..., width) to (...): above 0 means replaced."""
        return self.verdict(self.activation(self.transform(hidden))).squeeze(-1)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert states.replaced is not None
        real = batch.source.visible  # every token counts, hidden or not, [CLS] and [SEP] among them
        return F.binary_cross_entropy_with_logits(
            self.verdicts(states.hidden[real]).float(), states.replaced[real].float()
        )

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L)."""
        return self.verdicts(states.hidden)

    def scored(self, batch: Batch) -> int:
        return int(batch.source.visible.sum())
