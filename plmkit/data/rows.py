"""A batch between token file and model, in numpy: what the corruption steps pass to each other."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from plmkit.data.region_store import RegionRows
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary

ZEROED, SEEN = 1, 2  # of a masked region: what the network finds in its place
ROUND = 8  # rows are padded to a multiple of this, which suits matrix units
Spans = tuple[np.ndarray, np.ndarray, np.ndarray]  # (M, 2) begin and end, (M,) which of the chosen rows, (M,) segment


class Plan(ABC):
    """The rows of one epoch, before any token is read."""

    block: ClassVar[int] = 1 << 16  # rows at a time, which bounds memory

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def of(self, chosen: np.ndarray) -> Spans:
        """The stretches of the token file in the chosen rows."""

    @abstractmethod
    def tokens(self) -> int:
        """Number of text tokens in all rows."""

    @abstractmethod
    def only(self, chosen: np.ndarray) -> Self:
        """The plan restricted to these rows, in this order."""

    @property
    def directions(self) -> int:
        """2 if the second half of the rows reads the text of the first half backwards."""
        return 1

    @property
    def lengths(self) -> np.ndarray | None:
        """(N, sides) tokens of each row, if rows of like length share a batch; None: rows are in random order."""
        return None

    def blocks(self) -> Iterator[np.ndarray]:
        """The indices of all rows, block by block."""
        for start in range(0, len(self), self.block):
            yield np.arange(start, min(start + self.block, len(self)))


@dataclass(frozen=True, kw_only=True)
class StretchPlan(Plan):
    """Each row is one or more stretches of the token file, one after another."""

    stretches: np.ndarray  # (N, 2 K) begin and end of each row's K stretches, empty ones last; with `rows`, (S, 2)
    rows: np.ndarray | None = None  # (N + 1,) stretch where each row begins, and the end, where not every row has K
    segments: np.ndarray | None = None  # (N, K) or (S,) of each stretch; None: 0, 1, ... in a row
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)  # (N,) each, by the field of the batch they fill

    def __len__(self) -> int:
        return len(self.stretches) if self.rows is None else len(self.rows) - 1

    def of(self, chosen: np.ndarray) -> Spans:
        if self.rows is None:
            many = self.stretches.shape[1] // 2
            stretches = self.stretches[chosen].reshape(-1, 2)
            owners, counted = np.divmod(np.arange(len(stretches)), many)
            segments = counted if self.segments is None else self.segments[chosen].reshape(-1)
        else:
            counts = self.rows[chosen + 1] - self.rows[chosen]
            owners = np.repeat(np.arange(len(chosen)), counts)
            counted = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(self.rows[chosen], counts) + counted
            stretches = self.stretches[places]
            segments = counted if self.segments is None else self.segments[places]
        filled = stretches[:, 1] > stretches[:, 0]
        return (stretches, owners, segments) if filled.all() else (stretches[filled], owners[filled], segments[filled])

    def tokens(self) -> int:
        if self.rows is None:
            return int(self.stretches[:, 1::2].sum() - self.stretches[:, ::2].sum())
        return int(self.stretches[:, 1].sum() - self.stretches[:, 0].sum())

    def only(self, chosen: np.ndarray) -> Self:
        labels = {name: values[chosen] for name, values in self.labels.items()}
        if self.rows is None:
            segments = None if self.segments is None else self.segments[chosen]
            return replace(self, stretches=self.stretches[chosen], segments=segments, labels=labels)
        stretches, owners, segments = self.of(chosen)
        rows = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(chosen)))])
        return replace(self, stretches=stretches, rows=rows, segments=segments, labels=labels)


def cuts(first: int, second: int, room: int) -> tuple[int, int]:
    """Tokens to cut from each of two texts if the longer one (the second if equal) is truncated token by token."""
    excess = max(0, first + second - room)
    uneven = min(excess, abs(first - second))
    rest = excess - uneven
    cut_first, cut_second = rest // 2, rest - rest // 2
    return (cut_first + uneven, cut_second) if first > second else (cut_first, cut_second + uneven)


@dataclass(frozen=True, kw_only=True)
class SideRows:
    """One side of a batch in numpy, as in Side."""

    tokens: np.ndarray  # (B, L)
    visible: np.ndarray  # (B, L) False on padding
    segments: np.ndarray | None = None  # (B, L)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch in numpy: B rows of L positions; fields named as in Side or Batch become those fields."""

    tokens: np.ndarray  # (B, L)
    segments: np.ndarray  # (B, L)
    visible: np.ndarray  # (B, L) False on padding
    target: SideRows | None = None
    random_next: np.ndarray | None = None  # (B,)
    swapped_order: np.ndarray | None = None  # (B,)
    mixed_dialogue: np.ndarray | None = None  # (B,)
    order: np.ndarray | None = None  # (B,)
    distance: np.ndarray | None = None  # (B,)
    discourse: np.ndarray | None = None  # (B,)
    relevance: np.ndarray | None = None  # (B,)
    capitals: np.ndarray | None = None  # (B, L)
    elsewhere: np.ndarray | None = None  # (B, L)
    uppercase: np.ndarray | None = None  # (B, L) True where the text has a capital letter
    recurs: np.ndarray | None = None  # (B, L) int8, 1 in another segment of the document, 0 not, -1: it has no other
    entities: np.ndarray | None = None  # (B, L)
    relation: np.ndarray | None = None  # (B,)
    corrupted_triple: np.ndarray | None = None  # (B,)
    units: np.ndarray | None = None  # (B, L) uint8, bits where words, phrases and entities begin; 0 off the text
    targets: np.ndarray | None = None  # (B, L)
    edges: np.ndarray | None = None  # (B, L, 2)
    attention_order: np.ndarray | None = None  # (B, L, 2)
    reversed: np.ndarray | None = None  # (B,)
    images: np.ndarray | None = None  # (B, 3, H, W) uint8
    regions: RegionRows | None = None
    region_masks: np.ndarray | None = None  # (B, MOST_REGIONS)
    other_caption: np.ndarray | None = None  # (B,)


def fill(store: TokenStore, plan: StretchPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
    """`[CLS] first [SEP] second [SEP] ...`: a separator after every stretch; RoBERTa has one more before a second."""
    stretches, owners, segment = plan.of(chosen)
    more = np.where(segment > 0, vocabulary.separators - 1, 0)
    sizes = stretches[:, 1] - stretches[:, 0] + 1 + more
    lengths = 1 + np.bincount(owners, sizes, len(chosen)).astype(np.int64)
    longest = min(length, -(-int(lengths.max()) // ROUND) * ROUND)
    tokens = np.full((len(chosen), longest), vocabulary.pad, dtype=np.int64)
    segments = np.zeros((len(chosen), longest), dtype=np.int64)
    units = None if store.units is None else np.zeros(tokens.shape, dtype=np.uint8)
    uppercase = None if store.capitals is None else np.zeros(tokens.shape, dtype=bool)
    recurs = None if store.repeats is None else np.full(tokens.shape, -1, dtype=np.int8)
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
        if uppercase is not None:
            uppercase[row, at:stop] = store.uppercase(begin, end)
        if recurs is not None:
            recurs[row, at:stop] = store.recurs(begin, end)
        if number:
            segments[row, at : stop + 1] = number * vocabulary.second
        at = stop + 1
    return Rows(
        tokens=tokens,
        units=units,
        uppercase=uppercase,
        recurs=recurs,
        segments=segments,
        visible=np.arange(longest) < lengths[:, None],
        **{name: values[chosen] for name, values in plan.labels.items()},
    )
