"""Weights at the start of training."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

FASTEST, SLOWER = 2.0, 0.58  # radians a position: the waves that the first heads read
WAVE = 0.03  # height of the waves; token vectors begin with a deviation of 0.02
SHARPNESS = 1.1  # puts about a third of a head's attention on its neighbour
LOUDER = 2.5
SLOWEST = 0.3  # radians a step: slower waves of distances do not tell a neighbour from the next
NEARNESS = 6.4  # puts about two thirds of a head's attention on its neighbour


def start_weights(module: nn.Module, deviation: float = 0.02) -> None:
    """Matrices and tables from a normal cut at two deviations, biases zero (google-research/bert)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def start_normal(module: nn.Module, deviation: float = 0.02) -> None:
    """Matrices and tables from a normal, biases zero (openai/gpt-2, zihangdai/xlnet)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


STARTS = {"truncated": start_weights, "normal": start_normal}


def start_at_neighbours(
    positions: nn.Embedding,
    project: nn.Linear | None,
    blocks: Sequence[nn.Module],
    heads: int,
    waves: int | None = None,
) -> None:
    """Let the heads of the first block begin by reading the token before, the one after, two before, two after ...

    A small network finds its neighbours only after an hour of training: until then it knows which words are
    in the text, not where. Positions begin as sine waves, so that a step along the text is a rotation; each
    head's query asks, and its keys answer, on the fastest waves, turned by the head's own step. All of it is
    free to change from the first update on, and the network is the paper's.

    Where narrow vectors are projected to the width of the blocks, the projection begins by passing them on.
    Where positions are shared with a network of wider heads, `waves` is the width of those.
    """
    if positions.weight.is_meta:  # counted, not made
        return
    longest, embedding = positions.weight.shape
    width = cast(Any, blocks[0]).attention.output.in_features
    inside = width // heads
    fast = (waves or inside) // 2  # these tell one place from the next
    near = torch.logspace(math.log10(FASTEST), math.log10(SLOWER), fast)
    far = torch.logspace(math.log10(SLOWER), math.log10(2 * math.pi / longest), embedding // 2 - fast)
    speeds = torch.cat([near, far])
    angles = torch.arange(longest)[:, None] * speeds
    with torch.no_grad():
        positions.weight.copy_(WAVE * torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        if project is not None:
            project.weight += torch.eye(width, embedding)
        for block in blocks:
            attention: Any = block.attention
            attention.query_key_value.weight[2 * width :] *= LOUDER  # or else what is read is hardly heard
            attention.output.weight *= LOUDER
        joint = cast(Any, blocks[0]).attention.query_key_value.weight
        for head in range(heads):
            step = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
            rows = slice(head * inside, (head + 1) * inside)
            joint[rows, :inside] += SHARPNESS * torch.eye(inside)
            joint[width : 2 * width][rows, :inside] += SHARPNESS * rotation(speeds[: inside // 2] * step)


def rotation(angles: Tensor) -> Tensor:
    """Turns each pair (sine, cosine) back by its angle."""
    cosine, sine = angles.cos(), angles.sin()
    pairs = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)  # (n, 2, 2)
    return torch.block_diag(*pairs)


def start_at_distances(blocks: Sequence[nn.Module], heads: int) -> None:
    """Let the heads of the first block begin by reading the token before, the one after, two before, two after ...

    As `start_at_neighbours`, for attention by distance: what any query asks of distances meets the fastest waves of
    the step that a head is for.
    """
    with torch.no_grad():
        for block in blocks:
            attention: Any = block.attention
            width = attention.output.in_features
            attention.query_key_value.weight[2 * width :] *= LOUDER
            attention.output.weight *= LOUDER
        first: Any = cast(Any, blocks[0]).attention
        width = first.output.in_features
        inside = width // heads
        waves = min(inside // 2, 1 + int(-math.log(SLOWEST) / math.log(10_000) * width / 2))
        sines = torch.arange(waves)
        speeds = 10_000 ** (-2 * sines / width)
        strength = math.sqrt(NEARNESS / waves * math.sqrt(inside))
        for head in range(heads):
            step = (head // 2 + 1) * (1 if head % 2 == 0 else -1)
            rows = head * inside + sines
            first.distance.weight[rows, sines] += strength
            first.distance.weight[rows + waves, width // 2 + sines] += strength
            first.distance_bias[head, :waves] += strength * (speeds * step).sin()
            first.distance_bias[head, waves : 2 * waves] += strength * (speeds * step).cos()
