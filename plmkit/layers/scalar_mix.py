"""A learned weighted mean of layers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

TINY = 1e-13  # added to the variance (allenai/allennlp)


class ScalarMix(nn.Module):
    """γ times the mean of all layers, weighted by a softmax over one number per layer (Peters et al., 2018, 3.2)."""

    def __init__(self, layers: int, normalise: bool = False) -> None:
        super().__init__()
        self.normalise = normalise
        self.weights = nn.Parameter(torch.zeros(layers))  # before the softmax: at first, all layers count the same
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor], visible: Tensor) -> Tensor:
        """(B, L, width) each → (B, L, width)."""
        shares = self.weights.softmax(0)
        parts = [normalised(layer, visible) for layer in layers] if self.normalise else layers
        return self.scale * sum(share * part for share, part in zip(shares, parts, strict=True))


def normalised(layer: Tensor, visible: Tensor) -> Tensor:
    """With one mean and one variance over all visible positions of the batch (allenai/allennlp)."""
    seen = layer[visible]
    return (layer - seen.mean()) / (seen.var(correction=0) + TINY).sqrt()
