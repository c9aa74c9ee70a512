"""Predicting a masked token from the boundaries of its span."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.language import tr
from plmkit.layers.transformer import ACTIVATIONS
from plmkit.layers.vocabulary_head import VocabularyHead
from plmkit.objectives.contract import BuiltModel, Head, Objective

ACTIVATION = "gelu"  # regardless of the network's


@dataclass(frozen=True, kw_only=True)
class SpanBoundary(Objective):
    """Predict each masked token from its span's boundary states and its position in it (Joshi et al., 2020, 3.2)."""

    positions: int = 15  # tokens beyond this position of a span are not predicted
    position_width: int = 200  # width of the embeddings of positions within a span
    corpus_vocabulary: bool = False  # in training, score only tokens that occur in the corpus: faster
    name: ClassVar = "span_boundary"
    reads: ClassVar = frozenset({"hidden", "targets", "edges"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("positions", "position_width"):
            if getattr(self, name) < 1:
                raise SettingError(
                    tr("objectives.{name} must be at least 1; found {value}.", name=name, value=getattr(self, name))
                )

    def build(self, model: BuiltModel) -> "SpanBoundaryHead":
        return SpanBoundaryHead(model, self)


class SpanBoundaryHead(Head):
    def __init__(self, model: BuiltModel, objective: SpanBoundary) -> None:
        super().__init__()
        width, epsilon = model.settings.width, model.settings.epsilon
        self.corpus_vocabulary = objective.corpus_vocabulary
        self.positions = nn.Embedding(objective.positions, objective.position_width)
        self.join = nn.Linear(2 * width + objective.position_width, width)
        self.norm = nn.LayerNorm(width, eps=epsilon)
        init_truncated_normal(self)
        # the second of the two layers, then the token embeddings with a separate bias
        self.vocabulary = VocabularyHead(model.tied_embedding, width=width, activation=ACTIVATION, epsilon=epsilon)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None and batch.edges is not None
        row, place = self.predicted(batch).nonzero(as_tuple=True)  # (N,)
        before, after = batch.edges[row, place].unbind(-1)
        parts = [states.hidden[row, before], states.hidden[row, after], self.positions(place - before - 1)]
        joined = self.norm(ACTIVATIONS[ACTIVATION](self.join(torch.cat(parts, dim=-1))))
        return self.vocabulary.loss(joined, batch.targets[row, place])

    def needed(self, batch: Batch) -> Tensor:
        """Both boundaries of every span."""
        assert batch.edges is not None
        row, place = self.predicted(batch).nonzero(as_tuple=True)
        needed = torch.zeros_like(batch.source.visible)
        needed[row[:, None], batch.edges[row, place]] = True
        return needed

    def predicted(self, batch: Batch) -> Tensor:
        """(B, L) True at masked tokens whose span has both boundaries, up to `positions` tokens into it."""
        assert batch.edges is not None
        before = batch.edges[:, :, 0]
        into = torch.arange(before.shape[1], device=before.device) - before - 1
        return (before >= 0) & (into < self.positions.num_embeddings)

    @property
    def output(self) -> VocabularyHead:
        return self.vocabulary

    def scored(self, batch: Batch) -> int:
        return int(self.predicted(batch).sum())
