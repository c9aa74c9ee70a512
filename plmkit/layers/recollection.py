"""What relative attention keeps of the text so far, as it reads on and on."""

from collections.abc import Sequence

from torch import Tensor

from plmkit.layers.band import Band

STEPS_AT_ONCE = 256  # more are no faster, and their scores need room


class Recollection:
    """Keys and values of the last steps of each layer; when its buffers are full, the steps in reach move to the front.

    Memory is taken once: for all steps, or for twice the reach where the text is longer than that.
    """

    def __init__(self, *, layers: int, shape: tuple[int, int, int], longest: int, reach: int, like: Tensor) -> None:
        rows, heads, width = shape
        self.reach = reach
        self.room = max(1, min(longest, 2 * reach))
        fitting = self.room if longest <= self.room else self.room - reach + 1
        self.most = min(fitting, STEPS_AT_ONCE)  # steps that are taken at once
        self.keys = like.new_empty(layers, rows, heads, width, self.room)
        self.values = like.new_empty(layers, rows, heads, self.room, width)
        self.band = Band(reach, like) if longest > reach else None
        self.held = 0  # steps in the buffers
        self.length = 0  # steps read so far
        self.distances: Sequence[Tensor] = ()  # (heads, width, room + 1) of each layer, from the farthest down to -1

    def make_room(self, count: int) -> None:
        """For so many more steps, no more than `most`."""
        if self.held + count > self.room:
            kept = min(self.held, self.reach - 1)
            for buffer in (self.keys.transpose(-1, -2), self.values):
                buffer[..., :kept, :] = buffer[..., self.held - kept : self.held, :].clone()
            self.held = kept

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take the next steps of a layer; gives all in reach: keys (B, heads, width, K), values, distances to them."""
        end = self.held + key.shape[2]
        first = max(0, self.held - self.reach + 1)
        self.keys[layer, ..., self.held : end] = key.transpose(-1, -2)
        self.values[layer, :, :, self.held : end] = value
        seen = self.keys[layer, ..., first:end], self.values[layer, :, :, first:end]
        return *seen, self.distances[layer][..., self.room - (end - first) :]

    def advance(self, count: int) -> None:
        """After all layers have taken so many steps."""
        self.held += count
        self.length += count

    def pick(self, rows: Tensor) -> None:
        """These rows, in this order; one may be taken several times."""
        self.keys, self.values = self.keys[:, rows], self.values[:, rows]
