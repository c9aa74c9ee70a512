"""Dropout, with masks that a CPU makes in a third of the time."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._compile import _disable_dynamo  # torch.compiler.disable, which loads the compiler at once

STEPS = 1 << 16  # a probability is drawn as one of so many: 0.1 comes out as 0.100006


class Dropout(nn.Module):
    """Each number becomes zero with probability `share`; the others grow so that the mean stays."""

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


@_disable_dynamo  # the generator is not torch's
def mask_like(numbers: Tensor, share: float) -> Tensor:
    """What to multiply numbers on a CPU by: zero, or what the others grow by.

    torch's generator makes 64 bits a number, slowly. Sixteen are enough, so one draw serves four, and the draws are of
    a faster generator, which torch's own seeds.
    """
    seed = int(torch.randint(2**63 - 1, ()))
    draws = torch.from_numpy(np.random.SFC64(seed).random_raw(-(-numbers.numel() // 4)).view(np.int16))
    kept = torch.empty(numbers.shape, dtype=numbers.dtype)
    torch.ge(draws[: numbers.numel()].view(numbers.shape), round(share * STEPS) - STEPS // 2, out=kept)
    return kept.mul_(1 / (1 - share))
