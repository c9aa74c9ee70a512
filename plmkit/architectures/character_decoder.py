"""The character Transformer: a deep decoder that is told positions anew before every layer."""

from collections.abc import Sized
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.architectures.decoder import LeftToRight, causal_attention, post_norm, room_for
from plmkit.data.batch import Batch, States
from plmkit.initialisation.weights import start_normal
from plmkit.layers.cache import KeyValueCache
from plmkit.layers.dropout import Dropout
from plmkit.layers.embedding import TokenEmbedding
from plmkit.layers.packing import Packing


@dataclass(frozen=True, kw_only=True)
class CharacterDecoder(LeftToRight):
    """Causal Transformer with a table of positions for every layer (Al-Rfou et al., 2018)."""

    longest: int = 512
    activation: str = "relu"
    dropout: float = 0.55
    attention_dropout: float = 0.55
    weightless: ClassVar[tuple[str, ...]] = ()  # its table is not its head
    writes: ClassVar = frozenset({"hidden", "inner"})

    def build(self, vocabulary: Sized) -> "CharacterDecoderModel":
        return CharacterDecoderModel(self, len(vocabulary))


class CharacterDecoderModel(nn.Module):
    """Padding stands behind the text of a row, so that nothing reads it."""

    def __init__(self, settings: CharacterDecoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenEmbedding(vocabulary_size, settings.width)
        self.dropout = Dropout(settings.dropout)
        self.positions = nn.Parameter(torch.empty(settings.layers, settings.longest, settings.width))
        self.blocks = nn.ModuleList(post_norm(settings, causal_attention(settings)) for _ in range(settings.layers))
        start_normal(self)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        hidden = self.dropout(self.embed(packing.pack(batch.source.tokens)))  # (T, width) packed
        places = packing.positions()
        made = []
        for block, positions in zip(self.blocks, self.positions, strict=True):
            hidden = block(hidden + positions[places], packing)
            made.append(hidden)
        inner = tuple(map(packing.unpack, made[:-1])) if self.training else None
        return States(hidden=packing.unpack(hidden), pooled=hidden[packing.last], inner=inner)

    def begin(self, rows: int, longest: int) -> KeyValueCache:
        """Room for so many rows of up to so many tokens, all of which are read from the left."""
        return room_for(rows, longest, self.settings, like=self.embed.tokens.weight)

    def extend(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """(B, n) further tokens to (B, n, width)."""
        rows, count = tokens.shape
        hidden = self.embed(tokens.flatten())
        for number, (block, positions) in enumerate(zip(self.blocks, self.positions, strict=True)):
            told = positions[cache.length : cache.length + count].repeat(rows, 1)
            hidden = block(hidden + told, cache.layer(number, count))
        cache.length += count
        return hidden.view(rows, count, -1)
