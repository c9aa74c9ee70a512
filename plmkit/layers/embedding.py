"""The input of BERT and its family, and that of GPT."""

import torch
from torch import Tensor, nn

from plmkit.layers.dropout import Dropout


class InputEmbedding(nn.Module):
    """Sum of token, segment and position embeddings, normalised (Devlin et al., 2018, 3)."""

    def __init__(
        self, *, vocabulary: int, longest: int, segments: int, width: int, dropout: float, epsilon: float
    ) -> None:
        super().__init__()
        self.width = width
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = Dropout(dropout)

    def total(self, tokens: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        if self.segments.num_embeddings == 1:  # RoBERTa's: both texts of a pair lie in the only one
            segments = torch.zeros_like(segments)
        # in the order of transformers and google-research/bert: in another, the last bits differ
        return self.tokens(tokens) + self.segments(segments) + self.positions(positions)

    def forward(self, tokens: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.norm(self.total(tokens, segments, positions)))


class TokenPositionEmbedding(nn.Module):
    """Sum of token and position embeddings (Radford et al., 2018, 3.1)."""

    def __init__(self, *, vocabulary: int, longest: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.tokens(tokens) + self.positions(positions))


class TokenEmbedding(nn.Module):
    """Token embeddings alone, for models that get positions otherwise."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens)
