"""The parts of a Transformer around its attention: input embeddings, dropout, feed-forward network, blocks."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.kernels.dropout_mask import mask_like
from plmkit.kernels.linear import Linear
from plmkit.layers.packing import NeededTokens
from plmkit.layers.sinusoids import SINUSOIDS

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # erf form: Hugging Face's `gelu`
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # released BERT code; Hugging Face's `gelu_new`
    "relu": F.relu,
    "tanh": torch.tanh,
}


class Dropout(nn.Module):
    """Each element becomes zero with probability `share`; the others are scaled so that the mean is unchanged."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, numbers: Tensor) -> Tensor:
        return drop(numbers, self.share) if self.training else numbers

    def add(self, hidden: Tensor, numbers: Tensor) -> Tensor:
        """hidden + dropout(numbers)."""
        if not self.training or self.share == 0 or numbers.device.type != "cpu":
            return hidden + self(numbers)
        return torch.addcmul(hidden, numbers, mask_like(numbers, self.share))


def drop(numbers: Tensor, share: float) -> Tensor:
    if share == 0 or numbers.device.type != "cpu":
        return F.dropout(numbers, share)
    return numbers * mask_like(numbers, share)


class InputEmbedding(nn.Module):
    """Sum of token, segment and position embeddings, normalised (Devlin et al., 2018, 3)."""

    def __init__(
        self, *, vocabulary: int, max_length: int, segments: int, width: int, dropout: float, epsilon: float
    ) -> None:
        super().__init__()
        self.width = width
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(max_length, width)
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def total(self, tokens: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        if self.segments is None:  # DistilBERT
            return self.tokens(tokens) + self.positions(positions)
        if self.segments.num_embeddings == 1:  # RoBERTa: both texts of a pair are in the only segment
            segments = torch.zeros_like(segments)
        # in the order of transformers and google-research/bert: any other changes the last bits
        return self.tokens(tokens) + self.segments(segments) + self.positions(positions)

    def forward(self, tokens: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.norm(self.total(tokens, segments, positions)))


class TokenPositionEmbedding(nn.Module):
    """Sum of token and position embeddings (Radford et al., 2018, 3.1)."""

    def __init__(self, *, vocabulary: int, max_length: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(max_length, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.tokens(tokens) + self.positions(positions))


class SinusoidalEmbedding(nn.Module):
    """Token embeddings times the root of their width, plus fixed sinusoids of the position (Vaswani et al., 2017)."""

    waves: Tensor

    def __init__(self, *, vocabulary: int, max_length: int, width: int, dropout: float, layout: str) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.tokens = nn.Embedding(vocabulary, width)
        self.register_buffer("waves", SINUSOIDS[layout](torch.arange(max_length), width), persistent=False)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.tokens(tokens) * self.scale + self.waves[positions])


class TokenEmbedding(nn.Module):
    """Token embeddings only, for models that add positions elsewhere."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens)


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = Linear(width, inner)
        self.contract = Linear(inner, width)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.contract(self.dropout(self.activation(self.expand(hidden))))


class PostNormBlock(nn.Module):
    """norm(x + attention(x)), then norm(x + feed_forward(x)) (Vaswani et al., 2017, 3.1)."""

    def __init__(
        self, attention: nn.Module, feed_forward: nn.Module, *, width: int, dropout: float, epsilon: float
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward = feed_forward
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, *context: Any, needed: NeededTokens | None = None) -> Tensor:
        """If `needed` is given, computed for these tokens only."""
        if needed is None:
            read = self.attention(hidden, *context)
        else:
            read, hidden = self.attention(hidden, *context, needed), needed.choose(hidden)
        hidden = self.attention_norm(self.dropout.add(hidden, read))
        return self.feed_forward_norm(self.dropout.add(hidden, self.feed_forward(hidden)))


class CrossBlock(nn.Module):
    """A post-norm block with cross-attention between its two sublayers (Vaswani et al., 2017, 3.1)."""

    def __init__(
        self, attention: nn.Module, cross_attention: Any, feed_forward: nn.Module, *, width: int, dropout: float,
        epsilon: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.cross_attention = cross_attention
        self.cross_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward = feed_forward
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, packing: Any, source: Any) -> Tensor:
        hidden = self.attention_norm(self.dropout.add(hidden, self.attention(hidden, packing)))
        hidden = self.cross_norm(self.dropout.add(hidden, self.cross_attention(hidden, packing, source)))
        return self.feed_forward_norm(self.dropout.add(hidden, self.feed_forward(hidden)))


class PreNormBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)) (Radford et al., 2019, 2.3)."""

    def __init__(
        self, attention: nn.Module, feed_forward: nn.Module, *, width: int, dropout: float, epsilon: float
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.attention = attention
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward = feed_forward
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, *context: Any) -> Tensor:
        hidden = self.dropout.add(hidden, self.attention(self.attention_norm(hidden), *context))
        return self.dropout.add(hidden, self.feed_forward(self.feed_forward_norm(hidden)))


class Borrowed(nn.Module):
    """A sublayer of another block, used here too; its weights belong to that block and are saved once."""

    def __init__(self, sublayer: nn.Module) -> None:
        super().__init__()
        self._sublayer = (sublayer,)  # in a tuple, so that torch does not register it here

    def forward(self, *inputs: Any) -> Tensor:
        return self._sublayer[0](*inputs)
