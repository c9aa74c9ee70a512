"""The encoder of BERT."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.block import PostNormBlock
from plmkit.layers.embedding import InputEmbedding
from plmkit.layers.packing import Packing
from plmkit.layers.start import start_at_neighbours, start_weights


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Bidirectional Transformer, normalised after each sublayer (Devlin et al., 2018)."""

    layers: int
    heads: int
    width: int
    inner: int  # width inside the feed-forward sublayer
    longest: int = 512
    segments: int = 2
    activation: str = "gelu_tanh"  # the released code's form; Hugging Face's `gelu` is "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    neighbours: bool = False  # begin with heads that read the neighbouring tokens; for runs of minutes
    writes: ClassVar = frozenset({"hidden", "pooled"})

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "width", "inner", "longest", "segments"):
            if getattr(self, name) < 1:
                raise SettingError(f"architecture.{name} must be 1 or more; found {getattr(self, name)}.")
        if self.width % self.heads:
            raise SettingError(
                f"architecture.width={self.width} cannot be shared out to architecture.heads={self.heads}: "
                "choose a width that is a multiple of heads."
            )
        if self.neighbours and self.width // self.heads % 2:
            raise SettingError("architecture.neighbours needs an even width for each head.")
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise SettingError(f"There is no architecture.activation '{self.activation}'; there are {known}.")
        if not (0 <= self.dropout < 1 and 0 <= self.attention_dropout < 1):
            raise SettingError("architecture.dropout and architecture.attention_dropout lie from 0 to below 1.")

    def build(self, vocabulary: Vocabulary) -> "EncoderModel":
        return EncoderModel(self, len(vocabulary))


class EncoderModel(nn.Module):
    def __init__(self, settings: Encoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = InputEmbedding(
            vocabulary=vocabulary_size,
            longest=settings.longest,
            segments=settings.segments,
            width=settings.width,
            dropout=settings.dropout,
            epsilon=settings.epsilon,
        )
        self.blocks = nn.ModuleList(
            PostNormBlock(
                width=settings.width,
                heads=settings.heads,
                inner=settings.inner,
                activation=settings.activation,
                dropout=settings.dropout,
                attention_dropout=settings.attention_dropout,
                epsilon=settings.epsilon,
            )
            for _ in range(settings.layers)
        )
        self.pooler = nn.Linear(settings.width, settings.width)
        start_weights(self)
        if settings.neighbours:
            start_at_neighbours(self.embed.positions, list(self.blocks), settings.heads)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.visible)
        tokens, segments = packing.pack(batch.tokens), packing.pack(batch.segments)  # (T,) real tokens only
        hidden = self.embed(tokens, segments, packing.positions())  # (T, width)
        for block in self.blocks:
            hidden = block(hidden, packing)
        pooled = torch.tanh(self.pooler(hidden[packing.first]))
        return States(hidden=packing.unpack(hidden), pooled=pooled)
