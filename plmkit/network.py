"""An architecture with the heads of its objectives: what is trained and saved."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Model
from plmkit.data.batch import Batch, Memory, States, TeacherStates
from plmkit.layers.recording import projecting
from plmkit.objectives.contract import Head


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The losses of a batch; one whose head has nothing to predict in it is left out."""

    losses: dict[str, Tensor]  # without loss weights, to compare runs
    weighted: dict[str, Tensor]  # with loss weights, as minimised
    scored: dict[str, int]  # number of predictions that each loss averages
    memory: Memory | None  # recurrent memory for the next batch of the same rows


class Teacher(Protocol):
    """A trained network that heads of distillation compare theirs with."""

    def observe(self, batch: Batch, wanted: frozenset[str]) -> TeacherStates:
        """What it makes of a batch: of "predicted" or "all" its LM states there, "hidden", "layers", "attention"."""


class Network(nn.Module):
    """A model and its heads; loss weights named in `learned` are trained, starting from those given."""

    def __init__(
        self,
        model: Model,
        heads: Mapping[str, nn.Module],
        weights: Mapping[str, float],
        learned: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.model: Model = model
        self.heads = nn.ModuleDict(heads)
        self.weights = {name: 1.0 if name in learned else weight for name, weight in weights.items()}
        # a loss is multiplied by exp(-log_variance), which would sink to 0 if log_variance were not added
        self.teacher: Teacher | None = None  # in distillation; its parameters are no part of this network
        initial = {name: torch.tensor(-math.log(weights[name])) for name in learned}
        self.log_variances = nn.ParameterDict({name: nn.Parameter(value) for name, value in initial.items()})
        for head in self.all_heads().values():
            head.connect(self.all_heads())

    def forward(self, batch: Batch) -> Outcome:
        heads = self.heads_for(batch)
        scored = {name: count for name, count in self.scored(batch).items() if count}
        batch = self.taught(batch, [heads[name] for name in heads if name in scored])
        states = self.states(batch)
        for name in scored:
            states = heads[name].shared(states, batch) if name in heads else states
        losses = {name: head(states, batch) for name, head in heads.items() if name in scored}
        weighted = {name: self.weighted(name, loss) for name, loss in losses.items()}
        for owner, name in self.auxiliaries(list(losses)):
            losses[name] = heads[owner].auxiliary_loss(states, batch)
            weighted[name] = self.factor(owner) * losses[name]
        return Outcome(losses=losses, weighted=weighted, scored=scored, memory=states.memory)

    def taught(self, batch: Batch, heads: Sequence[Head]) -> Batch:
        """The batch with what these heads read of the teacher."""
        wanted = frozenset().union(*(head.reads_teacher for head in heads))
        return replace(batch, teacher=self.teacher.observe(batch, wanted)) if self.teacher and wanted else batch

    def states(self, batch: Batch) -> States:
        """Run the model, computing only the positions that some head needs."""
        heads = [head for head in self.heads_for(batch).values() if head.scored(batch) or not head.reads_teacher]
        needed = [head.needed(batch) for head in heads]
        places = [some for some in needed if some is not None]
        joint = torch.stack(places).any(0) if places and len(places) == len(needed) else None
        all_layers = any(head.uses_layers and (self.training or head.reads_teacher) for head in heads)
        batch = replace(batch, needed=joint, all_layers=batch.all_layers or all_layers)
        if not any(head.uses_attention for head in heads):
            return cast(States, self.model(batch))
        with projecting() as attention:
            states: States = self.model(batch)
        return replace(states, attention=tuple(attention))

    def scored(self, batch: Batch) -> dict[str, int]:
        """Number of predictions that each loss averages."""
        found = {name: head.scored(batch) for name, head in self.heads_for(batch).items()}
        return found | {name: found[owner] for owner, name in self.auxiliaries(found)}

    def heads_for(self, batch: Batch) -> dict[str, Head]:
        """The heads that are trained on this batch."""
        return {name: head for name, head in self.all_heads().items() if batch.heads is None or name in batch.heads}

    def all_heads(self) -> dict[str, Head]:
        return cast(dict[str, Head], dict(self.heads.items()))

    @property
    def head_that_generates(self) -> Head | None:
        """A head that predicts the next token."""
        return next((head for head in self.all_heads().values() if head.generates), None)

    @property
    def head_that_translates(self) -> Head | None:
        """A head that predicts the next token of a target, given its source."""
        return next((head for head in self.all_heads().values() if head.translates), None)

    def auxiliaries(self, owners: Collection[str]) -> Iterator[tuple[str, str]]:
        """Heads with a second loss, computed in training only, and the name of that loss."""
        heads = self.all_heads()
        return ((name, heads[name].auxiliary or "") for name in owners if self.training and heads[name].auxiliary)

    def weighted(self, name: str, loss: Tensor) -> Tensor:
        """The weighted loss of a head (Kendall et al., 2018, if its weight is learned)."""
        learned = name in self.log_variances
        return self.factor(name) * loss + self.log_variances[name] if learned else self.factor(name) * loss

    def factor(self, name: str) -> Tensor | float:
        """The loss weight of a head; a learned one converges to one over the loss."""
        return torch.exp(-self.log_variances[name]) if name in self.log_variances else self.weights[name]

    def advance(self, progress: float) -> None:
        """Pass on the progress of the run, from 0 to 1, to heads that change with it."""
        for head in self.all_heads().values():
            head.advance(progress)

    def restrict_vocabulary(self, frequencies: Callable[[], np.ndarray]) -> None:
        """Restrict the softmax to tokens of the corpus in heads that ask for it; counts only if one does."""
        for head in self.all_heads().values():
            if head.corpus_vocabulary:
                head.output.restrict(frequencies())

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
