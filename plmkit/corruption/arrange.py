"""Arranging documents into rows: which stretches of text stand together."""

from array import array
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError


@dataclass(frozen=True, kw_only=True)
class SentencePairs:
    """Two stretches of text, the second from another document half of the time (Devlin et al., 2018, A.2)."""

    short: float = 0.1  # share of documents cut to a random length, so that short inputs are seen too
    specials: ClassVar = 3  # [CLS] first [SEP] second [SEP]
    writes: ClassVar = frozenset({"follows"})

    def __post_init__(self) -> None:
        if not 0 <= self.short <= 1:
            raise SettingError(f"corruption.short is a share of the documents, from 0 to 1; found {self.short}.")

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Pairs need two documents to choose from, and one document of two sentences."""
        counts = np.diff(store.documents)[documents]
        if len(documents) < 2:
            raise InputError(
                f"{where}: the corpus has {len(documents)} document to train on, and pairs need two or more.\n"
                "Put a blank line between documents, or set run.layout=document-per-line."
            )
        if counts.max() < 2:
            raise InputError(
                f"{where}: none of the {len(documents):,} documents has two sentences, so none follows another.\n"
                "Put one document's sentences on lines of their own with blank lines only between documents."
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        room = length - self.specials
        short = rng.random(len(documents)) < self.short
        targets = np.where(short, rng.integers(2, room + 1, size=len(documents)), room)
        examples = DocumentPairs(store, documents, room, rng)
        for document, target in zip(documents.tolist(), targets.tolist(), strict=True):
            examples.add(document, target)
        return Plan(
            stretches=np.frombuffer(examples.stretches, dtype=np.int64).reshape(-1, 4),
            follows=np.frombuffer(examples.follows, dtype=np.int8).astype(np.int64),
        )


class DocumentPairs:
    """The pair construction of google-research/bert on sentence borders alone; no token is read or copied."""

    def __init__(self, store: TokenStore, documents: np.ndarray, room: int, rng: np.random.Generator) -> None:
        self.borders = store.sentences  # token where each sentence begins, and the end
        self.documents = store.documents  # sentence where each document begins, and the end
        self.choices = documents  # a random second text comes from one of these
        self.room = room
        self.rng = rng
        self.numbers: list[float] = []
        self.stretches = array("q")  # four numbers an example: a tenth of the memory of a list of tuples
        self.follows = array("b")

    def random(self) -> float:
        """One number in [0, 1); drawn a thousand at a time, which is thirty times faster."""
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
            begin_a, end_a = borders[start], borders[middle]
            if end - start == 1 or self.random() < 0.5:
                begin_b, end_b = self.elsewhere(document, target - (end_a - begin_a))
                self.keep(begin_a, end_a, begin_b, end_b, follows=1)
                start = middle  # what was not used goes back into the stream
            else:
                self.keep(begin_a, end_a, end_a, borders[end], follows=0)
                start = end

    def elsewhere(self, document: int, wanted: int) -> tuple[int, int]:
        """Sentences of another document from a random one on, until `wanted` tokens; ten tries to avoid this one."""
        other = document
        for _ in range(10):
            other = int(self.choices[self.below(len(self.choices))])
            if other != document:
                break
        first, last = int(self.documents[other]), int(self.documents[other + 1])
        sentence = first + self.below(last - first)
        begin = int(self.borders[sentence])
        end = int(self.borders[sentence + 1])
        while sentence + 1 < last and end - begin < wanted:
            sentence += 1
            end = int(self.borders[sentence + 1])
        return begin, end

    def keep(self, begin_a: int, end_a: int, begin_b: int, end_b: int, follows: int) -> None:
        cut_a, cut_b = cuts(end_a - begin_a, end_b - begin_b, self.room)
        front_a, front_b = self.heads(cut_a), self.heads(cut_b)
        self.stretches.extend((begin_a + front_a, end_a - cut_a + front_a, begin_b + front_b, end_b - cut_b + front_b))
        self.follows.append(follows)

    def heads(self, tosses: int) -> int:
        """How many of the tokens to cut go from the front: one coin each."""
        return int(self.rng.binomial(tosses, 0.5)) if tosses else 0


def cuts(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens each stretch loses when the longer one (the second if equal) loses one at a time."""
    excess = max(0, first + second - room)
    uneven = min(excess, abs(first - second))
    rest = excess - uneven
    cut_first, cut_second = rest // 2, rest - rest // 2
    return (cut_first + uneven, cut_second) if first > second else (cut_first, cut_second + uneven)
