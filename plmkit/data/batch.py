"""What travels from the data to the loss."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from plmkit.errors import CheckpointError

IGNORE = -100  # the target where nothing is asked; torch's cross entropy knows it by this number


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What goes from the data to the loss: B rows of L positions."""

    tokens: Tensor  # (B, L) what the model reads
    segments: Tensor  # (B, L) 0 in the first text, 1 in the second
    visible: Tensor  # (B, L) False on padding
    targets: Tensor | None = None  # (B, L) what it must say, IGNORE where nothing is asked
    edges: Tensor | None = None  # (B, L, 2) places just before and just after the span of a hidden token, or -1
    follows: Tensor | None = None  # (B,) 0 where the row stands as in the text, 1 where its texts do not, or IGNORE
    labels: Tensor | None = None  # (B,) class number or value, for fine-tuning
    options: Tensor | None = None  # (B, K) True at the readings a row has; then tokens and their like are (B, K, L)
    reading: Tensor | None = None  # (B, L, 2) a position is read by those whose second number is above its first
    backward: Tensor | None = None  # (B,) True where a row runs from its end to its beginning
    memory: Tensor | None = None  # (B, K, M, width) what K layers kept of the text before each row, M steps of it
    wanted: Tensor | None = None  # (B, L) True where the last state is used, or the first of its row; None: anywhere
    continues: Tensor | None = None  # (B,) True where a row goes on from the same row of the batch before

    @property
    def asked(self) -> Tensor:
        """(B, L) True where there is a target."""
        assert self.targets is not None
        return self.targets != IGNORE

    def to(self, device: torch.device) -> Self:
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    def rows(self, chosen: slice) -> Self:
        return self.each(lambda tensor: tensor[chosen])

    def readings(self) -> Self:
        """Every reading as a row of its own, (B * K, L), where rows are read several times."""
        if self.options is None:
            return self
        parts = {name: getattr(self, name) for name in ("tokens", "segments", "visible", "targets")}
        flat: dict[str, Any] = {name: part if part is None else part.flatten(0, 1) for name, part in parts.items()}
        return replace(self, **flat, options=None)

    def recalling(self, memory: Tensor | None) -> Self:
        """The batch with what was kept of the batch before, where its rows go on from there."""
        if memory is None or self.continues is None or not bool(self.continues.all()):
            return self
        if len(memory) != len(self.tokens):
            raise CheckpointError(
                f"The memory is of {len(memory)} streams of text, but the batch has {len(self.tokens)} rows.\n"
                "Go on with the schedule.batch that it was saved with, or start a new run."
            )
        return replace(self, memory=memory)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The batch with every tensor it has changed alike."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{name: change(value) for name, value in values.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class States:
    """What an architecture makes of a batch."""

    hidden: Tensor  # (B, L, width) last layer; of two streams the one that answers; may be zeros where not wanted
    pooled: Tensor | None = None  # (B, width) one vector for the row
    guesses: Tensor | None = None  # (N, tokens weighed) a generator's scores at the N hidden tokens, row by row
    sampled: Tensor | None = None  # (N,) the tokens it put in their place
    replaced: Tensor | None = None  # (B, L) True where what was read is not what was hidden
    inner: tuple[Tensor, ...] | None = None  # (B, L, width) each: what the layers before the last made, in training
    memory: Tensor | None = None  # (B, K, M, width) what the next rows of the same streams may read, without gradient
