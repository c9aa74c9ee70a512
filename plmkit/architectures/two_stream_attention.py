"""Attention of two streams by content, distance and segment."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch
from plmkit.kernels.linear import linear
from plmkit.layers.recording import Kind, record
from plmkit.layers.relative import KeyValueMemory, RelativeAttention, distances_around, relative_shift, sinusoids
from plmkit.layers.transformer import drop

MASKED = -1e30  # added to masked scores; not -inf, which would turn fully masked rows into NaN


class AttentionContext:
    """Which positions attend to which, and at what distance; shared by all blocks."""

    def __init__(self, batch: Batch, width: int, places: Tensor | None = None) -> None:
        length = batch.source.tokens.shape[1]
        device = batch.source.tokens.device
        remembered = 0 if batch.memory is None else batch.memory[0].shape[2]
        self.remembered, self.keys = remembered, remembered + length
        around = distances_around(length, self.keys, device)
        self.waves = sinusoids(around, width)  # (C, width); for rows of both directions (2, C, width)
        self.reversed = None
        if batch.reversed is not None and bool(batch.reversed.any()):
            self.waves = torch.stack([self.waves, sinusoids(-around, width)])
            self.reversed = batch.reversed.long()
        masked = mask_of(batch)  # (B, L, L) or (B, 1, L)
        itself = torch.eye(length, dtype=torch.bool, device=device)
        self.content = added_scores(None if masked is None else masked & ~itself, remembered)
        self.nothing = None
        if places is not None:
            assert masked is not None
            chosen = masked.expand(-1, length, -1).gather(1, places[:, :, None].expand(-1, -1, length))
            self.query = added_scores(chosen, remembered)  # (B, P, keys)
            if not remembered and bool((blind := chosen.all(-1)).any()):
                self.nothing = blind[None, :, :, None]  # (1, B, P, 1) first in the order: nothing to attend to
            key = torch.arange(self.keys, device=device)
            self.columns = self.keys - 1 - (remembered + places[:, :, None] - key)  # (B, P, keys)
        self.segments = segment_signs(
            batch.source.segment_ids, remembered
        )  # (B, keys, S), or None: all are in one segment
        self.own = None if self.segments is None else self.segments[:, remembered:]
        self.predicted = None
        if self.own is not None and places is not None:
            self.predicted = self.own.gather(1, places[:, :, None].expand(-1, -1, self.own.shape[-1]))  # (B, P, S)


def mask_of(batch: Batch) -> Tensor | None:
    """(B, L, L) True where position i may not attend to j; without an order (B, 1, L) or None."""
    padding = None if bool(batch.source.visible.all()) else ~batch.source.visible[:, None, :]
    if batch.attention_order is None:
        return padding
    masked = batch.attention_order[:, :, None, 1] <= batch.attention_order[:, None, :, 0]
    return masked if padding is None else masked | padding


def added_scores(masked: Tensor | None, remembered: int) -> Tensor | None:
    """(B, Q, keys) added to the scores; memory is never masked."""
    if masked is None:
        return None
    return F.pad(torch.zeros(masked.shape, device=masked.device).masked_fill_(masked, MASKED), (remembered, 0))


def segment_signs(segments: Tensor, remembered: int) -> Tensor | None:
    """(B, keys, S) one-hot segment of each key; memory is in the first."""
    lowest, highest = segments.min(), segments.max()
    if lowest == highest and not (remembered and highest > 0):
        return None
    return F.one_hot(F.pad(segments, (remembered, 0))).float()


class TwoStreamAttention(RelativeAttention):
    """Scores by content, by distance and by whether two positions share a segment (Yang et al., 2019, 2.4, A.2)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__(width, heads, dropout)
        shape = heads, width // heads
        self.content_bias = nn.Parameter(0.02 * torch.randn(shape))  # u: added to queries of content
        self.distance_bias = nn.Parameter(0.02 * torch.randn(shape))  # v: added to queries of distance
        self.segment_bias = nn.Parameter(0.02 * torch.randn(shape))
        self.segments = nn.Parameter(0.02 * torch.randn(2, *shape))  # same segment, other segment

    def forward(
        self, content: Tensor, query: Tensor | None, memory: Tensor | None, context: AttentionContext, query_only: bool
    ) -> tuple[Tensor, Tensor]:
        """The attention output of both streams; `query_only` skips the content stream."""
        own, key, value = self.project(content, memory, query_only)  # (heads, B, L or keys, inside)
        far = self.far(context)
        if context.segments is not None:
            key = torch.cat([key, context.segments.to(key.dtype).expand(self.heads, -1, -1, -1)], dim=-1)
        read = answered = content
        if own is not None:
            by_distance = relative_shift(self.by_distance(own, far), context.keys)
            read = self.mix(
                own, by_distance, key, value, context.own, context.content, kind="self", memory=context.remembered
            )
        if query is not None:
            queries = self.split_heads(self.queries(query))
            columns = context.columns.expand(self.heads, -1, -1, -1)
            by_distance = self.by_distance(queries, far).gather(-1, columns)
            answered = self.mix(
                queries, by_distance, key, value, context.predicted, context.query, context.nothing,
                kind="query", memory=context.remembered,
            )  # fmt: skip
        return read, answered

    def extend(
        self, content: Tensor, query: Tensor, cache: KeyValueMemory, layer: int, query_only: bool
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """New tokens, attending to themselves and earlier ones, and queries one position on, attending to the same."""
        own, key, value = self.project(content, None, query_only)
        cache.put(layer, key.transpose(0, 1), value.transpose(0, 1))
        queries = self.split_heads(self.queries(query))
        read = content if own is None else self.find(own, cache, layer)
        return read, self.find(queries, cache, layer, ahead=1)

    def find(self, query: Tensor, cache: KeyValueMemory, layer: int, ahead: int = 0) -> Tensor:
        contents = self.content_query(query, None).transpose(0, 1)
        places = self.distance_query(query).transpose(0, 1)
        return self.output(cache.find(layer, contents, places, ahead).transpose(1, 2).flatten(2))

    def project(
        self, content: Tensor, memory: Tensor | None, query_only: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:  # fmt: skip
        """Queries from the row, keys and values from memory and row."""
        width = content.shape[-1]
        if query_only:
            own, pairs = None, linear(content, self.query_key_value.weight[width:])
        else:
            own, pairs = self.query_key_value(content).split((width, 2 * width), dim=-1)
        if memory is not None:
            before = linear(memory.to(content.dtype), self.query_key_value.weight[width:])
            pairs = torch.cat([before, pairs], dim=1)
        key, value = pairs.chunk(2, dim=-1)
        return None if own is None else self.split_heads(own), self.split_heads(key), self.split_heads(value)

    def split_heads(self, joint: Tensor) -> Tensor:
        """(B, L, width) → (heads, B, L, inside)."""
        return joint.unflatten(-1, (self.heads, -1)).permute(2, 0, 1, 3)

    def far(self, context: AttentionContext) -> Tensor:
        """(heads, inside, C) keys of the distances; (heads, B, inside, C) for rows of both directions."""
        if context.reversed is None:
            return self.distances(context.waves)
        both = torch.stack([self.distances(waves) for waves in context.waves], dim=1)
        return both[:, context.reversed]

    def by_distance(self, query: Tensor, far: Tensor) -> Tensor:
        """(heads, B, Q, C)."""
        query = self.distance_query(query)
        if far.dim() == 4:
            return query @ far
        return (query.flatten(1, 2) @ far).unflatten(1, query.shape[1:3])

    def distance_query(self, query: Tensor) -> Tensor:
        return (query + self.distance_bias[:, None, None]) / query.shape[-1] ** 0.5

    def mix(
        self, query: Tensor, by_distance: Tensor, key: Tensor, value: Tensor, segments: Tensor | None,
        masked: Tensor | None, nothing: Tensor | None = None, *, kind: Kind, memory: int,
    ) -> Tensor:  # fmt: skip
        scores = torch.baddbmm(
            by_distance.flatten(0, 1),
            self.content_query(query, segments).flatten(0, 1),
            key.flatten(0, 1).transpose(1, 2),
        ).unflatten(0, query.shape[:2])  # (heads, B, Q, keys)
        if masked is not None:
            scores += masked
        shares = scores.softmax(-1)
        if nothing is not None:
            shares = shares.masked_fill(nothing, 0.0)
        record(lambda: shares.transpose(0, 1), kind, memory)
        if self.training:
            shares = drop(shares, self.dropout)
        return self.output((shares @ value).permute(1, 2, 0, 3).flatten(2))

    def content_query(self, query: Tensor, segments: Tensor | None) -> Tensor:
        """The query with u and, for the keys' segments, the score of another segment minus that of its own.

        softmax ignores a term that all keys of a query share, so that only this difference counts.
        """
        scale = query.shape[-1] ** -0.5
        answered = (query + self.content_bias[:, None, None]) * scale
        if segments is None:
            return answered
        same, other = self.segments
        more = ((query + self.segment_bias[:, None, None]) @ ((same - other) * scale)[:, None, :, None]).to(
            answered.dtype
        )
        return torch.cat([answered, more * segments.to(answered.dtype)], dim=-1)
