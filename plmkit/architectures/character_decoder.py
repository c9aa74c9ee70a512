"""The character Transformer: a deep decoder with position embeddings before every layer."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import CacheSettings, GeneratingModel, empty_cache
from plmkit.architectures.decoder import DecoderSettings, causal_attention, post_norm
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.initialisation.weights import init_normal
from plmkit.layers.cache import KeyValueCache
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import Dropout, TokenEmbedding


@dataclass(frozen=True, kw_only=True)
class CharacterDecoder(DecoderSettings):
    """Causal Transformer with position embeddings for every layer (Al-Rfou et al., 2018)."""

    max_length: int = 512
    activation: str = "relu"
    dropout: float = 0.55
    attention_dropout: float = 0.55
    tied_heads: ClassVar[tuple[str, ...]] = ()  # its output embedding is not tied

    def build(self, vocabulary: Vocabulary) -> "CharacterDecoderModel":
        return CharacterDecoderModel(self, vocabulary.rows)


class CharacterDecoderModel(GeneratingModel[KeyValueCache]):
    """Rows are padded on the right, so that no token attends to padding."""

    def __init__(self, settings: CharacterDecoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenEmbedding(vocabulary_size, settings.width)
        self.dropout = Dropout(settings.dropout)
        self.positions = nn.Parameter(torch.empty(settings.layers, settings.max_length, settings.width))
        self.blocks = nn.ModuleList(post_norm(settings, causal_attention(settings)) for _ in range(settings.layers))
        init_normal(self)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        hidden = self.dropout(self.embed(packing.pack(batch.source.tokens)))  # (T, width) packed
        places = packing.positions()
        inputs = []
        for block, positions in zip(self.blocks, self.positions, strict=True):
            if batch.all_layers:
                inputs.append(packing.unpack(hidden))
            hidden = block(hidden + positions[places], packing)
        last = packing.unpack(hidden)
        layers = (*inputs, last) if batch.all_layers else None
        return States(hidden=last, pooled=hidden[packing.last], layers=layers)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def begin(self, given: CacheSettings) -> KeyValueCache:
        return empty_cache(given, self.settings, self.settings.heads, like=self.embed.tokens.weight)

    def extend(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """(B, n) next tokens → (B, n, width) states."""
        rows, count = tokens.shape
        hidden = self.embed(tokens.flatten())
        for number, (block, positions) in enumerate(zip(self.blocks, self.positions, strict=True)):
            added = positions[cache.length : cache.length + count].repeat(rows, 1)
            hidden = block(hidden + added, cache.layer(number, count))
        cache.length += count
        return hidden.view(rows, count, -1)
