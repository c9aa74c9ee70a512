"""One token through a pre-norm layer, without the overhead of modules."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.layers.attention import softmax_weights
from plmkit.layers.cache import LayerCache
from plmkit.layers.recording import record
from plmkit.layers.transformer import PreNormBlock

Operation = Callable[[Tensor], Tensor]


def plain_step(block: PreNormBlock, hidden: Tensor, seen: Tensor) -> Tensor:
    """Reference of `Step`: the block itself, with cached keys and values (2, B, heads, length - 1, inside)."""
    keys, values = seen
    return block(hidden, LayerCache(keys, values, before=keys.shape[2] - 1, count=1))


class Step:
    """Computes a `PreNormBlock` with causal attention for one more token per row, without its modules."""

    def __init__(self, block: PreNormBlock) -> None:
        attention: Any = block.attention
        feed_forward: Any = block.feed_forward
        self.heads: int = attention.heads
        self.band: int | None = attention.band
        self.attention_norm, self.feed_forward_norm = norm(block.attention_norm), norm(block.feed_forward_norm)
        self.query_key_value, self.output = linear(attention.query_key_value), linear(attention.output)
        self.expand, self.contract = linear(feed_forward.expand), linear(feed_forward.contract)
        self.activation: Operation = feed_forward.activation

    def __call__(self, hidden: Tensor, place: Tensor, seen: Tensor) -> Tensor:
        """(B, width) → the same; key and value are written to `place`, the last of (2, B, heads, length, inside)."""
        rows, width = hidden.shape
        joint = self.query_key_value(self.attention_norm(hidden)).view(rows, 3, self.heads, 1, -1).transpose(0, 1)
        place.copy_(joint[1:])
        if self.band is not None:
            seen = seen[..., -self.band :, :]
        record(lambda: softmax_weights(joint[0], seen[0]), memory=seen.shape[-2] - 1)
        mixed = F.scaled_dot_product_attention(joint[0], *seen)
        hidden = hidden + self.output(mixed.view(rows, width))
        return hidden + self.contract(self.activation(self.expand(self.feed_forward_norm(hidden))))


def linear(module: nn.Linear) -> Operation:
    return partial(F.linear, weight=module.weight, bias=module.bias)


def norm(module: nn.LayerNorm) -> Operation:
    shape, weight, bias, epsilon = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda hidden: torch.layer_norm(hidden, shape, weight, bias, epsilon)
