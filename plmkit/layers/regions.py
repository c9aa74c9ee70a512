"""Images → a vector for each region of a grid: by strided convolutions, or by one linear layer per patch."""

from itertools import pairwise

import torch
from torch import Tensor, nn

FIRST_CHANNELS = 32  # of the first convolution; each further one has twice as many, up to `features`
GROUPS = 8  # of channels that are normalised together


class Regions(nn.Module):
    """(B, 3, H, W) uint8 → (B, regions, features): strided convolutions, then one vector per place of the grid."""

    def __init__(self, *, grid: int, convolutions: int, features: int) -> None:
        super().__init__()
        channels = [3, *(min(FIRST_CHANNELS << number, features) for number in range(convolutions))]
        channels[-1] = features
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(channels)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, after) for after in channels[1:])
        self.positions = nn.Parameter(torch.empty(grid**2, features))
        self.output = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.positions, std=0.1)

    def forward(self, images: Tensor) -> Tensor:
        hidden = centred(images, self.positions)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            hidden = norm(convolution(hidden)).relu()
        return self.norm(self.output(hidden.flatten(2).mT + self.positions))


class Patches(nn.Module):
    """The same from one linear layer over the pixels of each patch (Dosovitskiy et al., 2020, 3.1)."""

    def __init__(self, *, grid: int, patch_size: int, features: int) -> None:
        super().__init__()
        self.output = nn.Conv2d(3, features, patch_size, stride=patch_size)
        self.positions = nn.Parameter(torch.empty(grid**2, features))
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.positions, std=0.1)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.output(centred(images, self.positions)).flatten(2).mT + self.positions)


def centred(images: Tensor, like: Tensor) -> Tensor:
    """Numbers from -1 to 1."""
    return images.to(like.dtype) / 127.5 - 1


def grid_boxes(grid: int) -> Tensor:
    """(grid², 4) left, top, right and bottom of each place, as shares of the image, row by row."""
    edges = torch.arange(grid + 1) / grid
    top, left = torch.meshgrid(edges[:-1], edges[:-1], indexing="ij")
    bottom, right = torch.meshgrid(edges[1:], edges[1:], indexing="ij")
    return torch.stack([left, top, right, bottom], -1).flatten(0, 1)
