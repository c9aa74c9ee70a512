"""Dropout."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.kernels.dropout_mask import mask_like


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
