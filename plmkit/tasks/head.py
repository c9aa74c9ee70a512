"""One answer for a whole row: a class or a number."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.layers.dropout import Dropout
from plmkit.layers.start import start_weights

POOLINGS = ("first", "mean", "max", "concat")


class LabelHead(nn.Module):
    """Pool, drop out, one linear layer: cross entropy over classes, or squared error of a number."""

    def __init__(
        self, *, width: int, outputs: int, numeric: bool, pooling: str = "first", dropout: float = 0.1,
        length: int | None = None, bias: bool = True, readings: str = "once",
    ) -> None:  # fmt: skip
        super().__init__()
        if pooling not in POOLINGS:
            raise SettingError(f"task.pooling takes {', '.join(POOLINGS)}; found '{pooling}'.")
        if pooling == "concat" and length is None:
            raise SettingError("task.pooling=concat joins all positions, so it needs a fixed task.length.")
        self.numeric, self.pooling, self.length, self.readings = numeric, pooling, length, readings
        self.dropout = Dropout(dropout)
        inputs = width * length if pooling == "concat" and length else width
        self.classify = nn.Linear(inputs, outputs, bias=bias)
        start_weights(self)

    def pool(self, states: States, batch: Batch) -> Tensor:
        """(B, width), or (B, length * width) where all positions are joined."""
        if self.pooling == "first":
            assert states.pooled is not None
            return states.pooled
        shown = batch.visible[:, :, None]
        if self.pooling == "mean":
            return (states.hidden * shown).sum(1) / shown.sum(1)
        if self.pooling == "max":
            return states.hidden.masked_fill(~shown, -torch.inf).amax(1)
        return (states.hidden * shown).flatten(1)

    def wants(self, batch: Batch) -> Tensor | None:
        return torch.zeros_like(batch.visible) if self.pooling == "first" else None

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, classes), or (B, 1); with choices (B, K), minus infinity where a row has fewer."""
        pooled = self.pool(states, batch.readings())
        if batch.options is None:
            return self.classify(self.dropout(pooled))
        pooled = pooled.unflatten(0, batch.options.shape)  # (B, K, width)
        if self.readings == "both":  # added, whichever comes first (Radford et al., 2018, 3.3)
            return self.classify(self.dropout(pooled.sum(1)))
        kept = self.dropout(torch.ones_like(pooled[:, :1]))  # the choices of a row lose the same numbers
        return self.classify(pooled * kept).squeeze(2).masked_fill(~batch.options, -torch.inf)

    def forward(self, states: States, batch: Batch) -> Tensor:
        answers = self.answers(states, batch)
        assert batch.labels is not None
        if self.numeric:
            return F.mse_loss(answers.squeeze(1), batch.labels)
        return F.cross_entropy(answers, batch.labels)

    def scored(self, batch: Batch) -> int:
        return len(batch.tokens)
