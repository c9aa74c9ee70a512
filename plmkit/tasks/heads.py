"""Heads of tasks with one answer per example: a class, a number or one of its choices."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS
from plmkit.language import comma, tr
from plmkit.layers.transformer import Dropout
from plmkit.objectives.contract import Head

NGRAM_DROPOUT = 0.3
SEPARATOR = "separator"
POOLINGS = ("first", "mean", "max", "concat", "last", SEPARATOR)
BALANCED = "balanced"
ClassWeights = tuple[float, ...] | str | None  # one for each class, or BALANCED
Labels = Callable[[], Tensor]  # of all training rows, made when they are needed
Look = Callable[[], tuple[States, Batch]]  # the states of a first batch, computed when they are needed


class TaskHead(Head):
    """From states to answers (examples, ...), which `Task.decide` reads, and to a loss."""

    compares: bool = False  # its loss compares the examples of a batch, so that a batch is read as a whole

    @abstractmethod
    def answers(self, states: States, batch: Batch) -> Tensor:
        """(examples, ...)."""

    def explained(self, states: States, batch: Batch) -> Tensor:
        """(examples, ...) what an explanation is about: the answers, or the logits of tags at every position."""
        return self.answers(states, batch)

    def compared(self, states: States, batch: Batch) -> Tensor:
        """What the same head of another library gives, to compare with: by default its answers."""
        return self.answers(states, batch)

    def scored(self, batch: Batch) -> int:
        return batch.examples

    def fit(self, labels: Labels, look: Look) -> None:
        """Initialise from the labels of the training rows."""

    def in_units(self, weights: dict[str, Tensor], stem: str) -> dict[str, Tensor]:
        """The weights of the network, with what `fit` found folded into those of this head."""
        return weights

    def forget(self) -> None:
        """Reset what `fit` found, after loading weights that contain it."""


def pooled_by(pooling: str, hidden: Tensor, visible: Tensor) -> Tensor:
    """(B, width): the mean or the maximum over the tokens of a row, or the state of its first or last one."""
    shown = visible[:, :, None]
    if pooling == "mean":
        return (hidden * shown).sum(1) / shown.sum(1)
    if pooling == "max":
        return hidden.masked_fill(~shown, -torch.inf).amax(1)
    rows, places = torch.arange(len(hidden), device=hidden.device), visible.int()
    if pooling == "last":
        return hidden[rows, visible.shape[1] - 1 - places.flip(1).argmax(1)]
    return hidden[rows, places.argmax(1)]


class RowHead(TaskHead):
    """Pooling, dropout and one linear layer."""

    def __init__(
        self, *, width: int, outputs: int, pooling: str = "first", dropout: float = 0.1,
        length: int | None = None, bias: bool = True, initialiser: str = "truncated", ngrams: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        if pooling not in POOLINGS:
            raise SettingError(
                tr(
                    "task.pooling takes {poolings}; found '{pooling}'.",
                    poolings=comma().join(POOLINGS),
                    pooling=pooling,
                )
            )
        if pooling == "concat" and length is None:
            raise SettingError(tr("task.pooling=concat concatenates all positions, so it needs a fixed task.length."))
        self.pooling, self.length = pooling, length
        self.dropout = Dropout(dropout)
        inputs = width * length if pooling == "concat" and length else width
        self.classify = nn.Linear(inputs, outputs, bias=bias)
        INITIALISERS[initialiser](self)
        self.ngrams = NgramWeights(ngrams, outputs) if ngrams else None

    def pool(self, states: States, batch: Batch) -> Tensor:
        """(B, width), or (B, length * width) for concat pooling."""
        if self.pooling == "first":
            assert states.pooled is not None
            return states.pooled
        if self.pooling == "concat":
            joined = (states.hidden * batch.source.visible[:, :, None]).flatten(1)
            return F.pad(joined, (0, self.classify.in_features - joined.shape[1]))  # as padding, which is 0 too
        if self.pooling == SEPARATOR:
            assert batch.separators is not None
            return states.hidden[torch.arange(len(states.hidden), device=states.hidden.device), batch.separators]
        return pooled_by(self.pooling, states.hidden, batch.source.visible)

    def needed(self, batch: Batch) -> Tensor | None:
        return torch.zeros_like(batch.source.visible) if self.pooling == "first" else None

    def pooled(self, states: States, batch: Batch) -> Tensor:
        """(examples, inputs), summed over both orders of an example (Radford et al., 2018, 3.3)."""
        rows = self.pool(states, batch)
        if batch.alternatives is None:
            return rows
        return rows.new_zeros(batch.examples, rows.shape[1]).index_add(0, batch.alternatives, rows)

    def logits(self, states: States, batch: Batch) -> Tensor:
        """(examples, outputs)."""
        logits: Tensor = self.classify(self.dropout(self.pooled(states, batch)))
        return logits if self.ngrams is None else self.ngrams(logits.float(), batch)


class NgramWeights(nn.Module):
    """Logits of a network plus those of a linear model over n-grams, of which a share is dropped in training."""

    share: Tensor
    bias: Tensor

    def __init__(self, ngrams: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(ngrams, outputs))
        self.register_buffer("bias", torch.zeros(outputs))  # these two change after training, when models are mixed
        self.register_buffer("share", torch.ones(()))
        self.dropout = nn.Dropout(NGRAM_DROPOUT)

    def forward(self, logits: Tensor, batch: Batch) -> Tensor:
        """(examples, outputs)."""
        assert batch.ngrams is not None
        numbers, weights = batch.ngrams
        with torch.autocast(logits.device.type, enabled=False):
            own = F.embedding_bag(numbers, self.weight, per_sample_weights=self.dropout(weights), mode="sum")
            return self.share * logits + own + self.bias


class ClassHead(RowHead):
    """Cross entropy over classes: a mean over examples, each of which counts by the weight of its class."""

    def __init__(self, *, class_weights: ClassWeights = None, label_smoothing: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.label_smoothing = label_smoothing
        self.is_balanced = class_weights == BALANCED
        self.class_weights = torch.tensor(class_weights) if isinstance(class_weights, tuple) else None  # (classes,)

    def answers(self, states: States, batch: Batch) -> Tensor:
        return self.logits(states, batch)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        logits = self.logits(states, batch)
        if self.class_weights is None:
            return F.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing)
        losses = F.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing, reduction="none")
        return (self.class_weights.to(losses)[batch.labels] * losses).mean()

    def fit(self, labels: Labels, look: Look) -> None:
        """Balanced, all classes of the training examples count alike, and an example 1 on average."""
        if self.is_balanced:
            self.class_weights = balanced_weights(labels(), self.classify.out_features)


def balanced_weights(labels: Tensor, classes: int) -> Tensor:
    """(classes,) the weights with which all classes of the examples count alike, and an example 1 on average."""
    counts = labels.bincount(minlength=classes)
    return counts.sum() / (classes * counts.clamp(min=1))


class LabelsHead(ClassHead):
    """Binary cross entropy of each class by itself: a mean over examples and classes."""

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        logits, smoothing = self.logits(states, batch), self.label_smoothing
        targets = batch.labels.to(logits) * (1 - smoothing) + smoothing / 2
        weights = None if self.class_weights is None else self.class_weights.to(logits)
        return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)

    def fit(self, labels: Labels, look: Look) -> None:
        """Balanced, the examples with a class count as much as those without it."""
        if self.is_balanced:
            self.class_weights = weights_of_presence(labels())


def weights_of_presence(targets: Tensor) -> Tensor:
    """(classes,) the weights with which the examples that have a class count as much as those without it."""
    having = targets.sum(0)
    return (len(targets) - having).clamp(min=1) / having.clamp(min=1)


class NumberHead(RowHead):
    """Squared error of a number, in standard deviations from the mean of the training labels."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(outputs=1, **settings)
        self.mean, self.deviation = 0.0, 1.0

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(examples, 1) in the units of the labels."""
        return self.mean + self.deviation * self.logits(states, batch)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        return F.mse_loss(self.logits(states, batch).squeeze(1), (batch.labels - self.mean) / self.deviation)

    @torch.no_grad()
    def fit(self, labels: Labels, look: Look) -> None:
        """Standardise the labels; without a bias, initialise the layer to predict the mean label for the mean row."""
        numbers = labels()
        self.deviation = float(numbers.std(correction=0)) or 1.0
        if self.classify.bias is not None:
            self.mean = float(numbers.mean())
            return
        middle = self.pooled(*look()).float().mean(0)
        self.classify.weight += float(numbers.mean()) / self.deviation * middle / middle.dot(middle)

    def in_units(self, weights: dict[str, Tensor], stem: str) -> dict[str, Tensor]:
        weight, bias = f"{stem}.classify.weight", f"{stem}.classify.bias"
        changed = {weight: weights[weight] * self.deviation}
        if bias in weights:
            changed[bias] = weights[bias] * self.deviation + self.mean
        if (ngrams := f"{stem}.ngrams.weight") in weights:
            changed[ngrams] = weights[ngrams] * self.deviation
        return weights | changed

    def forget(self) -> None:
        self.mean, self.deviation = 0.0, 1.0


class SigmoidNumberHead(NumberHead):
    """Squared error of a number between the lowest and the highest label (Liu et al., 2019, in its first version)."""

    lowest: Tensor
    highest: Tensor

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.register_buffer("lowest", torch.zeros(()))
        self.register_buffer("highest", torch.ones(()))

    def shares(self, states: States, batch: Batch) -> Tensor:
        """(examples, 1) from 0, the lowest label, to 1, the highest."""
        return self.logits(states, batch).sigmoid()

    def answers(self, states: States, batch: Batch) -> Tensor:
        return self.lowest + (self.highest - self.lowest) * self.shares(states, batch)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        return F.mse_loss(
            self.shares(states, batch).squeeze(1), (batch.labels - self.lowest) / (self.highest - self.lowest)
        )

    def fit(self, labels: Labels, look: Look) -> None:
        numbers = labels()
        lowest, highest = float(numbers.min()), float(numbers.max())
        self.lowest.fill_(lowest)
        self.highest.fill_(highest if highest > lowest else lowest + 1.0)  # of a share of the rows, all may be equal


class ChoiceHead(ClassHead):
    """Cross entropy over the choices of an example, each read as a row (Radford et al., 2018, 3.3)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(outputs=1, **settings)

    def logits(self, states: States, batch: Batch) -> Tensor:
        """(examples, most choices), minus infinity where an example has fewer."""
        rows = self.pool(states, batch)
        own = torch.arange(len(rows), device=rows.device) if batch.alternatives is None else batch.alternatives
        kept = self.dropout(rows.new_ones(batch.examples, rows.shape[1]))  # one mask for all choices of an example
        return side_by_side(self.classify(rows * kept[own]).squeeze(1), own)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.labels is not None
        logits, smoothing = self.logits(states, batch), self.label_smoothing
        loss = F.cross_entropy(logits, batch.labels)
        if not smoothing:
            return loss
        there = logits != -torch.inf  # an example with fewer choices spreads its share over these
        logs = logits.log_softmax(1).masked_fill(~there, 0.0)
        return (1 - smoothing) * loss - smoothing * (logs.sum(1) / there.sum(1)).mean()


def side_by_side(scores: Tensor, alternatives: Tensor) -> Tensor:
    """(examples, most choices) from the scores of all choices (B,); minus infinity where an example has fewer."""
    counts = alternatives.bincount()
    places = torch.arange(len(scores), device=scores.device) - (counts.cumsum(0) - counts)[alternatives]
    table = scores.new_full((len(counts), int(counts.max())), -torch.inf)
    return table.index_put((alternatives, places), scores)
