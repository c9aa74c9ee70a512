"""A small recurrent network for a task that reads another network's layers as features of words."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from plmkit.architectures.contract import Architecture, Model
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.layers.scalar_mix import ScalarMix
from plmkit.layers.transformer import Dropout

PLACES = ("none", "input", "output", "both")  # where features are read
MOST_WORDS = 30_000  # with vectors of their own; rarer ones share that of the unknown token


@dataclass(frozen=True, kw_only=True)
class Features:
    """Features of words for a bidirectional LSTM, each a learned mix of layers (Peters et al., 2018, 3.3)."""

    place: str = "input"  # where they are read: input, output or both; none: the network itself is fine-tuned
    cell: int = 128  # width of the LSTM, per direction
    words: int = 50  # width of its own word vectors, which are trained for the task
    dropout: float = 0.5  # on the features
    normalise: bool = False  # normalise each layer before it is mixed
    precomputed: bool = False  # compute them once, keep them on disk, and read them in every epoch

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise SettingError(
                tr(
                    "task.features.place takes {places}; found '{place}'.",
                    places=comma().join(PLACES),
                    place=self.place,
                )
            )
        if self.cell < 1 or self.words < 0 or not 0 <= self.dropout < 1:
            raise SettingError(
                tr(
                    "task.features needs a cell of at least 1, words of at least 0, and a dropout of at least 0 and "
                    "below 1; found {cell}, {words} and {dropout:g}.",
                    cell=self.cell,
                    words=self.words,
                    dropout=self.dropout,
                )
            )
        if self.place == "output" and not self.words:
            raise SettingError(
                tr("With task.features.place=output the LSTM reads words alone: task.features.words must be above 0.")
            )

    @property
    def places(self) -> tuple[str, ...]:
        """Where features are read, each with a mix of its own."""
        return ("input", "output") if self.place == "both" else (self.place,)


@dataclass(frozen=True, kw_only=True)
class FeatureNetwork(Architecture):
    """A bidirectional LSTM over words and features that another network makes (Peters et al., 2018, 3.3)."""

    base: Architecture  # makes the features
    features: Features = Features()
    dropout: float = 0.1  # on the output
    bounded: ClassVar[bool] = False

    @classmethod
    def over(cls, base: Architecture, features: Features) -> Self:
        """The network of a task; the layers of its base come without dropout, so that they can be kept."""
        width = 2 * features.cell + (base.width if "output" in features.places else 0)
        return cls(
            base=base.for_task(0.0), features=features, layers=base.layers, width=width, max_length=base.max_length
        )

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "pooled"})

    @property
    def reads_characters(self) -> bool:
        return self.base.reads_characters

    @property
    def own_layers(self) -> int:
        return self.base.own_layers + 1

    def layer_of(self, name: str) -> int | None:
        """Those of the base, then the network of the task."""
        if name.startswith(BASE):
            return self.base.layer_of(f"model.{name.removeprefix(BASE)}")
        return self.own_layers

    def is_pretrained(self, name: str) -> bool:
        return name.startswith(BASE)

    def vocabulary_size(self, weights: Mapping[str, Tensor]) -> int:
        return self.base.vocabulary_size({name.replace(BASE, "model.", 1): weight for name, weight in weights.items()})

    def for_task(self, dropout: float) -> Self:
        return replace(self, dropout=dropout)

    def build(self, vocabulary: Vocabulary) -> "FeatureModel":
        return FeatureModel(self, vocabulary)


BASE = "model.base."  # how the names of the base's weights begin


class FeatureModel(Model):
    """[words; features] → LSTM → [output; features], as far as `place` says; a row is its maximum over positions."""

    def __init__(self, settings: FeatureNetwork, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.settings, features, width = settings, settings.features, settings.base.width
        self.base = settings.base.build(vocabulary)
        self.unknown = max(vocabulary.unknown, 0)
        self.words = nn.Embedding(min(vocabulary.rows, MOST_WORDS), features.words) if features.words else None
        self.mixes = nn.ModuleDict(
            {place: ScalarMix(settings.base.layers + 1, features.normalise) for place in features.places}
        )
        inputs = features.words + (width if "input" in self.mixes else 0)
        self.cells = nn.LSTM(inputs, features.cell, bidirectional=True, batch_first=True)
        self.feature_dropout, self.dropout = Dropout(features.dropout), Dropout(settings.dropout)
        if self.words is not None:
            nn.init.uniform_(self.words.weight, -0.1, 0.1)

    @property
    def input_embeddings(self) -> tuple[nn.Module, ...]:
        return (*self.base.input_embeddings, *([] if self.words is None else [self.words]))

    def forward(self, batch: Batch) -> States:
        side = batch.source
        layers = self.layers(batch)
        parts = [] if self.words is None else [self.words(self.known(side.tokens))]
        if "input" in self.mixes:
            parts.append(self.mixed("input", layers, side.visible))
        hidden = self.dropout(self.read(torch.cat(parts, dim=2), side.visible))
        if "output" in self.mixes:
            hidden = torch.cat([hidden, self.mixed("output", layers, side.visible)], dim=2)
        pooled = hidden.masked_fill(~side.visible[:, :, None], -torch.inf).amax(1)
        return States(hidden=hidden, pooled=pooled)

    def layers(self, batch: Batch) -> tuple[Tensor, ...]:
        """(B, L, width) of each layer of the base, computed now or before."""
        if batch.source.features is not None:
            return batch.source.features.unbind(2)
        states = self.base(Batch(source=batch.source, all_layers=True))
        assert states.layers is not None
        return states.layers

    def known(self, tokens: Tensor) -> Tensor:
        """Tokens, those without a vector of their own as unknown."""
        assert self.words is not None
        return torch.where(tokens < self.words.num_embeddings, tokens, self.unknown)

    def mixed(self, place: str, layers: tuple[Tensor, ...], visible: Tensor) -> Tensor:
        return self.feature_dropout(self.mixes[place](layers, visible))

    def read(self, inputs: Tensor, visible: Tensor) -> Tensor:
        """(B, L, inputs) → (B, L, 2 cell), whether padding stands before the text or after it."""
        places = (~visible).int().argsort(dim=1, stable=True)[:, :, None]  # text first
        ordered = inputs.gather(1, places.expand_as(inputs))
        packed = pack_padded_sequence(ordered, visible.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.cells(packed)[0], batch_first=True, total_length=inputs.shape[1])
        return torch.zeros_like(outputs).scatter(1, places.expand_as(outputs), outputs)
