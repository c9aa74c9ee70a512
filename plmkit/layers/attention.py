"""Multi-head self-attention."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.layers.cache import Kept
from plmkit.layers.dropout import drop
from plmkit.layers.packing import Packing


class SelfAttention(nn.Module):
    """Every position reads every visible one of its row; query, key and value come from one product."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, hidden: Tensor, packing: Packing | Kept) -> Tensor:
        width = hidden.shape[-1]
        joint = packing.unpack(self.query_key_value(hidden))  # (B, L, 3 * width)
        query, key, value = joint.unflatten(-1, (3, self.heads, width // self.heads)).permute(2, 0, 3, 1, 4)
        mixed = self.mix(query, key, value, packing)
        return self.output(packing.pack(mixed.transpose(1, 2).flatten(2)))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | Kept) -> Tensor:
        """(B, heads, L, width / heads) for each position, what it reads."""
        return attend(query, key, value, packing.visible, self.share)

    @property
    def share(self) -> float:
        """Of the weights that are dropped now."""
        return self.dropout if self.training else 0.0


class CausalAttention(SelfAttention):
    """Every position reads itself and those before it; padding stands behind a row, where nothing reads it."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | Kept) -> Tensor:
        if isinstance(packing, Kept):
            return read_on(query, key, value, packing, packing.length)
        if self.share == 0 or query.device.type != "cpu":
            return F.scaled_dot_product_attention(query, key, value, dropout_p=self.share, is_causal=True)
        return attend(query, key, value, band(packing.length, packing.length, query.device), self.share)


class BandedAttention(CausalAttention):
    """Every position reads itself and the `band - 1` before it (Child et al., 2019, local attention)."""

    def __init__(self, width: int, heads: int, dropout: float, band: int) -> None:
        super().__init__(width, heads, dropout)
        self.band = band

    def mix(self, query: Tensor, key: Tensor, value: Tensor, packing: Packing | Kept) -> Tensor:
        if self.band >= packing.length:
            return super().mix(query, key, value, packing)
        if isinstance(packing, Kept):
            return read_on(query, key, value, packing, self.band)
        return attend(query, key, value, band(packing.length, self.band, query.device), self.share)


def band(length: int, width: int, device: torch.device, before: int = 0) -> Tensor:
    """(L - before, L) True where position i may read position j: 0 <= i - j < width; of those behind the first few."""
    places = torch.arange(length, device=device)
    distance = places[before:, None] - places
    return (distance >= 0) & (distance < width)


def read_on(query: Tensor, key: Tensor, value: Tensor, kept: Kept, width: int) -> Tensor:
    """The same with what was read before: each position reads itself and the `width - 1` before it."""
    if kept.count == 1:
        return F.scaled_dot_product_attention(query, *kept.add(key, value, reach=width))
    keys, values = kept.add(key, value)
    if kept.before == 0 and width >= kept.length:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True)
    visible = band(kept.length, width, query.device, kept.before)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=visible)


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    """softmax(query key / sqrt(width)) value; torch's fused kernel wherever it has one."""
    if dropout == 0 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)
    scores = query @ (key / math.sqrt(key.shape[-1])).transpose(-1, -2)  # (B, heads, L, L)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return drop(scores.softmax(-1), dropout) @ value
