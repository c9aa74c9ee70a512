"""Relative attention: sinusoids of distances, the relative shift of scores, the weights, and a key–value cache."""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.kernels.attention import Band
from plmkit.kernels.linear import Linear, linear
from plmkit.layers.cache import Cache
from plmkit.layers.recording import Kind, record

STEPS_AT_ONCE = 256  # more are not faster, and their scores need memory


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
        self.query_key_value = Linear(width, 3 * width, bias=False)
        self.distance = Linear(width, width, bias=False)
        self.output = Linear(width, width, bias=False)

    def queries(self, hidden: Tensor) -> Tensor:
        """(B, L, width) of all heads."""
        return linear(hidden, self.query_key_value.weight[: hidden.shape[-1]])

    def distances(self, waves: Tensor) -> Tensor:
        """(heads, head width, C) keys of the distances."""
        return self.distance(waves.to(self.distance.weight.dtype)).unflatten(-1, (self.heads, -1)).permute(1, 2, 0)


class KeyValueMemory(Cache):
    """Keys and values of the last tokens in each layer; when the buffers are full, the window moves to the front.

    RAM is allocated once: for all tokens, or for twice the context if the text is longer. For inference only.
    """

    def __init__(
        self,
        attentions: Sequence[RelativeAttention],
        waves: Callable[[int], Tensor],
        *,
        rows: int,
        max_length: int,
        window: int,
    ) -> None:
        like, heads = attentions[0].output.weight, attentions[0].heads
        shape = len(attentions), rows, heads
        self.window = window  # the number of tokens that a token attends to, itself included
        self.room = max(1, min(max_length, 2 * window))
        fitting = self.room if max_length <= self.room else self.room - window + 1
        self.max_steps = min(fitting, STEPS_AT_ONCE)  # maximum number of steps at once
        self.keys = like.new_empty(*shape, len(like) // heads, self.room)
        self.values = like.new_empty(*shape, self.room, len(like) // heads)
        far = waves(self.room + 1)  # (room + 2, all heads' width) for the distances from `room` down to -1
        self.distances = [attention.distances(far).contiguous() for attention in attentions]
        self.band = Band(window, like) if max_length > window and like.device.type == "cpu" else None
        self.held = 0  # steps in the buffers
        self.count = 0  # steps in progress
        self.masked: Tensor | None = None  # (count, K) True where a step may not attend to a key; None: nowhere

    @property
    def banded(self) -> bool:
        """Whether several steps come at once, each with a full context before it."""
        return self.band is not None and self.count > 1 and self.held >= self.window - 1

    def parts(self, tokens: Tensor) -> Iterator[Tensor]:
        """(B, n) next tokens in parts of at most `max_steps`; a part counts as read when the next one is requested."""
        for part in tokens.split(self.max_steps, dim=1):
            self.count = part.shape[1]
            self.make_room()
            if not self.banded:
                keys = self.count + min(self.held, self.window - 1)
                self.masked = causal_mask(self.count, keys, self.window, tokens.device)
            yield part
            self.held += self.count
            self.length += self.count

    def make_room(self) -> None:
        if self.held + self.count > self.room:
            kept = min(self.held, self.window - 1)
            for buffer in (self.keys.transpose(-1, -2), self.values):
                buffer[..., :kept, :] = buffer[..., self.held - kept : self.held, :].clone()
            self.held = kept

    def put(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Store keys and values of a layer's new steps, (B, heads, count, width) each."""
        new = slice(self.held, self.held + self.count)
        self.keys[layer, ..., new] = key.transpose(-1, -2)
        self.values[layer, :, :, new] = value

    def find(self, layer: int, contents: Tensor, places: Tensor, ahead: int = 0) -> Tensor:
        """Attention output of the new steps, given queries of content and distance: (B, heads, count, width) all three.

        Queries are `ahead` positions after their steps, and attend to what their steps may attend to.
        """
        seen = slice(max(0, self.held - self.window + 1), self.held + self.count)
        keys, values = self.keys[layer, ..., seen], self.values[layer, :, :, seen]
        kind: Kind = "query" if ahead else "self"
        record(lambda: self.weights(layer, contents, places, ahead), kind, memory=keys.shape[-1] - self.count)
        if self.banded:
            assert self.band is not None
            distances = self.distances[layer].narrow(-1, self.room + 1 - self.window - ahead, self.window)
            return self.band.mix(contents, places, keys, values, distances)
        count = keys.shape[-1]
        distances = self.distances[layer].narrow(-1, self.room + 1 - count - ahead, count + 1)
        scores = mask_scores(relative_shift(places @ distances, count), self.masked) + contents @ keys
        return scores.softmax(-1) @ values

    def weights(self, layer: int, contents: Tensor, places: Tensor, ahead: int) -> Tensor:
        """(B, heads, count, K) attention weights of the new steps, of the same queries as in `find`."""
        seen = slice(max(0, self.held - self.window + 1), self.held + self.count)
        keys = self.keys[layer, ..., seen]
        count = keys.shape[-1]
        distances = self.distances[layer].narrow(-1, self.room + 1 - count - ahead, count + 1)
        masked = causal_mask(self.count, count, self.window, keys.device)
        return (mask_scores(relative_shift(places @ distances, count), masked) + contents @ keys).softmax(-1)

    def pick(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]
