"""One answer for a whole row: a class or a number."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import STARTS
from plmkit.layers.dropout import Dropout

POOLINGS = ("first", "mean", "max", "concat")


class LabelHead(nn.Module):
    """Pool, drop out, one linear layer: cross entropy over classes, or squared error of a number."""

    def __init__(
        self, *, width: int, outputs: int, numeric: bool, pooling: str = "first", dropout: float = 0.1,
        length: int | None = None, bias: bool = True, readings: str = "once", start: str = "truncated",
    ) -> None:  # fmt: skip
        super().__init__()
        if pooling not in POOLINGS:
            raise SettingError(f"task.pooling takes {', '.join(POOLINGS)}; found '{pooling}'.")
        if pooling == "concat" and length is None:
            raise SettingError("task.pooling=concat joins all positions, so it needs a fixed task.length.")
        self.numeric, self.pooling, self.length, self.readings = numeric, pooling, length, readings
        self.mean, self.deviation = 0.0, 1.0  # of the numbers that are learnt, while they are
        self.dropout = Dropout(dropout)
        inputs = width * length if pooling == "concat" and length else width
        self.classify = nn.Linear(inputs, outputs, bias=bias)
        STARTS[start](self)

    def pool(self, states: States, batch: Batch) -> Tensor:
        """(B, width), or (B, length * width) where all positions are joined."""
        if self.pooling == "first":
            assert states.pooled is not None
            return states.pooled
        shown = batch.source.visible[:, :, None]
        if self.pooling == "mean":
            return (states.hidden * shown).sum(1) / shown.sum(1)
        if self.pooling == "max":
            return states.hidden.masked_fill(~shown, -torch.inf).amax(1)
        return (states.hidden * shown).flatten(1)

    def wants(self, batch: Batch) -> Tensor | None:
        return torch.zeros_like(batch.source.visible) if self.pooling == "first" else None

    def rows(self, states: States, batch: Batch) -> Tensor:
        """(B, inputs) what is judged of each row; with choices (B, K, inputs)."""
        pooled = self.pool(states, batch.readings())
        if batch.options is None:
            return pooled
        pooled = pooled.unflatten(0, batch.options.shape)
        return pooled.sum(1) if self.readings == "both" else pooled  # whichever comes first (Radford et al., 2018, 3.3)

    def judged(self, states: States, batch: Batch) -> Tensor:
        """(B, classes), or (B, 1) in deviations from the mean; with choices (B, K), minus infinity where one is not."""
        rows = self.rows(states, batch)
        if rows.dim() == 2:
            return self.classify(self.dropout(rows))
        assert batch.options is not None
        kept = self.dropout(torch.ones_like(rows[:, :1]))  # the choices of a row lose the same numbers
        return self.classify(rows * kept).squeeze(2).masked_fill(~batch.options, -torch.inf)

    def answers(self, states: States, batch: Batch) -> Tensor:
        """As `judged`, but numbers as labels give them."""
        judged = self.judged(states, batch)
        return self.mean + self.deviation * judged if self.numeric else judged

    def forward(self, states: States, batch: Batch) -> Tensor:
        judged = self.judged(states, batch)
        assert batch.labels is not None
        if self.numeric:
            return F.mse_loss(judged.squeeze(1), (batch.labels - self.mean) / self.deviation)
        return F.cross_entropy(judged, batch.labels)

    def scored(self, batch: Batch) -> int:
        return len(batch.source.tokens)

    @torch.no_grad()
    def start_at(self, labels: Tensor, rows: Tensor) -> None:
        """Learn numbers in deviations from their mean; a layer without a bias begins with the mean at the mean row."""
        self.deviation = float(labels.std(correction=0)) or 1.0
        if self.classify.bias is not None:
            self.mean = float(labels.mean())
            return
        middle = rows.float().mean(0)
        self.classify.weight += float(labels.mean()) / self.deviation * middle / middle.dot(middle)

    def in_units(self, weights: dict[str, Tensor], stem: str) -> dict[str, Tensor]:
        """The weights of the whole network, those of this layer as if it had learnt the numbers as they are."""
        weight, bias = f"{stem}.classify.weight", f"{stem}.classify.bias"
        changed = {weight: weights[weight] * self.deviation}
        if bias in weights:
            changed[bias] = weights[bias] * self.deviation + self.mean
        return weights | changed
