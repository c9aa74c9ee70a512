"""Random initial weights, and attention heads that start at neighbouring tokens."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

FASTEST, SLOWER = 2.0, 0.58  # radians per position: the waves that local heads use
WAVE = 0.03  # amplitude of the waves; token embeddings have an initial standard deviation of 0.02
SHARPNESS = 1.1  # puts about a third of a head's attention on its neighbour
GAIN = 2.5
SLOWEST = 0.3  # radians per position: slower waves do not separate adjacent distances
JOINT = {"query_key_value": 3, "key_value": 2}  # number of matrices in a projection of this name
NEARNESS = 6.4  # puts about two thirds of a head's attention on its neighbour


def init_truncated_normal(module: nn.Module, deviation: float = 0.02) -> None:
    """Matrices and embeddings normal, truncated at two standard deviations; biases zero (google-research/bert)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def init_normal(module: nn.Module, deviation: float = 0.02) -> None:
    """Matrices and embeddings from a normal, zero biases (openai/gpt-2, zihangdai/xlnet)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def init_unit_scaling(module: nn.Module) -> None:
    """Matrices uniform with variance 1 / inputs, embeddings normal with variance 1 / width."""
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
        if isinstance(part, nn.Linear):
            bound = math.sqrt(3 / part.in_features)
            nn.init.uniform_(part.weight, -bound, bound)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def init_average_scaling(module: nn.Module) -> None:
    """Matrices uniform with variance 2 / (inputs + outputs), embeddings normal with variance 1 / width (tensor2tensor).

    A joint projection of queries, keys and values counts as the matrices that it holds.
    """
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
        if isinstance(part, nn.Linear):
            outputs = part.out_features // JOINT.get(name.rpartition(".")[2], 1)
            bound = math.sqrt(6 / (part.in_features + outputs))
            nn.init.uniform_(part.weight, -bound, bound)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


INITIALISERS = {
    "truncated": init_truncated_normal, "normal": init_normal, "unit": init_unit_scaling,
    "average": init_average_scaling,
}  # fmt: skip


def init_local_heads(
    positions: nn.Embedding,
    project: nn.Linear | None,
    blocks: Sequence[nn.Module],
    heads: int,
    waves: int | None = None,
) -> None:
    """Initialise the heads of the first block to attend to the token before, the one after, two before, two after ...

    A small network takes an hour of training to find neighbouring tokens; until then it is a bag of words. Position
    embeddings start as sinusoids, so that a step along the text is a rotation; each head's queries and keys match on
    the fastest waves, rotated by the head's own step. All of it is trained from the first update on, and the network
    is the paper's.

    If embeddings are projected to the width of the blocks, the projection starts as the identity.
    If positions are shared with a network of wider heads, `waves` is the width of those.
    """
    if positions.weight.is_meta:  # a network without data, only to count parameters
        return
    longest, embedding = positions.weight.shape
    width = cast(Any, blocks[0]).attention.output.in_features
    inside = width // heads
    fast = (waves or inside) // 2  # these separate adjacent positions
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
            attention.query_key_value.weight[2 * width :] *= GAIN  # or attention would add too little to the residual
            attention.output.weight *= GAIN
        joint = cast(Any, blocks[0]).attention.query_key_value.weight
        for head in range(heads):
            step = (head // 2 + 1) * (-1 if head % 2 == 0 else 1)
            rows = slice(head * inside, (head + 1) * inside)
            joint[rows, :inside] += SHARPNESS * torch.eye(inside)
            joint[width : 2 * width][rows, :inside] += SHARPNESS * rotation(speeds[: inside // 2] * step)


def rotation(angles: Tensor) -> Tensor:
    """Rotates each pair (sine, cosine) back by its angle."""
    cosine, sine = angles.cos(), angles.sin()
    pairs = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)  # (n, 2, 2)
    return torch.block_diag(*pairs)


def init_relative_local_heads(blocks: Sequence[nn.Module], heads: int) -> None:
    """As `init_local_heads`, for relative attention.

    The distance bias of each head matches the fastest waves of the head's own step.
    """
    with torch.no_grad():
        for block in blocks:
            attention: Any = block.attention
            width = attention.output.in_features
            attention.query_key_value.weight[2 * width :] *= GAIN
            attention.output.weight *= GAIN
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
