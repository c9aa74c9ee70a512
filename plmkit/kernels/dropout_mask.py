"""Fast dropout masks on a CPU."""

import numpy as np
import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable would import the compiler

VALUES = 256  # of an 8-bit random number
SEEDS = 2**63 - 1


def plain_mask(numbers: Tensor, share: float) -> Tensor:
    """Reference: zero with probability `share`, else 1 / (1 - share)."""
    return torch.bernoulli(torch.full_like(numbers, 1 - share)) / (1 - share)


@_disable_dynamo  # the random generator is not torch's
def mask_like(numbers: Tensor, share: float, seed: int | None = None) -> Tensor:
    """Factors for numbers on a CPU: 0, or 1 / (1 - share).

    torch draws 64 bits per number, slowly. Eight bits are enough, so one draw serves eight numbers, and the draws come
    from a faster generator, seeded by torch's. A number is dropped if its draw is below a limit: 25 or 26 for a share
    of 0.1, chosen per row so that the mean is 25.6. With a `seed` the mask can be drawn again.
    """
    seed = int(torch.randint(SEEDS, ())) if seed is None else seed
    if share * VALUES > VALUES - 1:  # a limit of 256 does not fit into eight bits
        draws = torch.rand(numbers.shape, generator=torch.Generator().manual_seed(seed))
        return (draws >= share).to(numbers.dtype).mul_(1 / (1 - share))
    bits = np.random.SFC64(seed)
    draws = torch.from_numpy(bits.random_raw(-(-numbers.numel() // 8)).view(np.uint8))
    draws = draws[: numbers.numel()].view(numbers.shape)
    lower, rest = divmod(share * VALUES, 1)
    higher = np.random.Generator(bits).random(numbers.shape[:-1].numel()) < rest
    limits = torch.from_numpy((lower + higher).astype(np.uint8))
    torch.ge(draws, limits.view(*numbers.shape[:-1], 1), out=draws)
    return draws.to(numbers.dtype).mul_(1 / (1 - share))
