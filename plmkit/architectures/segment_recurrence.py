"""Transformer-XL: a decoder with recurrent memory of earlier segments."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.architectures.checks import check_activations, check_dropout, check_heads, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, Generates, GeneratingModel
from plmkit.data.batch import Batch, Memory, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.kernels.linear import linear
from plmkit.language import message, tr
from plmkit.layers.recording import record
from plmkit.layers.relative import (
    KeyValueMemory,
    RelativeAttention,
    causal_mask,
    distances_before,
    mask_scores,
    relative_shift,
    sinusoids,
)
from plmkit.layers.transformer import Dropout, FeedForward, PostNormBlock, drop
from plmkit.layers.vocabulary_head import AdaptiveEmbedding

SLOW = 4  # only the fastest quarter of the waves
SHARPNESS = 4.0  # puts most of a head's attention on its own distance


@dataclass(frozen=True, kw_only=True)
class SegmentSettings(Architecture):
    """Settings of segment recurrence with any kind of positions."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    memory: int  # length of the recurrent memory in tokens; 0: none
    same_length: bool = False  # every token attends to exactly `memory` tokens, itself included
    cutoffs: tuple[int, ...] = ()  # clusters of the vocabulary by frequency: where each but the first begins
    shrink: int = 1  # each cluster's embeddings are narrower than the previous by this factor
    activation: str = "relu"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.0  # dropout rate of attention weights
    epsilon: float = 1e-5  # of layer normalisation, added to the variance
    generates: ClassVar[Generates] = "causal"
    bounded: ClassVar[bool] = False  # the memory extends the context beyond `max_length`

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "heads", "width", "inner", "max_length", "shrink")
        if self.memory < 0:
            raise SettingError(tr("architecture.memory must be at least 0; found {memory}.", memory=self.memory))
        check_heads(self.width, self.heads, even=True)
        check_activations(self, "activation")
        if list(self.cutoffs) != sorted({*self.cutoffs}) or any(cutoff < 1 for cutoff in self.cutoffs):
            raise SettingError(
                tr("architecture.cutoffs must be positive and increasing; found {cutoffs}.", cutoffs=list(self.cutoffs))
            )
        if self.shrink ** len(self.cutoffs) > self.width:
            raise SettingError(
                tr(
                    "architecture.shrink={shrink} leaves the last of {cutoffs_count} clusters without width.",
                    shrink=self.shrink,
                    cutoffs_count=len(self.cutoffs) + 1,
                )
            )
        if self.same_length and not self.memory:
            raise SettingError(tr("architecture.same_length needs recurrent memory, but architecture.memory is 0."))
        check_dropout(self, "dropout", "attention_dropout")

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled"} | ({"memory"} if self.memory else set()))

    @property
    def memory_length(self) -> int:
        return self.memory

    @property
    def context_length(self) -> int:
        return self.memory or self.max_length

    def vocabulary_size(self, weights: Mapping[str, Tensor]) -> int:
        """The sum over all clusters of the embedding."""
        clusters = [len(weights[name]) for name in cluster_names(weights)]
        return sum(clusters) or super().vocabulary_size(weights)

    def last_embedding(self, weights: Mapping[str, Tensor]) -> str:
        """That of the rarest cluster."""
        return [super().last_embedding(weights), *cluster_names(weights)][-1]

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned."""
        return replace(self, dropout=dropout, attention_dropout=dropout)


def cluster_names(weights: Mapping[str, Tensor]) -> list[str]:
    """The embeddings of the clusters of a vocabulary, the most frequent first; none where it has a single one."""
    return sorted(
        (name for name in weights if name.startswith("model.embed.tables.")), key=lambda name: int(name.split(".")[3])
    )


@dataclass(frozen=True, kw_only=True)
class SegmentRecurrence(SegmentSettings):
    """Decoder with relative positions and recurrent memory of earlier segments (Dai et al., 2019)."""

    clamp: int | None = None  # maximum relative distance; larger ones count as this; none: no limit
    local_heads: bool = False  # initial heads attend to the preceding tokens; for runs of minutes
    not_a_graph: ClassVar[str | None] = message(
        "the distances that its attention needs depend on the length of each batch"
    )
    limits_distances: ClassVar[bool] = True
    initial: ClassVar[frozenset[str]] = frozenset({"local_heads"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp is not None and self.clamp < 1:
            raise SettingError(
                tr("architecture.clamp must be a distance of at least 1, or none; found {clamp}.", clamp=self.clamp)
            )

    def build(self, vocabulary: Vocabulary) -> "SegmentRecurrenceModel":
        model = SegmentRecurrenceModel(self, vocabulary.rows)
        if self.local_heads:
            model.init_local_heads()
        return model


class SegmentAttention(RelativeAttention):
    """Scores by content and by distance; keys and values from memory and segment, queries from the segment only."""

    def forward(self, hidden: Tensor, find: "KeysValues", context: "AttentionContext") -> Tensor:
        """(B, L, width) states of a segment → the same, attending to earlier segments and to itself."""
        query = self.queries(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, L, head width)
        contents, places = query + context.content_bias[:, None], query + context.position_bias[:, None]
        mixed = find(self, hidden, contents, places / math.sqrt(query.shape[-1]), context)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def keys_values(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """(B, heads, K, head width) each."""
        joint = linear(context, self.query_key_value.weight[context.shape[-1] :])
        key, value = joint.unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return key, value


def mix(query: Tensor, key: Tensor, value: Tensor, added: Tensor, dropout: float) -> Tensor:
    """softmax(query key / sqrt(width) + added) value."""
    if dropout == 0 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout)
    return drop(mixed_shares(query, key, added), dropout) @ value


def mixed_shares(query: Tensor, key: Tensor, added: Tensor) -> Tensor:
    """(B, heads, L, K) softmax(query key / sqrt(width) + added)."""
    return ((query / math.sqrt(key.shape[-1])) @ key.transpose(-1, -2) + added).softmax(-1)


KeysValues = Callable[
    [SegmentAttention, Tensor, Tensor, Tensor, "AttentionContext"], Tensor
]  # queries → attended values


def from_memory(memory: Tensor | None, waves: Tensor) -> KeysValues:
    """Attend to the states of earlier segments: keys and values are recomputed, without gradient into the memory."""

    def find(
        attention: SegmentAttention, hidden: Tensor, contents: Tensor, places: Tensor, context: "AttentionContext"
    ) -> Tensor:
        read = hidden if memory is None else torch.cat([memory, hidden], dim=1)  # (B, K, width)
        key, value = attention.keys_values(read)
        by_distance = mask_scores(relative_shift(places @ attention.distances(waves), key.shape[2]), context.masked)
        record(lambda: mixed_shares(contents, key, by_distance), memory=key.shape[2] - hidden.shape[1])
        return mix(contents, key, value, by_distance, attention.dropout if attention.training else 0.0)

    return find


def from_cache(cache: KeyValueMemory, layer: int) -> KeysValues:
    """Attend to cached keys and values of earlier tokens: for inference only."""

    def find(
        attention: SegmentAttention, hidden: Tensor, contents: Tensor, places: Tensor, context: "AttentionContext"
    ) -> Tensor:
        cache.put(layer, *attention.keys_values(hidden))
        return cache.find(layer, contents / math.sqrt(contents.shape[-1]), places)

    return find


@dataclass(frozen=True, kw_only=True)
class AttentionContext:
    """Shared by the attention of all layers: the mask, and the paper's u and v."""

    masked: Tensor | None  # (L, K) True where a query may not attend to a key; None: nowhere
    content_bias: Tensor  # (heads, head width), u
    position_bias: Tensor  # (heads, head width), v


class SegmentRecurrenceModel(GeneratingModel[KeyValueMemory]):
    attention: ClassVar[type[SegmentAttention]] = SegmentAttention

    def __init__(self, settings: SegmentSettings, vocabulary_size: int) -> None:
        super().__init__()
        self.settings: Any = settings
        self.embed = AdaptiveEmbedding(vocabulary_size, settings.width, settings.cutoffs, settings.shrink)
        self.content_bias = nn.Parameter(torch.empty(settings.heads, settings.width // settings.heads))
        self.position_bias = nn.Parameter(torch.empty(settings.heads, settings.width // settings.heads))
        self.blocks = nn.ModuleList(
            PostNormBlock(
                self.attention(settings.width, settings.heads, settings.attention_dropout),
                FeedForward(settings.width, settings.inner, settings.activation, settings.dropout),
                width=settings.width,
                dropout=settings.dropout,
                epsilon=settings.epsilon,
            )
            for _ in range(settings.layers)
        )
        self.dropout = Dropout(settings.dropout)
        self.init_weights()

    def init_weights(self, deviation: float = 0.02) -> None:
        """All weights from a normal distribution, norms around 1 (kimiyoung/transformer-xl)."""
        for bias in (self.content_bias, self.position_bias):
            nn.init.normal_(bias, std=deviation)
        for part in self.blocks.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=deviation)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
            if isinstance(part, nn.LayerNorm):
                nn.init.normal_(part.weight, mean=1.0, std=deviation)

    def init_local_heads(self) -> None:
        """Initialise head h of every layer to attend to the token h positions before.

        The sinusoids of two distances agree most if the distances are equal, so a head whose distance keys are
        its own sinusoids attends there, by the paper's v alone. All of it is trained from the first update on.
        """
        heads, inside = self.position_bias.shape
        fast = max(1, self.settings.width // 2 // SLOW)  # waves that distinguish adjacent positions
        waves = sinusoids(torch.arange(heads), self.settings.width).unflatten(1, (2, -1))
        waves[..., fast:] = 0.0
        with torch.no_grad():
            self.position_bias[:, 0] = SHARPNESS * math.sqrt(inside)
            for block in self.blocks:
                cast(Any, block).attention.distance.weight[::inside] += waves.flatten(1) / fast

    def forward(self, batch: Batch) -> States:
        (memory,) = batch.memory or (None,)  # (B, layers, M, width)
        hidden = self.dropout(self.read(batch.source.tokens))  # (B, L, width)
        queries, keys = hidden.shape[1], hidden.shape[1] + (0 if memory is None else memory.shape[2])
        window = self.settings.memory if self.settings.same_length else keys
        context = self.context(causal_mask(queries, keys, window, hidden.device))
        waves = self.dropout(self.waves(keys))
        inputs = []
        for number, block in enumerate(self.blocks):
            inputs.append(hidden)
            hidden = block(hidden, from_memory(None if memory is None else memory[:, number], waves), context)
        hidden, last = self.dropout(hidden), batch.source.visible.sum(1) - 1
        return States(
            hidden=hidden,
            pooled=hidden[torch.arange(len(last), device=last.device), last],
            layers=(*inputs, hidden) if batch.all_layers else None,
            memory=self.remember(memory, inputs),
        )

    def read(self, tokens: Tensor, before: int = 0) -> Tensor:
        """(B, n) tokens, after `before` earlier ones of the text → (B, n, width) embeddings."""
        return self.embed(tokens)

    @property
    def token_embedding(self) -> nn.Embedding | None:
        return self.embed.tokens

    @property
    def adaptive_embedding(self) -> AdaptiveEmbedding:
        return self.embed

    def begin(self, given: CacheSettings) -> KeyValueMemory:
        attentions = [cast(Any, block).attention for block in self.blocks]
        window = given.context_length or self.settings.context_length
        return KeyValueMemory(
            attentions,
            lambda keys: self.waves(keys, given.clamp),
            rows=given.rows,
            max_length=given.max_length,
            window=window,
        )

    @torch.no_grad()
    def extend(self, tokens: Tensor, cache: KeyValueMemory) -> Tensor:
        """(B, n) next tokens → (B, n, width) states; each passes through the layers once."""
        return torch.cat([self.advance(part, cache) for part in cache.parts(tokens)], dim=1)

    def advance(self, tokens: Tensor, cache: KeyValueMemory) -> Tensor:
        hidden, context = self.read(tokens, cache.length), self.context(None)
        for number, block in enumerate(self.blocks):
            hidden = block(hidden, from_cache(cache, number), context)
        return hidden

    def context(self, masked: Tensor | None) -> AttentionContext:
        return AttentionContext(masked=masked, content_bias=self.content_bias, position_bias=self.position_bias)

    def waves(self, keys: int, clamp: int | None = None) -> Tensor:
        """(keys + 1, width) sinusoids of the distances keys - 1 down to -1; the last one serves the relative shift."""
        distances = distances_before(keys + 1, self.content_bias.device) - 1
        limit = clamp or self.settings.clamp
        if limit is not None:
            distances = distances.clamp(max=limit)
        return sinusoids(distances, self.settings.width).to(self.content_bias.dtype)

    def remember(self, memory: Tensor | None, inputs: list[Tensor]) -> Memory | None:
        """(B, layers, M, width) the last inputs of each layer, without gradient."""
        if not self.settings.memory:
            return None
        kept = torch.stack([hidden.detach()[:, -self.settings.memory :] for hidden in inputs], dim=1)
        return (kept if memory is None else torch.cat([memory, kept], dim=2)[:, :, -self.settings.memory :],)
