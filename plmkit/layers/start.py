"""Weights at the start of training."""

from torch import nn


def start_weights(module: nn.Module, deviation: float = 0.02) -> None:
    """Matrices and tables from a normal cut at two deviations, biases zero (google-research/bert)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
