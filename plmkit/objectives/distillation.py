"""Learning from a teacher's predictions: its distribution over the vocabulary at every predicted position."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.data.batch import Batch, States, TeacherStates
from plmkit.errors import SettingError
from plmkit.kernels.autograd import take_once
from plmkit.kernels.linear import linear
from plmkit.kernels.soft_targets import chunked_soft_loss, soft_divergence
from plmkit.language import comma, tr
from plmkit.objectives.contract import BuiltModel, Head, Objective

PREDICTED, EVERY = "predicted", "all"
POSITIONS = (PREDICTED, EVERY)
Softmax = tuple[Tensor, Tensor | None]  # an output embedding and its bias
SHARED_NUMBERS = 1 << 26  # logits that are kept for two losses; beyond it each computes its own, in chunks


@dataclass(frozen=True, kw_only=True)
class SoftTargets(Objective):
    """T² KL of the LM head's distribution from the teacher's, both softened by T (Hinton et al., 2015; Sanh et al.)."""

    temperature: float = 2.0  # T, by which the logits of both are divided
    positions: str = PREDICTED  # where they are compared: predicted (those with a target), or all (without padding)
    name: ClassVar = "soft_targets"
    label: ClassVar = "soft"
    reads: ClassVar = frozenset({"hidden", "targets"})
    needs_teacher: ClassVar = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature, f"objectives.{self.name}.temperature")
        if self.positions not in POSITIONS:
            raise SettingError(
                tr(
                    "objectives.soft_targets.positions takes {known}; found '{positions}'.",
                    known=comma().join(POSITIONS),
                    positions=self.positions,
                )
            )

    def build(self, model: BuiltModel) -> "SoftTargetsHead":
        return SoftTargetsHead(self)


def check_temperature(temperature: float, name: str) -> None:
    if not 0 < temperature < float("inf"):
        raise SettingError(tr("{name} must be a finite number above 0; found {value:g}.", name=name, value=temperature))


class SoftTargetsHead(Head):
    """Has no weights: it compares what the LM head beside it predicts."""

    def __init__(self, settings: SoftTargets) -> None:
        super().__init__()
        self.settings = settings
        self.reads_teacher = frozenset({settings.positions})
        self._predicting: tuple[Any, ...] = ()  # in a tuple, so that torch does not register it here

    def connect(self, heads: Mapping[str, Head]) -> None:
        self._predicting = tuple(head for head in heads.values() if head.output is not None)[:1]

    @property
    def vocabulary(self) -> Any:
        [head] = self._predicting
        return head.output

    def scored(self, batch: Batch) -> int:
        return int(self.places(batch).sum())

    def needed(self, batch: Batch) -> Tensor | None:
        return batch.predicted if self.settings.positions == PREDICTED else None

    def places(self, batch: Batch) -> Tensor:
        """(B, L) True where the two are compared."""
        places = batch.predicted if self.settings.positions == PREDICTED else batch.source.visible
        known = None if batch.teacher is None else batch.teacher.comparable
        return places if known is None else places & known

    def shared(self, states: States, batch: Batch) -> States:
        """The logits at the predicted positions, which the LM head needs too."""
        table, bias = self.vocabulary.softmax_weights()
        is_aligned = batch.teacher is not None and batch.teacher.common is not None  # compares fewer tokens
        if is_aligned or self.settings.positions != PREDICTED or self.scored(batch) * len(table) > SHARED_NUMBERS:
            return states
        chosen = self.chosen(states.hidden, batch)
        return States(**vars(states) | {"logits": linear(self.vocabulary.transformed(chosen), table, bias)})

    def chosen(self, hidden: Tensor, batch: Batch) -> Tensor:
        """(N, width)."""
        places = self.places(batch).flatten()
        flat = hidden.flatten(0, 1)
        return flat if bool(places.all()) else take_once(flat, places.nonzero().squeeze(1))

    def forward(self, states: States, batch: Batch) -> Tensor:
        teacher = batch.teacher
        assert teacher is not None and teacher.output is not None
        ours, theirs = self.softmaxes(teacher)
        if states.logits is not None:
            logits = states.logits[:, : len(ours[0])]
            return soft_divergence(logits, linear(teacher.output, *theirs), self.settings.temperature).mean()
        hidden = self.vocabulary.transformed(self.chosen(states.hidden, batch))
        return chunked_soft_loss((hidden, *ours), (teacher.output, *theirs), self.settings.temperature)

    def softmaxes(self, teacher: TeacherStates) -> tuple[Softmax, Softmax]:
        """The output embeddings and biases of student and teacher, of the tokens that both score."""
        assert teacher.table is not None
        ours, theirs = self.vocabulary.softmax_weights(), (teacher.table, teacher.bias)
        if teacher.common is not None:
            index = self.vocabulary.softmax_index(teacher.common)
            scored = (index >= 0).nonzero().squeeze(1)  # all, unless the student's softmax is restricted
            return rows_of(ours, index[scored]), rows_of(theirs, scored)
        if self.vocabulary.is_restricted:
            return ours, rows_of(theirs, self.vocabulary.occurring)
        count = min(len(ours[0]), len(theirs[0]))  # either may have further rows, which belong to no token
        return first_of(ours, count), first_of(theirs, count)


def first_of(softmax: Softmax, count: int) -> Softmax:
    table, bias = softmax
    return table[:count], None if bias is None else bias[:count]


def rows_of(softmax: Softmax, tokens: Tensor) -> Softmax:
    table, bias = softmax
    return take_once(table, tokens), None if bias is None else take_once(bias, tokens)


def soft_answers(ours: Tensor, theirs: Tensor, temperature: float) -> Tensor:
    """(examples,) T² cross entropy of softened classes: KL plus the teacher's entropy (Jiao et al., 2020, 3.2)."""
    shares = (theirs / temperature).softmax(-1)
    logs = (ours / temperature).log_softmax(-1)
    return -(temperature**2) * torch.where(shares > 0, shares * logs, 0.0).sum(-1)


def soft_binary(ours: Tensor, theirs: Tensor, temperature: float) -> Tensor:
    """(examples,) the same for classes that do not exclude each other: the mean over classes."""
    shares = (theirs / temperature).sigmoid()
    losses = F.binary_cross_entropy_with_logits(ours / temperature, shares, reduction="none")
    return temperature**2 * losses.mean(-1)
