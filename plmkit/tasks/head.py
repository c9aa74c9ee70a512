"""One answer for a whole row: a class or a number."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import STARTS
from plmkit.layers.dropout import Dropout
from plmkit.objectives.contract import Head

POOLINGS = ("first", "mean", "max", "concat")


class LabelHead(Head):
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

    def needed(self, batch: Batch) -> Tensor | None:
        return torch.zeros_like(batch.source.visible) if self.pooling == "first" else None

    def rows(self, states: States, batch: Batch) -> Tensor:
        """(examples, inputs) what is judged of each example; with choices (B, inputs)."""
        pooled = self.pool(states, batch)
        if batch.alternatives is None or self.readings == "each":
            return pooled
        summed = pooled.new_zeros(batch.examples, pooled.shape[1])  # both orders (Radford et al., 2018, 3.3)
        return summed.index_add(0, batch.alternatives, pooled)

    def judged(self, states: States, batch: Batch) -> Tensor:
        """(examples, classes), or (examples, 1) in deviations from the mean; with choices (examples, choices)."""
        rows = self.rows(states, batch)
        if self.readings != "each":
            return self.classify(self.dropout(rows))
        own = torch.arange(len(rows), device=rows.device) if batch.alternatives is None else batch.alternatives
        kept = self.dropout(rows.new_ones(batch.examples, rows.shape[1]))  # the choices of one lose the same numbers
        return side_by_side(self.classify(rows * kept[own]).squeeze(1), own)

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
        return batch.examples

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


def side_by_side(scores: Tensor, alternatives: Tensor) -> Tensor:
    """(examples, most choices) from the scores of all choices (B,); minus infinity where an example has fewer."""
    counts = alternatives.bincount()
    places = torch.arange(len(scores), device=scores.device) - (counts.cumsum(0) - counts)[alternatives]
    table = scores.new_full((len(counts), int(counts.max())), -torch.inf)
    return table.index_put((alternatives, places), scores)
