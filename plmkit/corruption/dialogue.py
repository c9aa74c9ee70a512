"""Turns of a dialogue, one of them perhaps from another."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError

QUESTION, ANSWER = 0, 1  # who asks and who answers, where other arrangements number the segments
Utterance = tuple[int, int, int]  # begin, end, role


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """Three utterances of a dialogue; in half of the rows one is from another dialogue (Sun et al., 2019, 3.3)."""

    fake: float = 0.5  # share of the rows with a foreign utterance
    segments: ClassVar = 2
    writes: ClassVar = frozenset({"real"})

    def __post_init__(self) -> None:
        if not 0 <= self.fake <= 1:
            raise SettingError(f"corruption.fake is a share of the rows, from 0 to 1; found {self.fake}.")

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Two dialogues to choose from, and one of two turns."""
        turns = np.concatenate([[0], np.cumsum(turn_starts(store))])
        counts = (turns[store.documents[1:]] - turns[store.documents[:-1]])[documents]
        if len(documents) < 2 or counts.max() < 2:
            raise InputError(
                f"{where}: dialogues need two documents or more with two turns or more; found {len(documents):,} "
                f"with at most {counts.max(initial=0)}.\n"
                "Put each turn on a line of its own, and a blank line between dialogues (run.layout=blank-lines)."
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        rows = DialogueRows(store, documents, length, self.fake, rng)
        for document in documents.tolist():
            rows.add(document)
        return Plan(
            stretches=np.frombuffer(rows.stretches, dtype=np.int64).reshape(-1, 6),
            segments=np.frombuffer(rows.roles, dtype=np.int8).reshape(-1, 3),
            follows=np.frombuffer(rows.fakes, dtype=np.int8).astype(np.int64),
        )


def turn_starts(store: TokenStore) -> np.ndarray:
    """(S,) True where a turn begins: at each line, or, where lines are not known, at each sentence."""
    if store.lines is None:
        return np.ones(len(store.sentences) - 1, dtype=bool)
    return np.asarray(store.lines)


class DialogueRows:
    """Speakers take turns: QRQ is three turns, QRR and QQR are two, of which one is cut between two sentences."""

    def __init__(
        self, store: TokenStore, documents: np.ndarray, length: int, fake: float, rng: np.random.Generator
    ) -> None:  # fmt: skip
        self.borders = np.asarray(store.sentences)
        self.documents = np.asarray(store.documents)
        self.turns = turn_starts(store)
        self.choices = documents
        self.room = length - 4  # [CLS] and a [SEP] behind each of three
        self.fake = fake
        self.rng = rng
        self.numbers: list[float] = []
        self.stretches, self.roles, self.fakes = array("q"), array("b"), array("b")

    def below(self, limit: int) -> int:
        return int(self.random() * limit)

    def random(self) -> float:
        if not self.numbers:
            self.numbers = self.rng.random(1024).tolist()
        return self.numbers.pop()

    def turns_of(self, document: int) -> list[list[int]]:
        """The sentence borders of each turn."""
        first, last = int(self.documents[document]), int(self.documents[document + 1])
        borders = self.borders[first : last + 1].tolist()
        begins = [0, *(np.flatnonzero(self.turns[first + 1 : last]) + 1).tolist(), last - first]
        return [borders[begin : end + 1] for begin, end in zip(begins, begins[1:], strict=False)]

    def add(self, document: int) -> None:
        turns = self.turns_of(document)
        at = 0
        while len(turns) - at > 2:
            utterances, used = self.choose(turns[at : at + 3])
            self.keep(document, utterances)
            at += used
        if at < len(turns) > 2:
            self.keep(document, alternating(turns[-3:]))  # the last turns, with one or two that were seen
        elif len(turns) == 2:
            self.keep(document, self.choose(turns)[0])

    def choose(self, turns: Sequence[list[int]]) -> tuple[list[Utterance], int]:
        """One of the patterns that these turns allow, and how many turns it uses."""
        first, second, *third = turns
        patterns = [(alternating(turns), 3)] if third else []
        if len(second) > 2:
            patterns.append(([whole(first, QUESTION), *self.halves(second, ANSWER)], 2))
        if len(first) > 2:
            patterns.append(([*self.halves(first, QUESTION), whole(second, ANSWER)], 2))
        return patterns[self.below(len(patterns))] if patterns else (alternating(turns), 2)

    def halves(self, turn: list[int], role: int) -> list[Utterance]:
        middle = turn[1 + self.below(len(turn) - 2)]
        return [(turn[0], middle, role), (middle, turn[-1], role)]

    def keep(self, document: int, utterances: list[Utterance]) -> None:
        fake = self.random() < self.fake
        if fake:
            place = self.below(len(utterances))
            utterances[place] = (*self.elsewhere(document), utterances[place][2])
        sizes = shortened([end - begin for begin, end, _ in utterances], self.room)
        for (begin, _, role), size in zip(utterances, sizes, strict=True):
            self.stretches.extend((begin, begin + size))
            self.roles.append(role)
        if len(utterances) < 3:  # a dialogue of two short turns
            self.stretches.extend((0, 0))
            self.roles.append(QUESTION)
        self.fakes.append(fake)

    def elsewhere(self, document: int) -> tuple[int, int]:
        """A turn of another dialogue; ten tries to avoid this one."""
        other = document
        for _ in range(10):
            other = int(self.choices[self.below(len(self.choices))])
            if other != document:
                break
        turns = self.turns_of(other)
        chosen = turns[self.below(len(turns))]
        return chosen[0], chosen[-1]


def alternating(turns: Sequence[list[int]]) -> list[Utterance]:
    return [whole(turn, (QUESTION, ANSWER)[number % 2]) for number, turn in enumerate(turns)]


def whole(turn: list[int], role: int) -> Utterance:
    return turn[0], turn[-1], role


def shortened(sizes: list[int], room: int) -> list[int]:
    """The sizes when the longest loses one at a time until all fit; the shortest get their part first."""
    out = list(sizes)
    for many, place in zip(range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True):
        out[place] = min(sizes[place], room // many)
        room -= out[place]
    return out
