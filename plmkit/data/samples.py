"""From tokens on disk to batches: what is in each is a pure function of (seed, epoch, index)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from plmkit.corruption.contract import Arrangement, Masking, Step
from plmkit.data.batch import Batch, as_batch
from plmkit.data.mixture import balance, mix
from plmkit.data.randomness import Draws, generator
from plmkit.data.rows import Plan, Rows
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

PLAN, ORDER, MASK, SPLIT = range(4)  # each purpose has its own random numbers
POOL = 100  # batches whose rows are sorted by length together
TOO_LARGE = 5  # times the tokens to hold out: a larger document is not held out if there are others
FEW_DOCUMENTS = 20  # a source with fewer has no held-out share of its own


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far one data stream has been read."""

    epoch: int = 0
    index: int = 0  # rows of this epoch already used


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a run in its data, as checkpoints record it."""

    stage: int = 0  # of the recipe's
    places: Mapping[str, Place] = field(default_factory=dict)  # by name; those that are unread are left out
    owed: Mapping[str, float] = field(default_factory=dict)  # steps that streams with exact shares lag behind them

    def at(self, name: str) -> Place:
        return self.places.get(name, Place())


@dataclass(frozen=True, kw_only=True)
class Split:
    """Documents of a store: those to train on and those held out."""

    train: np.ndarray
    valid: np.ndarray


class Samples:
    """Batches from documents of a store, arranged and corrupted by the steps of a recipe."""

    def __init__(
        self,
        store: TokenStore,
        documents: np.ndarray,
        corruption: Sequence[Step],
        vocabulary: Vocabulary,
        *,
        seed: int,
        weights: Sequence[float] = (),
    ) -> None:
        self.store = store
        self.documents = documents
        self.arrange, self.maskings = parted(corruption)
        self.vocabulary = vocabulary
        self.seed = seed
        self.weights = weights
        self.planned: tuple[tuple[int, int, int], Plan, np.ndarray] | None = None

    @property
    def more_specials(self) -> int:
        """Special tokens per row beyond those that the arrangement counts: RoBERTa has two between two texts."""
        return (self.arrange.texts - 1) * (self.vocabulary.separators - 1)

    @property
    def continues(self) -> bool:
        """Does each row of a batch continue the same row of the batch before?"""
        return self.arrange.continues

    def check(self, length: int) -> None:
        """Text that is read as a stream must fill at least one row."""
        tokens = int(self.store.document_tokens()[self.documents].sum())
        if self.arrange.in_streams and tokens < length:
            raise InputError(
                tr(
                    "The training text has {tokens:,} tokens, fewer than one segment of {length:,}.\n"
                    "Add text, or use shorter segments: --set stages='[[1.0, {shorter}]]'.",
                    tokens=tokens,
                    length=length,
                    shorter=max(5, tokens // 2),
                )
            )

    def check_room(self, length: int) -> None:
        """Rows must have room for a token of each of their texts, or what is to be predicted could be cut away."""
        texts = self.arrange.texts
        needed = 1 + 2 * texts + self.more_specials  # [CLS] a [SEP] b [SEP] ...
        if length < needed:
            raise SettingError(
                tr(
                    "stages: rows of {arrangement} need at least {needed} tokens, as they hold {texts} texts; found "
                    "{length}.",
                    arrangement=type(self.arrange).__name__,
                    needed=needed,
                    texts=texts,
                    length=length,
                )
            )

    def next(self, place: Place, rows: int, length: int) -> tuple[Batch, Place]:
        """The next `rows` rows, and the place after them; an incomplete batch at the end of an epoch is dropped."""
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
        """The same rows in numpy, with their units."""
        plan, order = self.plan(epoch, length, rows)
        chosen = order[index : index + rows]
        filled = self.arrange.fill(self.store, plan, chosen, self.vocabulary, length)
        for masking in self.maskings:
            draws = Draws(self.seed, masking.mask_epoch(epoch), chosen)
            filled = masking(filled, self.vocabulary, draws)
        return filled

    def plan(self, epoch: int, length: int, rows: int = 1) -> tuple[Plan, np.ndarray]:
        """The examples of an epoch, and their order in batches of `rows` rows; cached."""
        key = epoch, length, rows if self.continues or self.arrange.pairs or self.arrange.images else 1
        if self.planned is None or self.planned[0] != key:
            repeat = min((masking.mask_epoch(epoch) for masking in self.maskings), default=epoch)
            rng = generator(self.seed, PLAN, repeat, length)
            documents = mix(self.store, self.documents, self.weights, rng)
            plan = self.arrange.plan(self.store, documents, length - self.more_specials, rng)
            plan = balance(plan, self.store, self.weights, rng)
            if not len(plan):
                raise InputError(
                    tr(
                        "{arrangement} makes no examples from the {count} documents. `plm doctor` shows the corpus.",
                        arrangement=type(self.arrange).__name__,
                        count=len(self.documents),
                    )
                )
            rng = generator(self.seed, ORDER, epoch, length)
            if self.continues:
                order = side_by_side(len(plan), rows, plan.directions)
            elif plan.lengths is not None:
                order = grouped(plan.lengths, rows, rng)
            else:
                order = rng.permutation(len(plan))
            self.planned = key, plan, order
        return self.planned[1], self.planned[2]


def parted(corruption: Sequence[Step]) -> tuple[Arrangement[Any], list[Masking]]:
    """The arrangement of a corruption, and its maskings."""
    arrangement, *maskings = corruption
    assert isinstance(arrangement, Arrangement)
    return arrangement, [step for step in maskings if isinstance(step, Masking)]


def side_by_side(count: int, streams: int, directions: int = 1) -> np.ndarray:
    """Numbers below `count` cut into equal streams, read in parallel: 0 4 8, 1 5 9, ...; the remainder is dropped.

    Where the first half of the numbers reads forward and the second backward, so does each half of the streams.
    """
    if directions > 1 and streams % directions == 0 and count >= streams:
        one = side_by_side(count // directions, streams // directions).reshape(-1, streams // directions)
        return np.hstack([one + number * (count // directions) for number in range(directions)]).ravel()
    streams = min(streams, count)
    return np.arange(count // streams * streams).reshape(streams, -1).T.ravel()


def grouped(lengths: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """An order of rows in which each batch has rows of like length: less padding, and batches in random order.

    Random rows are sorted by length within pools; those that fill no batch come last.
    """
    order = rng.permutation(len(lengths))
    whole = len(order) // rows * rows
    pools = [order[start : min(start + POOL * rows, whole)] for start in range(0, whole, POOL * rows)]
    batches = [pool[np.lexsort(lengths[pool].T)].reshape(-1, rows) for pool in pools]
    mixed = rng.permutation(np.concatenate([order[:0].reshape(-1, rows), *batches]))
    return np.concatenate([mixed.ravel(), order[whole:]])


def split(
    store: TokenStore, *, seed: int, share: float = 0.01, most: int = 20_000, among: np.ndarray | None = None
) -> Split:
    """Hold out random documents of each source: a share of its tokens, at most `most`, at least one document.

    Sources of few documents, such as files that hold one each, are one source in this.
    """
    documents = np.arange(len(store.sources)) if among is None else among
    sizes, sources = store.document_tokens()[documents], store.sources[documents]
    counts = np.bincount(sources, minlength=1)
    owners = np.where(counts[sources] < FEW_DOCUMENTS, len(counts), sources)
    train, valid = [documents[:0]], [documents[:0]]
    for number, owner in enumerate(np.unique(owners).tolist()):
        mine = documents[owners == owner]
        own = split_sizes(sizes[owners == owner], (seed, SPLIT, *[number] * (number > 0)), share, most)
        train.append(mine[own.train])
        valid.append(mine[own.valid])
    return Split(train=np.sort(np.concatenate(train)), valid=np.sort(np.concatenate(valid)))


def split_sizes(sizes: np.ndarray, seeds: tuple[int, ...], share: float, most: int) -> Split:
    """The numbers of the documents of these sizes to train on, and to hold out."""
    wanted = min(share * sizes.sum(), most)
    if share <= 0 or len(sizes) < 2:
        return Split(train=np.arange(len(sizes)), valid=np.zeros(0, dtype=np.int64))
    order = generator(*seeds).permutation(len(sizes))
    fitting = order[sizes[order] <= TOO_LARGE * wanted]
    if not len(fitting):  # every document is too large: take one of the smaller half
        fitting = order[sizes[order] <= np.median(sizes)][:1]
    count = int(np.searchsorted(np.cumsum(sizes[fitting]), wanted)) + 1
    valid = fitting[: min(count, max(1, len(sizes) - 2))]  # two stay, so that a text can be paired with another
    return Split(train=np.setdiff1d(order, valid), valid=np.sort(valid))
