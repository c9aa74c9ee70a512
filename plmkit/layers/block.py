"""One Transformer layer, post-norm or pre-norm."""

from typing import Any

from torch import Tensor, nn

from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.dropout import Dropout
from plmkit.layers.packing import NeededTokens


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
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
