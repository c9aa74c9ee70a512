"""What every step of a corruption has: an arrangement makes rows of documents, maskings choose what is predicted."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from plmkit.data.batch import Batch, check_fields
from plmkit.data.randomness import Draws
from plmkit.data.rows import Plan, Rows, StretchPlan, fill
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import ROLES, Vocabulary
from plmkit.segmentation.choosing import AnySegmenter

if TYPE_CHECKING:
    from scipy import sparse  # a twentieth of a second, which only counting needs

AnyPlan = TypeVar("AnyPlan", bound=Plan)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a step may need to know of the text that is trained on; None where no step does. V tokens are known."""

    tokens: np.ndarray | None = None  # (T,) all of them: the token at a random place comes as often as it occurs
    frequencies: np.ndarray | None = None  # (V,) how often each occurs
    cooccurrence: "sparse.csr_array | None" = None  # (V, V) how often each stands near each other


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a corruption: a pure function of (tokens, seed, epoch, index)."""

    writes: ClassVar[frozenset[str]] = frozenset()  # fields of Batch that it fills, besides the source side
    needs_counts: ClassVar[frozenset[str]] = frozenset()  # fields of Counts that `prepared` reads

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_fields(cls, "writes", cls.writes, Batch)
        check_fields(cls, "needs_counts", cls.needs_counts, Counts)

    def prepared(self, counts: Counts) -> "Step":
        """The step with what it needs of the counts; called once, before any row is made."""
        return self

    def for_validation(self) -> "Step":
        """The step to use on held-out text."""
        return self

    @property
    def segmenter(self) -> AnySegmenter | None:
        """What finds the units of the text; None: the tokens themselves show where words begin."""
        return None

    @property
    def level(self) -> str:
        """The largest units that are needed of a segmenter."""
        return "word"

    @property
    def levels_used(self) -> tuple[str, ...]:
        """The units that are masked, from small to large."""
        return (self.level,)

    @property
    def reuse(self) -> float | None:
        """The share of a row that the next row may read in its recurrent memory; None: it does not matter here."""
        return None


class Arrangement(Step, ABC, Generic[AnyPlan]):
    """Documents → rows: which stretches of text stand together."""

    segments: ClassVar[int] = 1  # number of segment ids in its rows
    texts: ClassVar[int] = 1  # texts of a row that are separated as the tokenizer's family separates two texts
    needs: ClassVar[tuple[str, ...]] = ROLES  # special tokens of the vocabulary
    in_streams: ClassVar[bool] = False  # a row is a part of one long stream of text, which must fill one row
    sentence_task: ClassVar[str | None] = None  # the name of the task that its rows are for, as in `sentence_task=sop`
    continues: ClassVar[bool] = False  # each row of a batch continues the same row of the batch before

    @abstractmethod
    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> AnyPlan:
        """One epoch's rows of at most `length` tokens."""

    @abstractmethod
    def fill(self, store: TokenStore, plan: AnyPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
        """The chosen rows of a plan, with their tokens."""

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Refuse a corpus that gives no such rows; by default any text does."""


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
        """The rows with their targets; at least one in each."""

    def mask_epoch(self, epoch: int) -> int:
        """The epoch whose random numbers are drawn: a static masking repeats a few."""
        return epoch
