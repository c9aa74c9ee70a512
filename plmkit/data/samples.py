"""From tokens on disk to batches: what is in each is a pure function of (seed, epoch, index)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plmkit.data.batch import Batch
from plmkit.data.randomness import Draws, generator
from plmkit.data.rows import Plan, Rows
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError

PLAN, ORDER, HIDE, SPLIT = range(4)  # each purpose has its own random numbers
ROUND = 8  # rows are padded to a multiple of this, which suits matrix units


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run is in its data: all that a checkpoint needs to know."""

    stage: int = 0  # which of the schedule's lengths
    epoch: int = 0
    index: int = 0  # rows of this epoch already used


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
        self.planned: tuple[tuple[int, int], Plan, np.ndarray] | None = None

    def next(self, position: Position, rows: int, length: int) -> tuple[Batch, Position]:
        """The next `rows` rows, and where that leaves us; an epoch's last rows that fill no batch are left out."""
        plan, _ = self.plan(position.epoch, length)
        if position.index and position.index + rows > len(plan):
            position = Position(stage=position.stage, epoch=position.epoch + 1)
        batch = self.batch(position.epoch, position.index, rows, length, stage=position.stage)
        used = Position(stage=position.stage, epoch=position.epoch, index=position.index + len(batch.tokens))
        return batch, used

    def batch(self, epoch: int, index: int, rows: int, length: int, *, stage: int = 0) -> Batch:
        """Rows index to index + rows of an epoch, fewer at its end, hidden as this stage of the run does."""
        plan, order = self.plan(epoch, length)
        chosen = order[index : index + rows]
        filled = fill(self.store, plan, chosen, self.vocabulary, length)
        for step in self.hide:
            draws = Draws(self.seed, hiding_epoch(step, epoch), chosen)
            filled = at_stage(step, stage)(filled, self.vocabulary, draws)
        return as_batch(filled)

    def plan(self, epoch: int, length: int) -> tuple[Plan, np.ndarray]:
        """The epoch's examples and their order; the latest is kept."""
        if self.planned is None or self.planned[0] != (epoch, length):
            repeat = min((hiding_epoch(step, epoch) for step in self.hide), default=epoch)
            rng = generator(self.seed, PLAN, repeat, length)
            documents = mix(self.store, self.documents, self.weights, rng)
            plan = self.arrange.plan(self.store, documents, length, rng)
            if not len(plan):
                raise InputError(
                    f"{type(self.arrange).__name__} makes no example from the {len(self.documents)} documents. "
                    "`plm doctor` shows what the corpus holds."
                )
            order = generator(self.seed, ORDER, epoch, length).permutation(len(plan))
            self.planned = (epoch, length), plan, order
        return self.planned[1], self.planned[2]


def hiding_epoch(step: Any, epoch: int) -> int:
    """Static masking uses its few copies in turn; dynamic masking never repeats."""
    copies = getattr(step, "copies", None)
    return epoch % copies if copies else epoch


def at_stage(step: Any, stage: int) -> Any:
    """Some ways of hiding change in the course of a run."""
    return step.at(stage) if hasattr(step, "at") else step


def fill(store: TokenStore, plan: Plan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
    """`[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]` where there is no second."""
    stretches = plan.stretches[chosen]
    first, second = stretches[:, 1] - stretches[:, 0], stretches[:, 3] - stretches[:, 2]
    lengths = first + second + np.where(second > 0, 3, 2)
    longest = min(length, -(-int(lengths.max()) // ROUND) * ROUND)
    tokens = np.full((len(chosen), longest), vocabulary.pad, dtype=np.int64)
    segments = np.zeros_like(tokens)
    tokens[:, 0] = vocabulary.cls
    for row, (begin_a, end_a, begin_b, end_b) in enumerate(stretches.tolist()):
        middle, end = 1 + end_a - begin_a, int(lengths[row])
        tokens[row, 1:middle] = store.tokens[begin_a:end_a]
        tokens[row, middle] = vocabulary.sep
        if end_b > begin_b:
            tokens[row, middle + 1 : end - 1] = store.tokens[begin_b:end_b]
            tokens[row, end - 1] = vocabulary.sep
            segments[row, middle + 1 : end] = 1
    return Rows(
        tokens=tokens,
        segments=segments,
        visible=np.arange(longest) < lengths[:, None],
        follows=None if plan.follows is None else plan.follows[chosen],
    )


def as_batch(rows: Rows) -> Batch:
    def tensor(array: np.ndarray | None) -> torch.Tensor | None:
        return None if array is None else torch.from_numpy(array)

    return Batch(
        tokens=torch.from_numpy(rows.tokens),
        segments=torch.from_numpy(rows.segments),
        visible=torch.from_numpy(rows.visible),
        targets=tensor(rows.targets),
        edges=tensor(rows.edges),
        follows=tensor(rows.follows),
    )


def split(store: TokenStore, *, seed: int, share: float = 0.01, most: int = 20_000) -> Split:
    """Hold out random documents: a share of the tokens, no more than `most`, at least one document."""
    sizes = store.document_tokens()
    order = generator(seed, SPLIT).permutation(len(sizes))
    wanted = min(share * sizes.sum(), most)
    count = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1 if share > 0 else 0
    count = min(count, len(sizes) - 1)
    return Split(train=np.sort(order[count:]), valid=np.sort(order[:count]))


def mix(store: TokenStore, documents: np.ndarray, weights: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    """The epoch's documents: all once, or, with weights, as often as gives each source its share of the tokens."""
    if not weights:
        return documents
    sizes, sources = store.document_tokens()[documents], store.sources[documents]
    total = sizes.sum()
    chosen = []
    for source, weight in enumerate(weights):
        mine = documents[sources == source]
        wanted = total * weight / sum(weights)
        chosen.append(repeat_to(mine, sizes[sources == source], wanted, rng))
    return np.concatenate(chosen)


def repeat_to(documents: np.ndarray, sizes: np.ndarray, wanted: float, rng: np.random.Generator) -> np.ndarray:
    """Whole copies of the documents, then random ones, until they hold `wanted` tokens."""
    if not len(documents):
        return documents
    copies, rest = divmod(wanted, sizes.sum())
    order = rng.permutation(len(documents))
    extra = int(np.searchsorted(np.cumsum(sizes[order]), rest))
    return np.concatenate([np.tile(documents, int(copies)), documents[order[:extra]]])
