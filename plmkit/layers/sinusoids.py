"""Fixed sinusoids of positions, in the layouts of the paper and of released code."""

from collections.abc import Callable

import torch
from torch import Tensor


def angles(positions: Tensor, waves: int, slowest: int) -> Tensor:
    """(P, waves) position / 10000^(wave / slowest)."""
    powers = torch.arange(waves, dtype=torch.float64, device=positions.device) / max(1, slowest)
    return positions.to(torch.float64)[:, None] / 10_000**powers


def interleaved(positions: Tensor, width: int) -> Tensor:
    """(P, width) sine, cosine, sine, cosine, ... (Vaswani et al., 2017, 3.5)."""
    turned = angles(positions, width // 2, width // 2)
    return torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(1).to(torch.float32)


def halves(positions: Tensor, width: int) -> Tensor:
    """The same waves, all sines before all cosines (Marian)."""
    turned = angles(positions, width // 2, width // 2)
    return torch.cat([turned.sin(), turned.cos()], dim=-1).to(torch.float32)


def tensor2tensor(positions: Tensor, width: int) -> Tensor:
    """All sines before all cosines; the slowest wave is 10,000 times slower than the fastest (tensor2tensor)."""
    turned = angles(positions, width // 2, width // 2 - 1)
    return torch.cat([turned.sin(), turned.cos()], dim=-1).to(torch.float32)


SINUSOIDS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "interleaved": interleaved,
    "halves": halves,
    "tensor2tensor": tensor2tensor,
}
