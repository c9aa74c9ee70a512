"""The key–value cache of relative attention, for the last tokens of a text of any length."""

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from plmkit.kernels.band import Band
from plmkit.layers.cache import Cache
from plmkit.layers.relative import RelativeAttention, causal_mask, mask_scores, relative_shift

STEPS_AT_ONCE = 256  # more are not faster, and their scores need memory


class KeyValueMemory(Cache):
    """Keys and values of the last tokens in each layer; when the buffers are full, those in reach move to the front.

    RAM is allocated once: for all tokens, or for twice the context if the text is longer. For inference only.
    """

    def __init__(
        self,
        attentions: Sequence[RelativeAttention],
        waves: Callable[[int], Tensor],
        *,
        rows: int,
        longest: int,
        reach: int,
    ) -> None:
        like, heads = attentions[0].output.weight, attentions[0].heads
        shape = len(attentions), rows, heads
        self.reach = reach  # the number of tokens that a token attends to, itself included
        self.room = max(1, min(longest, 2 * reach))
        fitting = self.room if longest <= self.room else self.room - reach + 1
        self.max_steps = min(fitting, STEPS_AT_ONCE)  # maximum number of steps at once
        self.keys = like.new_empty(*shape, len(like) // heads, self.room)
        self.values = like.new_empty(*shape, self.room, len(like) // heads)
        far = waves(self.room + 1)  # (room + 2, all heads' width) for the distances from `room` down to -1
        self.distances = [attention.distances(far).contiguous() for attention in attentions]
        self.band = Band(reach, like) if longest > reach and like.device.type == "cpu" else None
        self.held = 0  # steps in the buffers
        self.count = 0  # steps in progress
        self.masked: Tensor | None = None  # (count, K) True where a step may not attend to a key; None: nowhere

    @property
    def banded(self) -> bool:
        """Whether several steps come at once, each with a full context before it."""
        return self.band is not None and self.count > 1 and self.held >= self.reach - 1

    def parts(self, tokens: Tensor) -> Iterator[Tensor]:
        """(B, n) next tokens in parts of at most `max_steps`; a part counts as read when the next one is requested."""
        for part in tokens.split(self.max_steps, dim=1):
            self.count = part.shape[1]
            self.make_room()
            if not self.banded:
                keys = self.count + min(self.held, self.reach - 1)
                self.masked = causal_mask(self.count, keys, self.reach, tokens.device)
            yield part
            self.held += self.count
            self.length += self.count

    def make_room(self) -> None:
        if self.held + self.count > self.room:
            kept = min(self.held, self.reach - 1)
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
        seen = slice(max(0, self.held - self.reach + 1), self.held + self.count)
        keys, values = self.keys[layer, ..., seen], self.values[layer, :, :, seen]
        if self.banded:
            assert self.band is not None
            distances = self.distances[layer].narrow(-1, self.room + 1 - self.reach - ahead, self.reach)
            return self.band.mix(contents, places, keys, values, distances)
        count = keys.shape[-1]
        distances = self.distances[layer].narrow(-1, self.room + 1 - count - ahead, count + 1)
        scores = mask_scores(relative_shift(places @ distances, count), self.masked) + contents @ keys
        return scores.softmax(-1) @ values

    def pick(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]
