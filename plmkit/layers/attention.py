"""Multi-head attention: of a row to itself, and of a target to its source."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import HeadStates
from plmkit.kernels.attention import added_mask, attend_long_rows, attend_short_rows, is_short
from plmkit.kernels.linear import Linear, linear
from plmkit.layers.cache import LayerCache
from plmkit.layers.packing import NeededTokens, Packing
from plmkit.layers.recording import project, record
from plmkit.layers.transformer import drop


class SelfAttention(nn.Module):
    """Every position, or every needed one, attends to all visible ones of its row."""

    def __init__(self, width: int, heads: int, dropout: float, bias: bool = True, kept: int | None = None) -> None:
        """Of `heads` that divide the width, the number that was kept, if others were pruned."""
        super().__init__()
        inside = width // heads * (kept or heads)
        self.heads = kept or heads
        self.dropout = dropout
        self.query_key_value = Linear(width, 3 * inside, bias=bias)
        self.output = Linear(inside, width, bias=bias)

    def forward(self, hidden: Tensor, packing: Packing | LayerCache, needed: NeededTokens | None = None) -> Tensor:
        if needed is None:
            return self.output(self.read(self.query_key_value(hidden), packing))
        inside, bias = self.output.in_features, self.query_key_value.bias
        ask, answer = self.query_key_value.weight.tensor_split([inside])
        ask_bias, answer_bias = (None, None) if bias is None else bias.tensor_split([inside])
        (query,) = self.split_heads(needed.unpack(linear(needed.choose(hidden), ask, ask_bias)), 1)
        key, value = self.split_heads(packing.unpack(linear(hidden, answer, answer_bias)), 2)
        record(lambda: softmax_weights(query, key, packing.visible))
        return self.output(self.joined(self.mix(query, key, value, packing), needed))

    def read(self, joint: Tensor, packing: Packing | LayerCache) -> Tensor:
        """(T, 3 * width) queries, keys and values → (T, width) attention output within each row."""
        if isinstance(packing, Packing):
            record(lambda: self.weights(joint, packing))
            project(lambda: self.projections(joint, packing))
        if isinstance(packing, Packing) and self.by_products(joint, packing):
            if is_short(joint, packing, self.heads):
                return attend_short_rows(joint, packing, self.heads, self.attention_mask(packing), self.share)
            return attend_long_rows(joint, packing, self.heads, self.attention_mask, self.share)
        query, key, value = self.split_heads(packing.unpack(joint), 3)
        return self.joined(self.mix(query, key, value, packing), packing)

    def weights(self, joint: Tensor, packing: Packing) -> Tensor:
        """(B, heads, L, L) attention weights without dropout, which no kernel returns."""
        query, key, _ = self.split_heads(packing.unpack(joint), 3)
        return softmax_weights(query, key, self.attention_mask(packing))

    def projections(self, joint: Tensor, packing: Packing) -> HeadStates:
        query, key, value = self.split_heads(packing.unpack(joint), 3)
        return HeadStates(query=query, key=key, value=value, visible=self.attention_mask(packing))

    def by_products(self, joint: Tensor, packing: Packing) -> bool:
        """Whether our kernel is faster than torch's fused one: for short rows, with dropout, and in bfloat16."""
        if not joint.requires_grad or joint.device.type != "cpu":
            return False
        if is_short(joint, packing, self.heads):
            return joint.dtype in (torch.float32, torch.bfloat16)
        return self.share > 0 or joint.dtype == torch.bfloat16

    def attention_mask(self, packing: Packing) -> Tensor | None:
        """True where a position may attend to another, broadcastable to (B, heads, L, L); None: everywhere."""
        return packing.visible

    def split_heads(self, joint: Tensor, parts: int) -> list[Tensor]:
        """(B, L, parts * width) → parts of (B, heads, L, width / heads)."""
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in joint.chunk(parts, dim=-1)]

    def joined(self, mixed: Tensor, packing: Packing | LayerCache) -> Tensor:
        """(B, heads, L, width / heads) → (T, width)."""
        return packing.pack(mixed.transpose(1, 2).flatten(2))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | LayerCache) -> Tensor:
        """(B, heads, queries, width / heads) attention output."""
        return attend(query, key, value, packing.visible, self.share)

    @property
    def share(self) -> float:
        """The current dropout probability of attention weights."""
        return self.dropout if self.training else 0.0


class RelativeSelfAttention(SelfAttention):
    """Scores also depend on the distance between two positions, up to a limit beyond which all distances are one.

    Each of up to `relative_keys` has a key, which all heads share (Shaw et al., 2018, 3.2); each of up to
    `distance_bias` has a learned bias in every head. 0: none.
    """

    def __init__(
        self, width: int, heads: int, dropout: float, bias: bool = True, *, relative_keys: int, distance_bias: int
    ) -> None:
        super().__init__(width, heads, dropout, bias)
        self.relative_keys = nn.Embedding(2 * relative_keys + 1, width // heads) if relative_keys else None
        self.distance_bias = nn.Parameter(torch.zeros(heads, 2 * distance_bias + 1)) if distance_bias else None

    def forward(self, hidden: Tensor, packing: Packing | LayerCache, needed: NeededTokens | None = None) -> Tensor:
        read = super().forward(hidden, packing)
        return read if needed is None else needed.choose(read)

    def by_products(self, joint: Tensor, packing: Packing) -> bool:
        return False  # no kernel knows distances

    def weights(self, joint: Tensor, packing: Packing) -> Tensor:
        query, key, _ = self.split_heads(packing.unpack(joint), 3)
        return self.scores(query, key, packing).softmax(-1)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | LayerCache) -> Tensor:
        return drop(self.scores(query, key, packing).softmax(-1), self.share) @ value

    def scores(self, query: Tensor, key: Tensor, packing: Packing | LayerCache) -> Tensor:
        """(B, heads, L, L), minus infinity on padding."""
        length = query.shape[2]
        places = torch.arange(length, device=query.device)
        distances = places - places[:, None]  # (L, L) of the key from the query
        scores = query @ key.mT
        if self.relative_keys is not None:
            most = self.relative_keys.num_embeddings // 2
            by_distance = query @ self.relative_keys.weight.T  # (B, heads, L, distances)
            chosen = (distances.clamp(-most, most) + most).expand(*query.shape[:2], length, length)
            scores = scores + by_distance.gather(-1, chosen)
        scores = scores / math.sqrt(query.shape[-1])
        if self.distance_bias is not None:
            most = self.distance_bias.shape[1] // 2
            scores = scores + self.distance_bias[:, distances.clamp(-most, most) + most]
        return scores if packing.visible is None else scores.masked_fill(~packing.visible, -torch.inf)


def self_attention(
    width: int, heads: int, dropout: float, bias: bool = True, *, relative_keys: int = 0, distance_bias: int = 0
) -> SelfAttention:
    """Self-attention, with distances if there are any to distinguish."""
    if not (relative_keys or distance_bias):
        return SelfAttention(width, heads, dropout, bias)
    return RelativeSelfAttention(
        width, heads, dropout, bias, relative_keys=relative_keys, distance_bias=distance_bias
    )  # fmt: skip


class CausalAttention(SelfAttention):
    """Every position attends to itself and those before it; rows are padded on the right, where nothing attends."""

    band: int | None = None  # maximum number of positions to attend to, itself included

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | LayerCache) -> Tensor:
        if isinstance(packing, LayerCache):
            return attend_with_cache(query, key, value, packing, packing.length)
        slow = self.share > 0 or torch.compiler.is_exporting()
        if not slow or query.device.type != "cpu":
            return F.scaled_dot_product_attention(query, key, value, dropout_p=self.share, is_causal=True)
        return attend(query, key, value, self.attention_mask(packing), self.share)

    def by_products(self, joint: Tensor, packing: Packing) -> bool:
        # without dropout torch's kernel is faster: it skips later positions if only the causal mask applies
        return (self.share > 0 or joint.dtype == torch.bfloat16) and super().by_products(joint, packing)

    def attention_mask(self, packing: Packing) -> Tensor | None:
        return band(packing.length, packing.length, packing.first.device)


class BandedAttention(CausalAttention):
    """Every position attends to itself and the `band - 1` before it (Child et al., 2019, local attention)."""

    def __init__(self, width: int, heads: int, dropout: float, band: int) -> None:
        super().__init__(width, heads, dropout)
        self.band: int = band

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | LayerCache) -> Tensor:
        if self.band >= packing.length:
            return super().mix(query, key, value, packing)
        if isinstance(packing, LayerCache):
            return attend_with_cache(query, key, value, packing, self.band)
        return attend(query, key, value, self.attention_mask(packing), self.share)

    def attention_mask(self, packing: Packing) -> Tensor | None:
        return band(packing.length, self.band, packing.first.device)


@dataclass(frozen=True, kw_only=True)
class SourceKeys:
    """What a layer attends to in S encoded sources."""

    keys: Tensor  # (S, heads, L, width / heads)
    values: Tensor
    visible: Tensor | None  # (S, 1, 1, L) False on padding; None: no padding


class CrossAttention(nn.Module):
    """Every position of a target attends to all visible ones of its source (Vaswani et al., 2017, 3.2.3)."""

    def __init__(
        self, width: int, heads: int, dropout: float, bias: bool = True, *, source_width: int | None = None,
        inside: int | None = None,
    ) -> None:  # fmt: skip
        """By default the states of the source, and queries, keys and values, are as wide as those of the target."""
        super().__init__()
        inside = inside or width
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, inside, bias=bias)
        self.key_value = Linear(source_width or width, 2 * inside, bias=bias)
        self.output = Linear(inside, width, bias=bias)

    def read(self, source: Tensor, packing: Packing) -> SourceKeys:
        """Keys and values of (T, width) packed states of sources, computed once however many targets there are."""
        joint = packing.unpack(self.key_value(source)).unflatten(-1, (2, self.heads, -1))
        keys, values = joint.permute(2, 0, 3, 1, 4)
        return SourceKeys(keys=keys, values=values, visible=packing.visible)

    def forward(self, hidden: Tensor, packing: Packing | LayerCache, source: SourceKeys) -> Tensor:
        """(T, width) → the same; the targets of one source, if several, are consecutive rows."""
        query = packing.unpack(self.query(hidden))  # (B, L, width)
        together = query.reshape(len(source.keys), -1, self.heads, query.shape[-1] // self.heads).transpose(1, 2)
        share = self.dropout if self.training else 0.0
        record(lambda: rows_apart(softmax_weights(together, source.keys, source.visible), query.shape[1]), kind="cross")
        mixed = attend(together, source.keys, source.values, source.visible, share)
        return self.output(packing.pack(mixed.transpose(1, 2).reshape(query.shape)))


def rows_apart(weights: Tensor, length: int) -> Tensor:
    """(S, heads, rows * length, keys) weights of the targets of S sources → (S * rows, heads, length, keys)."""
    return weights.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)


@contextmanager
def without_heads(attention: SelfAttention | CrossAttention, *heads: int) -> Iterator[None]:
    """Inside, the output of these heads is left out: an ablation (Michel et al., 2019)."""
    weight = attention.output.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.unflatten(1, (attention.heads, -1))[:, list(heads)] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def band(length: int, width: int, device: torch.device, before: int = 0) -> Tensor:
    """(L - before, L) True where position i attends to position j: 0 <= i - j < width; without the first `before`."""
    places = torch.arange(length, device=device)
    distance = places[before:, None] - places
    return (distance >= 0) & (distance < width)


def attend_with_cache(query: Tensor, key: Tensor, value: Tensor, kept: LayerCache, width: int) -> Tensor:
    """The same with a cache: each position attends to itself and the `width - 1` before it."""
    if kept.count == 1:
        keys, values = kept.add(key, value, window=width)
        record(lambda: softmax_weights(query, keys), memory=keys.shape[2] - 1)
        return F.scaled_dot_product_attention(query, keys, values)
    keys, values = kept.add(key, value)
    record(
        lambda: softmax_weights(query, keys, band(kept.length, width, query.device, kept.before)), memory=kept.before
    )
    if kept.before == 0 and width >= kept.length:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True)
    visible = band(kept.length, width, query.device, kept.before)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=visible)


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    """softmax(query key / sqrt(width)) value, by torch's fused kernel where it has a fast one.

    On a CPU it has none for dropout, and in bfloat16 the backward pass of the fused one takes five times as long. In
    an exported graph it becomes twice as many operations as the formula has.
    """
    slow = dropout > 0 or (query.dtype == torch.bfloat16 and query.requires_grad) or torch.compiler.is_exporting()
    if query.device.type != "cpu" or not slow:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-1, -2)  # (B, heads, queries, L)
    if visible is not None:
        scores += added_mask(visible, scores.dtype)
    return drop(scores.softmax(-1), dropout) @ value


def softmax_weights(query: Tensor, key: Tensor, visible: Tensor | None = None) -> Tensor:
    """(B, heads, queries, keys) softmax(query key / sqrt(width)): the weights that fused kernels do not return."""
    precise = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(precise) / math.sqrt(query.shape[-1]) @ key.to(precise).mT
    return (scores if visible is None else scores + added_mask(visible, precise)).softmax(-1)
