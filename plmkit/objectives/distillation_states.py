"""Learning from what is inside a teacher: its hidden states, its attention, the relations of its last layer."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, HeadStates, States
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.objectives.contract import BuiltModel, Head, Objective

QUERY_KEY, VALUE_VALUE = "query_key", "value_value"
RELATIONS = (QUERY_KEY, VALUE_VALUE, "query_query", "key_key")
MASKED_SCORE = -100.0  # scores at or below it are those of masked positions, and count as 0 (huawei-noah/TinyBERT)


@dataclass(frozen=True, kw_only=True)
class Matching(Objective):
    """What all of these have in common: the teacher's shape, which `plm distill` fills in."""

    teacher_layers: int = 0  # the teacher's number of layers; 0: the student's
    teacher_width: int = 0  # the teacher's width; 0: the student's
    teacher_heads: int = 0  # the teacher's attention heads per layer; 0: the student's
    until: float = 1.0  # share of the run after which it is no longer trained
    reads: ClassVar = frozenset({"hidden"})
    needs_teacher: ClassVar = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.until <= 1:
            raise SettingError(
                tr(
                    "{name} must be above 0 and at most 1; found {value:g}.",
                    name=f"objectives.{self.name}.until",
                    value=self.until,
                )
            )


def layer_map(student: int, teacher: int) -> tuple[int, ...]:
    """For each layer of the student, 1 to M, the layer of the teacher: m → m * N / M (Jiao et al., 2020, 3.1)."""
    return tuple(number * teacher // student for number in range(1, student + 1))


def checked_map(chosen: tuple[int, ...] | None, student: int, teacher: int, name: str) -> tuple[int, ...]:
    """The chosen map, one layer of the teacher for each of the student's, or the uniform one."""
    if chosen is None:
        return layer_map(student, teacher)
    if len(chosen) != student or any(not 1 <= layer <= teacher for layer in chosen):
        raise SettingError(
            tr(
                "{name} needs one layer of the teacher, from 1 to {teacher}, for each of the student's {student} "
                "layers; found {chosen}.",
                name=name,
                teacher=teacher,
                student=student,
                chosen=list(chosen),
            )
        )
    return tuple(chosen)


@dataclass(frozen=True, kw_only=True)
class LayerMatching(Matching):
    """Layer by layer."""

    layers: tuple[int, ...] | None = None  # the teacher's layer for each of the student's; none: m → m * N / M

    def for_any_layers(self) -> Self:
        return replace(self, layers=None)


class MatchingHead(Head):
    """Compares at all positions without padding, as long as its share of the run lasts."""

    def __init__(self, settings: Matching) -> None:
        super().__init__()
        self.until, self.progress = settings.until, 0.0

    def advance(self, progress: float) -> None:
        self.progress = progress

    def scored(self, batch: Batch) -> int:
        return int(batch.source.visible.sum()) if self.progress < self.until else 0

    def map_to(self, width: int, theirs: int) -> nn.Module:
        """The learned map to the teacher's width; none where both are equal."""
        if width == theirs:
            return nn.Identity()
        made = nn.Linear(width, theirs)
        nn.init.normal_(made.weight, std=0.02)
        nn.init.zeros_(made.bias)
        return made

    def compared(self, batch: Batch) -> Tensor:
        """(B, L) True where states are compared."""
        assert batch.teacher is not None
        aligned = batch.teacher.aligned
        return batch.source.visible if aligned is None else batch.source.visible & aligned


@dataclass(frozen=True, kw_only=True)
class CosineStates(Matching):
    """1 - cosine of the last hidden states of both (Sanh et al., 2019)."""

    name: ClassVar = "cosine_states"
    label: ClassVar = "cosine"

    def build(self, model: BuiltModel) -> "CosineStatesHead":
        return CosineStatesHead(self, model.settings.width)


class CosineStatesHead(MatchingHead):
    reads_teacher = frozenset({"hidden"})

    def __init__(self, settings: CosineStates, width: int) -> None:
        super().__init__(settings)
        self.map = self.map_to(width, settings.teacher_width or width)

    def forward(self, states: States, batch: Batch) -> Tensor:
        teacher = batch.teacher
        assert teacher is not None and teacher.hidden is not None
        places = self.compared(batch)
        distance = 1 - F.cosine_similarity(self.map(states.hidden[places]), teacher.hidden[places], dim=-1)
        return distance.sum() / max(1, len(distance))


@dataclass(frozen=True, kw_only=True)
class HiddenMatching(LayerMatching):
    """Squared error of hidden states, embeddings included, after one learned map of all layers (Jiao et al., 2020)."""

    embeddings: bool = True  # compare the embeddings too
    name: ClassVar = "hidden_matching"
    label: ClassVar = "hidden"
    reads: ClassVar = frozenset({"hidden", "layers"})

    def build(self, model: BuiltModel) -> "HiddenMatchingHead":
        return HiddenMatchingHead(self, model.settings)


class HiddenMatchingHead(MatchingHead):
    uses_layers = True
    reads_teacher = frozenset({"layers"})

    def __init__(self, settings: HiddenMatching, student: Any) -> None:
        super().__init__(settings)
        chosen = checked_map(
            settings.layers, student.layers, settings.teacher_layers or student.layers,
            "objectives.hidden_matching.layers",
        )  # fmt: skip
        first = ((0, 0),) if settings.embeddings else ()
        self.pairs = (*first, *enumerate(chosen, start=1))  # layer of the student, layer of the teacher
        self.map = self.map_to(student.width, settings.teacher_width or student.width)

    def forward(self, states: States, batch: Batch) -> Tensor:
        """The sum over layers of the mean over positions and units."""
        teacher = batch.teacher
        assert states.layers is not None and teacher is not None and teacher.layers is not None
        places = self.compared(batch)
        losses = [
            squared_error(self.map(at(states.layers[ours], places)), at(teacher.layers[theirs], places))
            for ours, theirs in self.pairs
        ]
        return torch.stack(losses).sum()


def at(hidden: Tensor, places: Tensor) -> Tensor:
    """(B, L, width) → (N, width) where places are True; without a copy if all are."""
    return hidden.flatten(0, 1) if bool(places.all()) else hidden[places]


def squared_error(ours: Tensor, theirs: Tensor) -> Tensor:
    """The mean over positions and units; 0 without positions, where a row has no token of the teacher's."""
    return F.mse_loss(ours, theirs, reduction="sum") / max(1, ours.numel())


@dataclass(frozen=True, kw_only=True)
class AttentionMatching(LayerMatching):
    """Squared error of attention scores before the softmax, layer by layer (Jiao et al., 2020, 3.1)."""

    name: ClassVar = "attention_matching"
    label: ClassVar = "attention"

    def build(self, model: BuiltModel) -> "AttentionMatchingHead":
        return AttentionMatchingHead(self, model.settings)


class AttentionMatchingHead(MatchingHead):
    uses_attention = True
    reads_teacher = frozenset({"attention"})

    def __init__(self, settings: AttentionMatching, student: Any) -> None:
        super().__init__(settings)
        self.chosen = checked_map(
            settings.layers, student.layers, settings.teacher_layers or student.layers,
            "objectives.attention_matching.layers",
        )  # fmt: skip
        heads, theirs = student.attention_heads, settings.teacher_heads
        if theirs and heads != theirs:
            raise SettingError(
                tr(
                    "AttentionMatching compares attention head by head, but the student has {ours} heads per layer and "
                    "the teacher {theirs}. Set architecture.heads={theirs}, or use --method minilm.",
                    ours=heads,
                    theirs=theirs,
                )
            )

    def forward(self, states: States, batch: Batch) -> Tensor:
        """The sum over layers of the mean over heads and pairs of positions."""
        teacher = batch.teacher
        assert states.attention is not None and teacher is not None and teacher.attention is not None
        losses = []
        for ours, theirs in zip(states.attention, self.chosen, strict=True):
            both = pairs_of(self.compared(batch), ours.visible)
            losses.append(score_error(scores(ours), scores(teacher.attention[theirs - 1]), both))
        return torch.stack(losses).sum()


def scores(states: HeadStates) -> Tensor:
    """(B, heads, L, L) before the softmax."""
    return states.query / math.sqrt(states.query.shape[-1]) @ states.key.mT


def pairs_of(compared: Tensor, mask: Tensor | None) -> Tensor:
    """(B, 1, L, L) True for two positions that are compared, of which one may attend to the other."""
    both = compared[:, None, :, None] & compared[:, None, None, :]
    return both if mask is None else both & mask


def score_error(ours: Tensor, theirs: Tensor, pairs: Tensor) -> Tensor:
    """The mean squared difference at these pairs, those of masked positions counted as equal."""
    ours, theirs = (one.masked_fill(low, 0.0) if (low := one.detach() <= MASKED_SCORE).any() else one
                    for one in (ours, theirs))  # fmt: skip
    if not bool(pairs.all()):
        ours, theirs = ours * pairs, theirs * pairs
    return F.mse_loss(ours, theirs, reduction="sum") / (ours.shape[1] * pairs.sum().clamp(min=1))


@dataclass(frozen=True, kw_only=True)
class RelationMatching(Matching):
    """KL of the relations of one layer: attention, and the values to each other (Wang et al., 2020, MiniLM)."""

    relations: tuple[str, ...] = (QUERY_KEY, VALUE_VALUE)  # of query_key, value_value, query_query, key_key
    relation_heads: int = 0  # heads into which both are cut, whatever their own (MiniLMv2); 0: the teacher's
    layer: int = 0  # the teacher's layer; 0: its last one
    name: ClassVar = "relation_matching"
    label: ClassVar = "relations"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.relations or set(self.relations) - set(RELATIONS):
            raise SettingError(
                tr(
                    "objectives.relation_matching.relations takes {known}; found {relations}.",
                    known=comma().join(RELATIONS),
                    relations=list(self.relations),
                )
            )
        if not 0 <= self.layer <= max(self.teacher_layers, 0 if self.teacher_layers else self.layer):
            raise SettingError(
                tr(
                    "objectives.relation_matching.layer must be from 1 to {teacher}, or 0 for the last; found {layer}.",
                    teacher=self.teacher_layers,
                    layer=self.layer,
                )
            )

    def build(self, model: BuiltModel) -> "RelationMatchingHead":
        return RelationMatchingHead(self, model.settings)


class RelationMatchingHead(MatchingHead):
    uses_attention = True
    reads_teacher = frozenset({"attention"})

    def __init__(self, settings: RelationMatching, student: Any) -> None:
        super().__init__(settings)
        self.relations, self.layer = settings.relations, settings.layer
        self.heads = settings.relation_heads or settings.teacher_heads or student.attention_heads or 1
        for width in (student.width, settings.teacher_width or student.width):
            if width % self.heads:
                raise SettingError(
                    tr(
                        "objectives.relation_matching.relation_heads={heads} must divide the widths of student and "
                        "teacher, {ours} and {theirs}. Choose another number.",
                        heads=self.heads,
                        ours=student.width,
                        theirs=settings.teacher_width or student.width,
                    )
                )

    def forward(self, states: States, batch: Batch) -> Tensor:
        """The mean over relations, heads and positions."""
        teacher = batch.teacher
        assert states.attention is not None and teacher is not None and teacher.attention is not None
        ours, theirs = states.attention[-1], teacher.attention[self.layer - 1]
        pairs = pairs_of(self.compared(batch), ours.visible)
        losses = [
            relation_error(relation(ours, name, self.heads), relation(theirs, name, self.heads), pairs)
            for name in self.relations
        ]
        return torch.stack(losses).mean()


def relation(states: HeadStates, name: str, heads: int) -> Tensor:
    """(B, heads, L, L) scaled products of two of queries, keys and values, cut into this many heads."""
    parts = {"query": states.query, "key": states.key, "value": states.value}
    first, second = (cut(parts[part], heads) for part in name.split("_"))
    return first / math.sqrt(first.shape[-1]) @ second.mT


def cut(part: Tensor, heads: int) -> Tensor:
    """(B, own heads, L, own width) → (B, heads, L, width / heads)."""
    return (
        part if part.shape[1] == heads else part.transpose(1, 2).flatten(2).unflatten(-1, (heads, -1)).transpose(1, 2)
    )


def relation_error(ours: Tensor, theirs: Tensor, pairs: Tensor) -> Tensor:
    """The mean KL(theirs ‖ ours) of the distributions over the positions that each one may attend to."""
    lowest = torch.finfo(ours.dtype).min
    log_ours, log_theirs = (one.masked_fill(~pairs, lowest).log_softmax(-1) for one in (ours, theirs))
    divergence = torch.where(pairs, log_theirs.exp() * (log_theirs - log_ours), 0.0).sum(-1).mean(1)  # (B, L)
    asking = pairs.any(-1).squeeze(1)
    return torch.where(asking, divergence, 0.0).sum() / asking.sum().clamp(min=1)
