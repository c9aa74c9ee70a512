"""What travels from the data to the loss."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from plmkit.data.region_store import RegionRows
from plmkit.data.rows import Rows, SideRows
from plmkit.errors import CheckpointError
from plmkit.language import tr

IGNORE = -100  # the target where nothing is predicted; torch's cross entropy knows it by this number
Memory = tuple[Tensor, ...]  # what a model keeps of a batch for the next, the rows along the first dimension of each


@dataclass(frozen=True, kw_only=True)
class Side:
    """One input sequence per row: B rows of L positions."""

    tokens: Tensor  # (B, L)
    visible: Tensor  # (B, L) False on padding
    segments: Tensor | None = None  # (B, L) 0 in the first text, 1 in the second; None: 0 everywhere
    characters: Tensor | None = None  # (B, L, WORD_LENGTH) of words, where some are unknown; None: those of the tokens
    features: Tensor | None = None  # (B, L, layers, width) what another network made of them, computed before

    @property
    def segment_ids(self) -> Tensor:
        """(B, L)."""
        return torch.zeros_like(self.tokens) if self.segments is None else self.segments

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**changed(self, change))


@dataclass(frozen=True, kw_only=True)
class Regions:
    """Features of image regions that were computed before: B images of up to R regions."""

    features: Tensor  # (B, R, width), 0 on padding
    visible: Tensor  # (B, R) False on padding
    boxes: Tensor  # (B, R, 4) left, top, right and bottom as shares of the image
    classes: Tensor | None = None  # (B, R, classes) probabilities by the detector that found them; None: not given

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**changed(self, change))


@dataclass(frozen=True, kw_only=True)
class HeadStates:
    """What the attention of one layer compares and mixes, head by head; zeros on padding."""

    query: Tensor  # (B, heads, L, width / heads)
    key: Tensor
    value: Tensor
    visible: Tensor | None = None  # True where a position may attend to another, broadcastable to (B, heads, L, L)


@dataclass(frozen=True, kw_only=True)
class TeacherStates:
    """What a teacher made of the same rows, without gradient; of its parts those that somebody reads."""

    output: Tensor | None = None  # (N, width) states at the N positions that are compared, before the output embedding
    table: Tensor | None = None  # (vocabulary, width) output embedding; with `common`, (common, width)
    bias: Tensor | None = None  # (vocabulary,) likewise; None: it has none
    hidden: Tensor | None = None  # (B, L, width) last layer
    layers: tuple[Tensor, ...] | None = None  # (B, L, width) each: the embeddings, then every layer
    attention: tuple[HeadStates, ...] | None = None  # of every layer
    common: Tensor | None = None  # (common,) tokens of the student that `table` is of; None: all, in their order
    aligned: Tensor | None = None  # (B, L) True where it has a state for the student's token; None: everywhere
    comparable: Tensor | None = None  # (B, L) True where its prediction can be compared too; None: everywhere


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Everything that travels from the data to the loss; B rows."""

    source: Side  # input of the encoder, or of the only network there is
    target: Side | None = None  # input of the decoder, in an encoder–decoder; it has a length of its own
    targets: Tensor | None = None  # (B, L) token to predict at each position of the predicting side, or IGNORE
    edges: Tensor | None = None  # (B, L, 2) positions just before and just after the span of a masked token, or -1
    random_next: Tensor | None = None  # (B,) 1 where the second text is from elsewhere, 0 where it follows, or IGNORE
    swapped_order: Tensor | None = None  # (B,) 1 where the two texts are swapped, 0 where they are in order, or IGNORE
    mixed_dialogue: Tensor | None = None  # (B,) 1 where an utterance is of another dialogue, 0 where none is, or IGNORE
    order: Tensor | None = None  # (B,) class of the order in which the parts of a paragraph stand, or IGNORE
    distance: Tensor | None = None  # (B,) 0: adjacent texts, 1: of one document, 2: of different ones, or IGNORE
    discourse: Tensor | None = None  # (B,) the relation that a connective between the two texts expressed, or IGNORE
    relevance: Tensor | None = (
        None  # (B,) 0: the query led to a click on the title, 1: showed it, 2: neither, or IGNORE
    )
    capitals: Tensor | None = None  # (B, L) 1 where the text has a capital letter, 0 where it has none, or IGNORE
    elsewhere: Tensor | None = None  # (B, L) 1 where the token is in another segment of its document, 0: not, or IGNORE
    entities: Tensor | None = None  # (B, L) number of the entity to predict at each position, or IGNORE
    relation: Tensor | None = None  # (B,) number of the relation between the two entities of a row, or IGNORE
    corrupted_triple: Tensor | None = None  # (B,) 1 where an entity of a triple is a random one, 0 where not, or IGNORE
    labels: Tensor | None = None  # (examples, ...) task labels, in the shape that their head reads
    ngrams: tuple[Tensor, Tensor] | None = None  # (examples, K) numbers of n-grams, and their weights, 0 on padding
    words: Tensor | None = None  # (examples, W, 2) of each word the row of its example and the position in it, or -1
    heads: frozenset[str] | None = None  # the heads that this batch is for; None: all
    task: Tensor | None = None  # (B,) the pretraining task of a row, for a task embedding; None: the architecture's own
    places: Tensor | None = None  # (B, L) 1 in the text that an answer is a part of, 2 at the token for "none", else 0
    separators: Tensor | None = None  # (B,) position of the last separator of each row; None: the rows have none
    alternatives: Tensor | None = None  # (B,) the example, from 0 on, of which a row is one version; None: its own
    attention_order: Tensor | None = None  # (B, L, 2) i attends to j where i's second number is above j's first
    reversed: Tensor | None = None  # (B,) True where a row is read backwards
    images: Tensor | None = None  # (B, 3, H, W) uint8, red, green and blue: what the row describes, or is said to
    regions: Regions | None = None  # in place of images, features of their regions
    region_masks: Tensor | None = None  # (B, MOST_REGIONS) 0: seen; 1: zeroed, 2: seen, and predicted
    other_caption: Tensor | None = None  # (B,) 1 where a caption is that of another image, 0 where it is not, or IGNORE
    memory: Memory | None = None  # what the model kept of the text before each row; opaque to all but the model
    needed: Tensor | None = None  # (B, L) True where the last state is used, or the first of its row; None: anywhere
    draws: Tensor | None = None  # (B, L) random numbers in [0, 1) for a model that samples tokens; None: it draws them
    all_layers: bool = False  # return the states of all layers, not only of the last
    continues: Tensor | None = None  # (B,) True where a row continues the same row of the batch before
    teacher: TeacherStates | None = None  # in distillation, what the teacher made of these rows
    soft: Tensor | None = None  # (examples, ...) in distillation, a teacher's answers, in the shape of the task's head

    @property
    def predicted(self) -> Tensor:
        """(B, L) True where there is a target."""
        assert self.targets is not None
        return self.targets != IGNORE

    @property
    def token_count(self) -> int:
        """Number of input tokens on both sides, without padding."""
        sides = [self.source] if self.target is None else [self.source, self.target]
        return sum(int(side.visible.sum()) for side in sides)

    def to(self, device: torch.device) -> Self:
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    @property
    def examples(self) -> int:
        """Number of examples: the number of rows, unless an example has several versions."""
        return len(self.source.tokens) if self.alternatives is None else int(self.alternatives[-1]) + 1

    @property
    def most_alternatives(self) -> int:
        """Number of rows of the example that has the most."""
        return 1 if self.alternatives is None else int(self.alternatives.bincount().max())

    def of_stream(self, heads: frozenset[str] | None, task: int | None) -> Self:
        """The batch with the heads that its stream trains, and the task that it is for."""
        tasks = None if task is None else torch.full((len(self.source.tokens),), task)
        return self if heads is None and task is None else replace(self, heads=heads, task=tasks)

    def part(self, start: int, stop: int) -> Self:
        """The examples from `start` to before `stop`, each with all its rows."""
        if self.alternatives is None:
            return self.each(lambda tensor: tensor[start:stop])
        first, end = torch.searchsorted(self.alternatives, torch.tensor([start, stop])).tolist()
        own = replace(self, labels=None, words=None, ngrams=None, soft=None).each(lambda tensor: tensor[first:end])
        labels, words, soft = (None if one is None else one[start:stop] for one in (self.labels, self.words, self.soft))
        ngrams = None if self.ngrams is None else (self.ngrams[0][start:stop], self.ngrams[1][start:stop])
        alternatives = self.alternatives[first:end] - start
        return replace(own, labels=labels, words=words, ngrams=ngrams, soft=soft, alternatives=alternatives)

    def with_memory(self, memory: Memory | None) -> Self:
        """The batch with the memory of the previous batch, if its rows continue that batch."""
        if memory is None or self.continues is None or not bool(self.continues.all()):
            return self
        streams, rows = len(memory[0]), len(self.source.tokens)
        if streams != rows:
            raise CheckpointError(
                tr(
                    "The recurrent memory has {streams} rows, but the batch has {rows}.\n"
                    "Resume with the schedule.batch of the checkpoint, or start a new run.",
                    streams=streams,
                    rows=rows,
                )
            )
        return replace(self, memory=memory)

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The batch with the same change applied to every tensor."""
        return type(self)(**changed(self, change))


def changed(parts: Any, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """The fields of a batch or a side, with the same change applied to every tensor; None is left out."""
    values = {field.name: getattr(parts, field.name) for field in fields(parts)}
    return {name: changed_value(value, change) for name, value in values.items() if value is not None}


def changed_value(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Side | Regions):
        return value.each(change)
    if isinstance(value, tuple):
        return tuple(change(part) for part in value)
    return value


@dataclass(frozen=True, kw_only=True)
class States:
    """The outputs of an architecture for a batch."""

    hidden: Tensor  # (B, L, width) last layer; of two streams the one that predicts; may be zeros where not needed
    pooled: Tensor | None = None  # (B, width) one vector for the row
    region_hidden: Tensor | None = None  # (B, R, visual width) last layer over image regions
    region_inputs: Tensor | None = None  # (B, R, features) these regions as they were before any was masked
    region_visible: Tensor | None = None  # (B, R) False where an image has fewer regions
    region_attention: Tensor | None = None  # (B, L, R) weights by which each position reads them, which add up to 1
    guesses: Tensor | None = None  # (N, candidates) a generator's logits at the N masked tokens, row by row
    sampled: Tensor | None = None  # (N,) the tokens sampled in their place
    replaced: Tensor | None = None  # (B, L) True where the input token is not the original
    layers: tuple[Tensor, ...] | None = None  # (B, L, width) each: the embeddings, then every layer; where requested
    memory: Memory | None = None  # what the next rows of the same streams may attend to, without gradient
    attention: tuple[HeadStates, ...] | None = None  # of every layer; where requested
    logits: Tensor | None = None  # (N, tokens) at the N predicted positions, where two losses share them


def names_of(*kinds: type) -> frozenset[str]:
    """The names of the fields of these dataclasses."""
    return frozenset(field.name for kind in kinds for field in fields(kind))


def check_fields(cls: type, what: str, names: Iterable[str], *kinds: type) -> None:
    """Reject a class whose `reads` or `writes` name unknown fields; called when the class is defined."""
    if unknown := sorted(set(names) - names_of(*kinds)):
        among = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{cls.__name__}.{what} names {', '.join(unknown)}, but {among} has no such field.")


SIDE = tuple(sorted(names_of(Side) & names_of(SideRows)))
SHARED = tuple(sorted(names_of(Rows) & names_of(Batch) - {"target", "regions"}))


def as_batch(rows: Rows) -> Batch:
    """The fields that rows and a batch both have, as tensors."""
    target = None if rows.target is None else side_of(rows.target)
    regions = None if rows.regions is None else Regions(**tensors_of(rows.regions, names_of(Regions)))
    return Batch(source=side_of(rows), target=target, regions=regions, **tensors_of(rows, SHARED))


def side_of(rows: Rows | SideRows) -> Side:
    return Side(**tensors_of(rows, SIDE))


def tensors_of(rows: Rows | SideRows | RegionRows, names: Iterable[str]) -> dict[str, Any]:
    arrays = {name: getattr(rows, name) for name in names}
    return {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
