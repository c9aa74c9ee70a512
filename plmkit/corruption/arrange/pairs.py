"""Pairs of texts: the second follows the first, comes from elsewhere, or precedes it."""

from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import StretchArrangement
from plmkit.data.rows import StretchPlan, cuts
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

BUFFER = 1000  # pairs among which second texts are exchanged


@dataclass(frozen=True, kw_only=True)
class TextPairs(StretchArrangement):
    """Settings of all pairs."""

    short: float = 0.1  # share of documents cut to a random length, to train on short inputs too
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not 0 <= self.short <= 1:
            raise SettingError(
                tr("corruption.short must be a share of the documents, from 0 to 1; found {short}.", short=self.short)
            )


@dataclass(frozen=True, kw_only=True)
class SentencePairs(TextPairs):
    """Two stretches of text, the second from another document half of the time (Devlin et al., 2018, A.2)."""

    writes: ClassVar[frozenset[str]] = frozenset({"random_next"})
    sentence_task: ClassVar[str | None] = "nsp"

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Pairs need at least two documents, one of them with two sentences."""
        if len(documents) < 2:
            held = len(store.documents) - 1 - len(documents)
            apart = tr(" and 1 held out (run.valid_share=0 holds none out)") if held else ""
            by_line = tr(" treat each line as a document (run.layout=document-per-line),") if lines_suit(store) else ""
            raise InputError(
                tr(
                    "{where}: the corpus has {documents_count} document to train on{apart}, but pairs need at "
                    "least two.\n"
                    "Give at least three documents (in plain text, with blank lines between them),{by_line} or train "
                    "without pairs: --set sentence_task=none.",
                    where=where,
                    documents_count=len(documents),
                    apart=apart,
                    by_line=by_line,
                )
            )
        check_sentences(
            store, documents, where, tr("no sentence follows another"), tr("treat each file, if there are several,")
        )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        return plan_pairs(NextPairs(store, documents, length, rng), documents, self.short, "random_next")


@dataclass(frozen=True, kw_only=True)
class OrderedPairs(TextPairs):
    """Two consecutive stretches of text, swapped half of the time (Lan et al., 2019, 3.1)."""

    writes: ClassVar[frozenset[str]] = frozenset({"swapped_order"})
    sentence_task: ClassVar[str | None] = "sop"

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        check_sentences(store, documents, where, tr("there is no order to learn"), tr("treat a whole file"))

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        return plan_pairs(SwappedPairs(store, documents, length, rng), documents, self.short, "swapped_order")


@dataclass(frozen=True, kw_only=True)
class MixedPairs(SentencePairs):
    """Consecutive stretches, and as many pairs of a first text with the second of another pair.

    As in ERNIE's released code (Sun et al., 2019; PaddlePaddle/ERNIE).
    """

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        pairs = FollowingPairs(store, documents, length, rng)
        return with_mixed(plan_pairs(pairs, documents, self.short, "random_next"), pairs.room, rng)


def lines_suit(store: TokenStore) -> bool:
    """Whether lines could be documents: two and one to hold out, some with two sentences."""
    return store.lines is not None and int(store.lines.sum()) > 2 and not store.lines.all()


def check_sentences(store: TokenStore, documents: np.ndarray, where: str, so: str, take: str) -> None:
    if np.diff(store.documents)[documents].max() < 2:
        raise InputError(
            tr(
                "{where}: none of the {documents_count:,} documents has two sentences, so {so}. The first begins "
                "here.\n"
                "Train without pairs: --set sentence_task=none. Or, in plain text, put each sentence on its own line, "
                "with blank lines only between documents (run.layout=blank-lines), or {take} as one document "
                "(run.layout=document-per-file).",
                where=where,
                documents_count=len(documents),
                so=so,
                take=take,
            )
        )


def plan_pairs(examples: "DocumentPairs", documents: np.ndarray, share: float, label: str) -> StretchPlan:
    """The pairs of all documents; `label` is the batch field that marks changed ones."""
    short = examples.rng.random(len(documents)) < share
    targets = np.where(short, examples.rng.integers(2, examples.room + 1, size=len(documents)), examples.room)
    for document, target in zip(documents.tolist(), targets.tolist(), strict=True):
        examples.add(document, target)
    return StretchPlan(
        stretches=np.frombuffer(examples.stretches, dtype=np.int64).reshape(-1, 4),
        labels={label: np.frombuffer(examples.changed, dtype=np.int8).astype(np.int64)},
    )


class DocumentPairs(ABC):
    """The pair construction of google-research/bert on sentence borders alone; no token is read or copied."""

    def __init__(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> None:
        self.borders = store.sentences  # token where each sentence begins, and the end
        self.documents = store.documents  # sentence where each document begins, and the end
        self.choices = documents  # random second texts come from these
        self.room = length - 3  # [CLS] first [SEP] second [SEP]
        self.rng = rng
        self.numbers: list[float] = []
        self.stretches = array("q")  # four numbers per example, in a tenth of the memory of a list of tuples
        self.changed = array("b")  # 1 where the text does not have the pair in this form

    def random(self) -> float:
        """A number in [0, 1); drawn by the thousand, which is thirty times faster."""
        if not self.numbers:
            self.numbers = self.rng.random(1024).tolist()
        return self.numbers.pop()

    def below(self, limit: int) -> int:
        return int(self.random() * limit)

    def add(self, document: int, target: int) -> None:
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders = self.borders[first : last + 1].tolist()
        count = last - first
        start = 0
        while start < count:
            end = start + 1
            while end < count and borders[end] - borders[start] < target:
                end += 1
            middle = start + 1 + (self.below(end - start - 1) if end - start > 2 else 0)
            cut = borders[start], borders[middle], borders[end]
            alone = end - start == 1  # nothing of this document follows it
            start = middle if self.pair(document, *cut, alone, target) else end

    @abstractmethod
    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        """Keep one example of a chunk; True if its second part was not used and returns to the stream."""

    def pair_elsewhere(self, document: int, begin: int, end: int, target: int) -> bool:
        other = self.elsewhere(document, target - (end - begin))
        self.keep(self.cut(begin, end, *other), changed=1)
        return True

    def elsewhere(self, document: int, needed: int) -> tuple[int, int]:
        """`needed` tokens of another document, from a random sentence on; up to ten draws to avoid this document."""
        other = document
        for _ in range(10):
            other = int(self.choices[self.below(len(self.choices))])
            if other != document:
                break
        first, last = int(self.documents[other]), int(self.documents[other + 1])
        sentence = first + self.below(last - first)
        begin = int(self.borders[sentence])
        end = int(self.borders[sentence + 1])
        while sentence + 1 < last and end - begin < needed:
            sentence += 1
            end = int(self.borders[sentence + 1])
        return begin, end

    def cut(self, begin_a: int, end_a: int, begin_b: int, end_b: int) -> tuple[int, int, int, int]:
        """Both stretches cut until they fit the row."""
        cut_a, cut_b = cuts(end_a - begin_a, end_b - begin_b, self.room)
        front_a, front_b = self.heads(cut_a), self.heads(cut_b)
        return begin_a + front_a, end_a - cut_a + front_a, begin_b + front_b, end_b - cut_b + front_b

    def keep(self, stretches: tuple[int, int, int, int], changed: int) -> None:
        self.stretches.extend(stretches)
        self.changed.append(changed)

    def heads(self, tosses: int) -> int:
        """How many of the tokens to cut are cut from the front: one coin flip each."""
        return int(self.rng.binomial(tosses, 0.5)) if tosses else 0


class NextPairs(DocumentPairs):
    """The second text follows the first, or comes from another document."""

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        if alone or self.random() < 0.5:
            return self.pair_elsewhere(document, begin, middle, target)
        self.keep(self.cut(begin, middle, middle, end), changed=0)
        return False


class SwappedPairs(DocumentPairs):
    """The second text follows the first, or precedes it; a lone sentence is paired as in BERT."""

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        if alone:
            return self.pair_elsewhere(document, begin, middle, target)
        begin_a, end_a, begin_b, end_b = self.cut(begin, middle, middle, end)
        if self.random() < 0.5:  # swapped after the cut, so that both orders have the same tokens
            self.keep((begin_b, end_b, begin_a, end_a), changed=1)
        else:
            self.keep((begin_a, end_a, begin_b, end_b), changed=0)
        return False


class FollowingPairs(DocumentPairs):
    """The second text always follows the first; a lone sentence makes no pair."""

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        if not alone:
            self.keep(self.cut(begin, middle, middle, end), changed=0)
        return False


def with_mixed(plan: StretchPlan, room: int, rng: np.random.Generator) -> StretchPlan:
    """The pairs, and the mixed ones that fit a row: the released code skips those that are too long."""
    mixed = [
        np.hstack([plan.stretches[mine, :2], plan.stretches[np.roll(mine, -1), 2:]])
        for start in range(0, len(plan), BUFFER)
        if len(mine := start + rng.permutation(min(BUFFER, len(plan) - start))) > 1
    ]
    wrong = np.concatenate([plan.stretches[:0], *mixed])
    wrong = wrong[(wrong[:, 1::2] - wrong[:, ::2]).sum(axis=1) <= room]
    changed = np.repeat([0, 1], [len(plan), len(wrong)])
    return StretchPlan(stretches=np.concatenate([plan.stretches, wrong]), labels={"random_next": changed})
