"""The contract of a corruption's steps: an arrangement turns documents into rows, maskings choose what to predict."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from plmkit.data.batch import Batch, check_fields
from plmkit.data.randomness import Draws
from plmkit.data.rows import Plan, Rows, StretchPlan, fill
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import ROLES, Vocabulary
from plmkit.segmentation.choosing import AnySegmenter

if TYPE_CHECKING:
    from scipy import sparse  # takes 0.05 s to import, and only counting needs it

AnyPlan = TypeVar("AnyPlan", bound=Plan)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of the training text that a step may need, for a vocabulary of V tokens; None where no step needs them."""

    tokens: np.ndarray | None = None  # (T,) the whole text: a random position samples a token by its frequency
    frequencies: np.ndarray | None = None  # (V,) of each token
    cooccurrence: "sparse.csr_array | None" = None  # (V, V) how often two tokens occur near each other


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a corruption: a pure function of (tokens, seed, epoch, index)."""

    writes: ClassVar[frozenset[str]] = frozenset()  # fields of Batch that it fills, besides the source side
    needs_counts: ClassVar[frozenset[str]] = frozenset()  # fields of Counts that `prepared` reads
    needs_details: ClassVar[frozenset[str]] = frozenset()  # of the text, stored beside the tokens: fields of TokenStore

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_fields(cls, "writes", cls.writes, Batch)
        check_fields(cls, "needs_counts", cls.needs_counts, Counts)
        check_fields(cls, "needs_details", cls.needs_details, TokenStore)

    def prepared(self, counts: Counts) -> "Step":
        """The step with the counts it needs; called once, before any row is made."""
        return self

    def for_validation(self) -> "Step":
        """The step used on held-out text."""
        return self

    def lacks(self, store: TokenStore, documents: np.ndarray, length: int) -> str | None:
        """Why nothing can be learned by it from this text in rows of this length, if so: its task is then left out."""
        return None

    @property
    def classes(self) -> Mapping[str, int]:
        """How many classes the labels have that it writes, by field; fields that are left out have two or none."""
        return {}

    @property
    def segmenter(self) -> AnySegmenter | None:
        """Finds the units of the text; None: the tokens themselves show where words begin."""
        return None

    @property
    def level(self) -> str:
        """The largest units that the segmenter must find."""
        return "word"

    @property
    def levels_used(self) -> tuple[str, ...]:
        """The units that are masked, from small to large."""
        return (self.level,)

    @property
    def reuse(self) -> float | None:
        """The share of a row that the next row may attend to in recurrent memory; None: the step does not use it."""
        return None


class Arrangement(Step, ABC, Generic[AnyPlan]):
    """Documents → rows: which stretches of text form a row."""

    segments: ClassVar[int] = 1  # number of segment ids in its rows
    texts: ClassVar[int] = 1  # texts per row, separated as the tokenizer's family separates a pair
    needs: ClassVar[tuple[str, ...]] = ROLES  # special tokens of the vocabulary
    in_streams: ClassVar[bool] = False  # rows are cut from one long stream of text, which must fill at least one row
    sentence_task: ClassVar[str | None] = None  # the task that its rows are for, as in `sentence_task=sop`
    continues: ClassVar[bool] = False  # each row continues the same row of the previous batch
    pairs: ClassVar[bool] = False  # documents are pairs of a source and a target
    images: ClassVar[bool] = False  # documents are images with their captions
    describes: ClassVar[bool] = False  # each caption is generated from its image
    queries: ClassVar[bool] = False  # documents are search queries with their titles
    triples: ClassVar[bool] = False  # documents are triples of a head, a relation and a tail

    @property
    def segments_used(self) -> int:
        """Number of segment ids in its rows with these settings."""
        return self.segments

    @property
    def asks_heads(self) -> bool:
        """Whether the head of a triple is to be predicted, and not only its tail."""
        return False

    def in_one_segment(self) -> Self:
        """The same for a network with one segment, if it can do with one."""
        return self

    @abstractmethod
    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> AnyPlan:
        """The rows of one epoch, of at most `length` tokens each."""

    @abstractmethod
    def fill(self, store: TokenStore, plan: AnyPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
        """The chosen rows of a plan, filled with tokens."""

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Refuse a corpus from which no rows can be made; by default any text will do."""

    def notes(self, store: TokenStore, documents: np.ndarray, length: int) -> Iterator[str]:
        """What the user should know about rows of this length."""
        return iter(())


class StretchArrangement(Arrangement[StretchPlan]):
    """Rows of `[CLS] first [SEP] second [SEP] ...`."""

    def fill(
        self, store: TokenStore, plan: StretchPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int
    ) -> Rows:
        return fill(store, plan, chosen, vocabulary, length)


class Masking(Step, ABC):
    """Rows → rows in which some tokens are to be predicted."""

    @abstractmethod
    def __call__(self, rows: Rows, vocabulary: Vocabulary, draws: Draws) -> Rows:
        """The rows with their targets, at least one per row."""

    def mask_epoch(self, epoch: int) -> int:
        """The epoch whose random numbers are used: static masking cycles through a few."""
        return epoch


class Labelling(Masking):
    """A masking that masks nothing: rows → rows with a label for some of their tokens."""
