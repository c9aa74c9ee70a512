"""An architecture with the heads of its objectives: what is trained and saved."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.data.batch import Batch, Memory, States
from plmkit.layers.vocabulary_head import MakeVectors, TableHead


class Head(Protocol):
    """The part of a network that turns states into one loss.

    It may have a method `wants(batch)`, (B, L), True at the states it uses besides the pooled one, and a method
    `weigh(loss, beside=...)` where it learns the weight of its losses.
    """

    def __call__(self, states: States, batch: Batch) -> Tensor: ...
    def scored(self, batch: Batch) -> int: ...


class Network(nn.Module):
    """Its losses by objective, each already multiplied by its weight."""

    def __init__(self, model: nn.Module, heads: Mapping[str, nn.Module], weights: Mapping[str, float]) -> None:
        super().__init__()
        self.model = model
        self.heads = nn.ModuleDict(heads)
        self.weights = dict(weights)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.weighted(self.losses(batch))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Each as it is, without its weight: what is compared between runs."""
        return self.judge(batch)[0]

    def judge(self, batch: Batch) -> tuple[dict[str, Tensor], Memory | None]:
        """Losses without their weights, and what the model remembers for the next rows of the same streams."""
        states = self.states(batch)
        losses = {name: head(states, batch) for name, head in self.named_heads()}
        more = {head.also: head.beside(states, batch) for _, head in self.learning_more()}
        return losses | more, states.memory

    def states(self, batch: Batch) -> States:
        """Those that the heads use: a network may leave out the others."""
        wanted = [wants(batch) if (wants := getattr(head, "wants", None)) else None for head in self.heads.values()]
        places = [some for some in wanted if some is not None]
        joint = torch.stack(places).any(0) if places and len(places) == len(wanted) else None
        return self.model(replace(batch, needed=joint))

    def weighted(self, losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Each as it is minimised."""
        owners = {name: name for name in self.heads} | {head.also: name for name, head in self.learning_more()}
        return {name: self.weigh(owners[name], loss, beside=owners[name] != name) for name, loss in losses.items()}

    def weigh(self, owner: str, loss: Tensor, beside: bool) -> Tensor:
        """A loss of this head times its weight, which the head may learn."""
        learnt = getattr(self.heads[owner], "weigh", None)
        return self.weights[owner] * (loss if learnt is None else learnt(loss, beside=beside))

    def advance(self, progress: float) -> None:
        """Tell heads that change in the course of a run how much of it is done."""
        for head in self.heads.values():
            advance = getattr(head, "advance", None)
            if advance is not None:
                advance(progress)

    def scored(self, batch: Batch) -> dict[str, int]:
        """How many answers each loss is the mean of."""
        more = {head.also: head.scored(batch) for _, head in self.learning_more()}
        return {name: head.scored(batch) for name, head in self.named_heads()} | more

    def named_heads(self) -> Iterator[tuple[str, Head]]:
        return ((name, cast(Head, head)) for name, head in self.heads.items())

    def learning_more(self) -> Iterator[tuple[str, Any]]:
        """Heads that have a second loss in training, `beside` the first and under a name of its own, `also`."""
        return ((name, head) for name, head in self.heads.items() if self.training and getattr(head, "also", None))

    def start(self, frequencies: np.ndarray) -> None:
        """Let heads that can begin from how often each token occurs."""
        for head in self.heads.values():
            start = getattr(head, "start", None)
            if start is not None:
                start(frequencies)

    def start_vectors(self, vectors: MakeVectors) -> None:
        """Let heads whose token table can begin at vectors of its width, made from the corpus, ask for them."""
        for head in self.heads.values():
            start = getattr(head, "start_vectors", None)
            if start is not None:
                start(vectors)

    def weigh_all(self) -> None:
        """Let heads that name tokens weigh the whole vocabulary, whatever the corpus has."""
        for part in self.modules():
            if isinstance(part, TableHead):
                part.weigh_all()

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
