"""From tokens on disk to batches: what is in each is a pure function of (seed, epoch, index)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from plmkit.data.batch import Batch, Side
from plmkit.data.mixture import balance, mix
from plmkit.data.randomness import Draws, generator
from plmkit.data.rows import Plan, Rows
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError

PLAN, ORDER, HIDE, SPLIT = range(4)  # each purpose has its own random numbers
TOO_LARGE = 5  # times the tokens wanted: such a document is not held out where there are others
ROUND = 8  # rows are padded to a multiple of this, which suits matrix units


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far one stream of data is read."""

    epoch: int = 0
    index: int = 0  # rows of this epoch already used


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run is in its data: all that a checkpoint needs to know."""

    stage: int = 0  # of the recipe's
    places: Mapping[str, Place] = field(default_factory=dict)  # by name; those that nothing was read from are left out

    def at(self, name: str) -> Place:
        return self.places.get(name, Place())


@dataclass(frozen=True, kw_only=True)
class Split:
    """Documents of a store: those to train on and those held out."""

    train: np.ndarray
    valid: np.ndarray


class Samples:
    """Batches of documents of a store, arranged and corrupted as a recipe says."""

    def __init__(
        self,
        store: TokenStore,
        documents: np.ndarray,
        corruption: Sequence[Any],
        vocabulary: Vocabulary,
        *,
        seed: int,
        weights: Sequence[float] = (),
    ) -> None:
        self.store = store
        self.documents = documents
        self.arrange, *self.hide = corruption
        self.vocabulary = vocabulary
        self.seed = seed
        self.weights = weights
        self.planned: tuple[tuple[int, int, int], Any, np.ndarray] | None = None

    @property
    def more_specials(self) -> int:
        """Special tokens of a row beyond those that the arrangement counts: RoBERTa has two between two texts."""
        return (getattr(self.arrange, "texts", 1) - 1) * (self.vocabulary.separators - 1)

    @property
    def continues(self) -> bool:
        """Does each row of a batch go on where the same row of the batch before ended?"""
        return getattr(self.arrange, "continues", False)

    def check(self, length: int) -> None:
        """Text that is read as a stream must fill at least one row."""
        tokens = int(self.store.document_tokens()[self.documents].sum())
        if getattr(self.arrange, "in_streams", False) and tokens < length:
            raise InputError(
                f"The text to train on has {tokens:,} tokens, less than one segment of {length:,}.\n"
                f"Give more text, or shorter segments: --set stages='[[1.0, {max(5, tokens // 2)}]]'."
            )

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        """The next `rows` rows, and where that leaves us; an epoch's last rows that fill no batch are left out."""
        _, order = self.plan(place.epoch, length, rows)
        if place.index and place.index + rows > len(order):
            place = Place(epoch=place.epoch + 1)
        batch = self.batch(place.epoch, place.index, rows, length)
        return batch, replace(place, index=place.index + len(batch.source.tokens))

    def batch(self, epoch: int, index: int, rows: int, length: int) -> Batch:
        """Rows index to index + rows of an epoch, fewer at its end."""
        batch = as_batch(self.rows(epoch, index, rows, length))
        return replace(batch, continues=torch.full((len(batch.source.tokens),), index > 0)) if self.continues else batch

    def rows(self, epoch: int, index: int, rows: int, length: int) -> Rows:
        """The same before it becomes a batch: with the units that it was hidden by."""
        plan, order = self.plan(epoch, length, rows)
        chosen = order[index : index + rows]
        filled = (
            fill(self.store, plan, chosen, self.vocabulary, length)
            if isinstance(plan, Plan)
            else self.arrange.fill(plan, chosen, self.vocabulary)
        )
        for step in self.hide:
            draws = Draws(self.seed, hiding_epoch(step, epoch), chosen)
            filled = step(filled, self.vocabulary, draws)
        return filled

    def plan(self, epoch: int, length: int, rows: int = 1) -> tuple[Any, np.ndarray]:
        """The epoch's examples, a Plan or a StreamPlan, and their order in batches of so many rows; kept once made."""
        key = epoch, length, rows if self.continues else 1
        if self.planned is None or self.planned[0] != key:
            repeat = min((hiding_epoch(step, epoch) for step in self.hide), default=epoch)
            rng = generator(self.seed, PLAN, repeat, length)
            documents = mix(self.store, self.documents, self.weights, rng)
            plan = self.arrange.plan(self.store, documents, length - self.more_specials, rng)
            plan = balance(plan, self.store, self.weights, rng)
            if not len(plan):
                raise InputError(
                    f"{type(self.arrange).__name__} makes no example from the {len(self.documents)} documents. "
                    "`plm doctor` shows what the corpus holds."
                )
            rng = generator(self.seed, ORDER, epoch, length)
            directions = getattr(plan, "directions", 1)
            order = side_by_side(len(plan), rows, directions) if self.continues else rng.permutation(len(plan))
            self.planned = key, plan, order
        return self.planned[1], self.planned[2]


def side_by_side(count: int, streams: int, directions: int = 1) -> np.ndarray:
    """Numbers below `count` cut into streams of equal length, read abreast: 0 4 8, 1 5 9, ...; the rest is left out.

    Where the first half of the numbers reads forward and the second backward, so does each half of the streams.
    """
    if directions > 1 and streams % directions == 0 and count >= streams:
        one = side_by_side(count // directions, streams // directions).reshape(-1, streams // directions)
        return np.hstack([one + number * (count // directions) for number in range(directions)]).ravel()
    streams = min(streams, count)
    return np.arange(count // streams * streams).reshape(streams, -1).T.ravel()


def hiding_epoch(step: Any, epoch: int) -> int:
    """Static masking uses its few copies in turn; dynamic masking never repeats."""
    copies = getattr(step, "copies", None)
    return epoch % copies if copies else epoch


def fill(store: TokenStore, plan: Plan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
    """`[CLS] first [SEP] second [SEP] ...`: a separator behind every stretch; RoBERTa has one more before a second."""
    stretches, owners, segment = plan.of(chosen)
    more = np.where(segment > 0, vocabulary.separators - 1, 0)
    sizes = stretches[:, 1] - stretches[:, 0] + 1 + more
    lengths = 1 + np.bincount(owners, sizes, len(chosen)).astype(np.int64)
    longest = min(length, -(-int(lengths.max()) // ROUND) * ROUND)
    tokens = np.full((len(chosen), longest), vocabulary.pad, dtype=np.int64)
    segments = np.zeros((len(chosen), longest), dtype=np.int64)
    units = None if store.units is None else np.zeros(tokens.shape, dtype=np.uint8)
    tokens[:, 0] = vocabulary.cls
    source, separator = store.tokens, vocabulary.sep
    last, at = -1, 1
    for row, (begin, end), number in zip(owners.tolist(), stretches.tolist(), segment.tolist(), strict=True):
        if row != last:
            last, at = row, 1
        if number:
            between = at + vocabulary.separators - 1
            tokens[row, at:between] = separator
            at = between
        stop = at + end - begin
        tokens[row, at:stop] = source[begin:end]
        tokens[row, stop] = separator
        if units is not None and store.units is not None:
            units[row, at:stop] = store.units[begin:end]
        if number:
            segments[row, at : stop + 1] = number * vocabulary.second
        at = stop + 1
    return Rows(
        tokens=tokens,
        corpus=store.tokens,
        units=units,
        segments=segments,
        visible=np.arange(longest) < lengths[:, None],
        follows=None if plan.follows is None else plan.follows[chosen],
    )


def as_batch(rows: Rows) -> Batch:
    def tensor(array: np.ndarray | None) -> torch.Tensor | None:
        return None if array is None else torch.from_numpy(array)

    return Batch(
        source=Side(
            tokens=torch.from_numpy(rows.tokens),
            visible=torch.from_numpy(rows.visible),
            segments=torch.from_numpy(rows.segments),
        ),
        targets=tensor(rows.targets),
        edges=tensor(rows.edges),
        follows=tensor(rows.follows),
        reading=tensor(rows.reading),
        backward=tensor(rows.backward),
    )


def split(store: TokenStore, *, seed: int, share: float = 0.01, most: int = 20_000) -> Split:
    """Hold out random documents: a share of the tokens, no more than `most`, at least one document."""
    sizes = store.document_tokens()
    wanted = min(share * sizes.sum(), most)
    if share <= 0 or len(sizes) < 2:
        return Split(train=np.arange(len(sizes)), valid=np.zeros(0, dtype=np.int64))
    order = generator(seed, SPLIT).permutation(len(sizes))
    fitting = order[sizes[order] <= TOO_LARGE * wanted]
    if not len(fitting):  # every document is too large: one that is not among the larger half
        fitting = order[sizes[order] <= np.median(sizes)][:1]
    count = int(np.searchsorted(np.cumsum(sizes[fitting]), wanted)) + 1
    valid = fitting[: min(count, max(1, len(sizes) - 2))]  # two stay, so that a text can be paired with another
    return Split(train=np.setdiff1d(order, valid), valid=np.sort(valid))
