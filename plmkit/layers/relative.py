"""Relative positions: sinusoids of distances, the relative shift of scores, and the attention weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinusoids(distances: Tensor, width: int) -> Tensor:
    """(C, width) fixed sinusoids of each distance, sines first, then cosines (Dai et al., 2019, released code)."""
    powers = torch.arange(0, width, 2, device=distances.device, dtype=torch.float32) / width
    angles = distances.to(torch.float32)[:, None] / 10_000**powers  # (C, width / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def distances_before(keys: int, device: torch.device | None = None) -> Tensor:
    """(keys,) distances from the last query's farthest key down to itself, for a causal model."""
    return torch.arange(keys - 1, -1, -1, device=device)


def distances_around(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """(keys + queries - 1,) all distances, from the last query to the first key down to the reverse."""
    return torch.arange(keys - 1, -queries, -1, device=device)


def relative_shift(scores: Tensor, keys: int) -> Tensor:
    """(..., Q, C) scores by distance, from keys - 1 down, to (..., Q, keys) scores by key (Dai et al., 2019, B).

    Query i stands at key i + keys - Q, so key j is at the distance i + keys - Q - j. If the negative distances
    are missing (C = keys), scores at keys after the query are meaningless and must be masked. Otherwise
    (C = keys + Q - 1) the result is a view, without a copy.
    """
    queries, columns = scores.shape[-2:]
    if queries == 1:
        return scores[..., :keys]
    if columns == keys:
        scores, columns = F.pad(scores, (0, 1)), columns + 1
    flat = scores.flatten(-2)[..., queries - 1 : queries * columns - 1]  # each row is shifted by one more column
    return flat.unflatten(-1, (queries, columns - 1))[..., :keys]


def causal_mask(queries: int, keys: int, window: int, device: torch.device) -> Tensor | None:
    """(queries, keys) True where a key is after its query, or at least `window` tokens before it; None: nowhere."""
    if queries == 1 and window >= keys:
        return None
    places = torch.arange(keys - queries, keys, device=device)[:, None]
    distance = places - torch.arange(keys, device=device)
    return (distance < 0) | (distance >= window)


def mask_scores(scores: Tensor, masked: Tensor | None) -> Tensor:
    """(..., Q, K) scores, minus infinity where a query may not attend by `causal_mask`."""
    if masked is None:
        return scores
    if torch.is_grad_enabled():
        return scores.masked_fill(masked, -torch.inf)
    queries, keys = masked.shape
    for part in (slice(0, queries), slice(keys - queries, keys)):  # only keys that are too early or too late are masked
        scores[..., part].masked_fill_(masked[:, part], -torch.inf)
    return scores


class RelativeAttention(nn.Module):
    """The weights of relative attention, by content and by distance (Dai et al., 2019, 3.3)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def queries(self, hidden: Tensor) -> Tensor:
        """(B, L, width) of all heads."""
        return F.linear(hidden, self.query_key_value.weight[: hidden.shape[-1]])

    def distances(self, waves: Tensor) -> Tensor:
        """(heads, head width, C) keys of the distances."""
        return self.distance(waves.to(self.distance.weight.dtype)).unflatten(-1, (self.heads, -1)).permute(1, 2, 0)
