"""One Transformer layer, normalised after each sublayer."""

from torch import Tensor, nn

from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.attention import SelfAttention
from plmkit.layers.dropout import Dropout
from plmkit.layers.packing import Packing


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, hidden: Tensor) -> Tensor:
        return self.contract(self.activation(self.expand(hidden)))


class PostNormBlock(nn.Module):
    """norm(x + attention(x)), then norm(x + feed_forward(x)) (Vaswani et al., 2017, 3.1)."""

    def __init__(
        self, *, width: int, heads: int, inner: int, activation: str,
        dropout: float, attention_dropout: float, epsilon: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.attention = SelfAttention(width, heads, attention_dropout)
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward = FeedForward(width, inner, activation)
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: Tensor, packing: Packing) -> Tensor:
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, packing)))
        return self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden)))
