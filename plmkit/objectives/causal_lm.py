"""Predicting the next token."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.errors import SettingError
from plmkit.kernels.autograd import chunked_cross_entropy
from plmkit.language import tr
from plmkit.layers.vocabulary_head import AdaptiveEmbedding, AdaptiveSoftmax, TiedHead
from plmkit.objectives.contract import BuiltModel, Objective, TokenHead


class CausalHead(TokenHead):
    generates = True


@dataclass(frozen=True, kw_only=True)
class CausalLM(Objective):
    """Predict the next token at every position (Radford et al., 2018, 3.1)."""

    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})
    left_to_right: ClassVar = True

    def build(self, model: BuiltModel) -> "CausalLMHead":
        return CausalLMHead(model.tied_embedding)


class CausalLMHead(CausalHead):
    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.vocabulary = TiedHead(embedding)


@dataclass(frozen=True, kw_only=True)
class AdaptiveLM(Objective):
    """Predict the next token with an adaptive softmax tied to the input embeddings (Dai et al., 2019)."""

    shared_projections: bool = True  # clusters share the projections of the input embeddings; false: own projections
    name: ClassVar = "adaptive_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})
    left_to_right: ClassVar = True

    def build(self, model: BuiltModel) -> "AdaptiveLMHead":
        if model.adaptive_embedding is None:
            raise SettingError(
                tr(
                    "{architecture} has no token embedding in clusters, to which AdaptiveLM ties its output. "
                    "Choose CausalLM, or an architecture that has one: SegmentRecurrence.",
                    architecture=type(model.settings).__name__,
                )
            )
        return AdaptiveLMHead(model.adaptive_embedding, self.shared_projections)


class AdaptiveLMHead(CausalHead):
    def __init__(self, embedding: AdaptiveEmbedding, shared_projections: bool) -> None:
        super().__init__()
        self.vocabulary = AdaptiveSoftmax(embedding, shared_projections)


@dataclass(frozen=True, kw_only=True)
class AuxiliaryLM(Objective):
    """Predict the next two tokens, from layer l of n too until l / 2n of the run is done (Al-Rfou et al., 2018)."""

    ahead: float = 0.5  # loss weight of the token after the next
    name: ClassVar = "auxiliary_lm"
    reads: ClassVar = frozenset({"hidden", "layers", "targets"})
    left_to_right: ClassVar = True

    def build(self, model: BuiltModel) -> "AuxiliaryLMHead":
        size, width = model.tied_embedding.weight.shape
        return AuxiliaryLMHead(size, width, model.settings.layers, self.ahead)


class AuxiliaryLMHead(CausalHead):
    """Its main loss is that of the last layer, comparable between runs; all others form the auxiliary loss."""

    auxiliary = "auxiliary"
    uses_layers = True

    def __init__(self, size: int, width: int, layers: int, ahead: float) -> None:
        super().__init__()
        self.ahead = ahead
        self.progress = 0.0  # share of the run that is done
        self.vocabulary = nn.Linear(width, size, bias=False)  # after the last layer
        self.before_last = nn.ModuleList(nn.Linear(width, size, bias=False) for _ in range(layers - 1))
        self.after_next = nn.ModuleList(nn.Linear(width, size, bias=False) for _ in range(layers))
        for part in (self.vocabulary, *self.before_last, *self.after_next):
            nn.init.normal_(part.weight, std=0.02)

    def advance(self, progress: float) -> None:
        self.progress = progress

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        return cross_entropy(states.hidden, self.vocabulary, batch.targets)

    def auxiliary_loss(self, states: States, batch: Batch) -> Tensor:
        """Loss of the token after the next, and of the intermediate layers."""
        assert batch.targets is not None
        loss = self.ahead * cross_entropy(states.hidden[:, :-1], self.after_next[-1], batch.targets[:, 1:])
        for number, hidden in self.predicting_layers(states):
            loss = loss + cross_entropy(hidden, self.before_last[number], batch.targets)
            loss = loss + self.ahead * cross_entropy(hidden[:, :-1], self.after_next[number], batch.targets[:, 1:])
        return loss

    def predicting_layers(self, states: States) -> Iterator[tuple[int, Tensor]]:
        """The intermediate layers that still predict, from 0, and their states."""
        layers = len(self.after_next)
        for number, hidden in enumerate((states.layers or ())[1:-1]):
            if self.progress < (number + 1) / (2 * layers):
                yield number, hidden


def cross_entropy(hidden: Tensor, classify: nn.Module, targets: Tensor) -> Tensor:
    """Mean over the positions with a target; 0 if there are none, as in rows of one token."""
    predicted = targets != IGNORE
    if not bool(predicted.any()):
        return hidden.new_zeros(())
    return chunked_cross_entropy(hidden[predicted], classify.get_parameter("weight"), targets[predicted])
