"""Dropout, with masks that a CPU draws in half the time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 1 << 16  # a probability is drawn as one of so many: 0.1 comes out as 0.100006


class Dropout(nn.Module):
    """Each number becomes zero with probability `share`; the others grow so that the mean stays."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, numbers: Tensor) -> Tensor:
        return drop(numbers, self.share) if self.training else numbers


def drop(numbers: Tensor, share: float) -> Tensor:
    """torch's CPU generator makes 64 bits a number; sixteen are enough, so one draw serves four."""
    if share == 0 or numbers.device.type != "cpu":
        return F.dropout(numbers, share)
    draws = torch.randint(-(2**63), 2**63 - 1, (-(-numbers.numel() // 4),)).view(torch.int16)
    kept = draws[: numbers.numel()].view(numbers.shape) >= round(share * STEPS) - STEPS // 2
    return numbers * kept.to(numbers.dtype).mul_(1 / (1 - share))
