"""The input embeddings of BERT's family and of GPT."""

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
        if self.segments.num_embeddings == 1:  # RoBERTa: both texts of a pair are in the only segment
            segments = torch.zeros_like(segments)
        # in the order of transformers and google-research/bert: any other changes the last bits
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
    """Token embeddings only, for models that add positions elsewhere."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens)
