"""Rows of three dialogue turns, some with a turn from another dialogue; and dialogues mixed with plain text."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.contract import StretchArrangement
from plmkit.data.batch import IGNORE
from plmkit.data.rows import StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError
from plmkit.language import tr

QUESTION, ANSWER = 0, 1  # roles of the speakers, used as segment ids
Utterance = tuple[int, int, int]  # begin, end, role


@dataclass(frozen=True, kw_only=True)
class Dialogue(StretchArrangement):
    """Three utterances of a dialogue; in half of the rows one is from another dialogue (Sun et al., 2019, 3.3)."""

    fake: float = 0.5  # share of the rows with an utterance from another dialogue
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 3
    writes: ClassVar[frozenset[str]] = frozenset({"mixed_dialogue"})

    def __post_init__(self) -> None:
        if not 0 <= self.fake <= 1:
            raise SettingError(
                tr("corruption.fake must be a share of the rows, from 0 to 1; found {fake}.", fake=self.fake)
            )

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """At least two dialogues, one of them with two turns."""
        counts = np.diff(Turns(store).documents)[documents]
        if len(documents) < 2 or counts.max() < 2:
            raise InputError(
                tr(
                    "{where}: dialogues need at least two documents with at least two turns each; found "
                    "{documents_count:,} with at most {max}.\n"
                    "Put each turn on its own line, and a blank line between dialogues "
                    "(run.layout=blank-lines).",
                    where=where,
                    documents_count=len(documents),
                    max=counts.max(initial=0),
                )
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        turns = Turns(store)
        rows = DialogueRows(turns, rng)
        for document in documents.tolist():
            rows.add(document)
        stretches = np.array(rows.stretches, dtype=np.int64).reshape(-1, 3, 2)
        fake = rng.random(len(stretches)) < self.fake
        replace_one(stretches, np.flatnonzero(fake), np.array(rows.owners, dtype=np.int64), turns, documents, rng)
        sizes = stretches[:, :, 1] - stretches[:, :, 0]
        stretches[:, :, 1] = stretches[:, :, 0] + shortened(sizes, length - 4)  # [CLS] and three [SEP]
        return StretchPlan(
            stretches=stretches.reshape(-1, 6),
            segments=np.array(rows.roles, dtype=np.int8).reshape(-1, 3),
            labels={"mixed_dialogue": fake.astype(np.int64)},
        )


class Turns:
    """Where turns begin: at each line or, if lines are not recorded, at each sentence."""

    def __init__(self, store: TokenStore) -> None:
        count = len(store.sentences) - 1
        begins = np.arange(count) if store.lines is None else np.flatnonzero(store.lines)
        self.sentences = np.append(begins, count)  # sentence where each turn begins, and the end
        self.documents = np.searchsorted(begins, store.documents)  # turn where each document begins, and the end
        self.borders = np.asarray(store.sentences)


class DialogueRows:
    """Speakers alternate: QRQ is three turns, QRR and QQR are two, one of them split between two sentences."""

    def __init__(self, turns: Turns, rng: np.random.Generator) -> None:
        self.turns = turns
        self.rng = rng
        self.numbers: list[float] = []
        self.stretches, self.roles, self.owners = array("q"), array("b"), array("q")

    def below(self, limit: int) -> int:
        if not self.numbers:
            self.numbers = self.rng.random(1024).tolist()
        return int(self.numbers.pop() * limit)

    def turns_of(self, document: int) -> list[list[int]]:
        """The sentence borders of each turn."""
        first, last = int(self.turns.documents[document]), int(self.turns.documents[document + 1])
        begins = self.turns.sentences[first : last + 1].tolist()
        borders = self.turns.borders[begins[0] : begins[-1] + 1].tolist()
        return [borders[begin - begins[0] : end - begins[0] + 1] for begin, end in pairwise(begins)]

    def add(self, document: int) -> None:
        turns = self.turns_of(document)
        at = 0
        while len(turns) - at > 2:
            utterances, used = self.choose(turns[at : at + 3])
            self.keep(document, utterances)
            at += used
        if at < len(turns) > 2:
            self.keep(document, alternating(turns[-3:]))  # the last turns, overlapping with the row before
        elif len(turns) == 2:
            self.keep(document, self.choose(turns)[0])

    def choose(self, turns: Sequence[list[int]]) -> tuple[list[Utterance], int]:
        """One of the patterns that these turns allow, and the number of turns it uses."""
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
        while len(utterances) < 3:
            utterances.append((0, 0, QUESTION))  # a dialogue of two short turns: the third is empty
        for begin, end, role in utterances:
            self.stretches.extend((begin, end))
            self.roles.append(role)
        self.owners.append(document)


def alternating(turns: Sequence[list[int]]) -> list[Utterance]:
    return [whole(turn, (QUESTION, ANSWER)[number % 2]) for number, turn in enumerate(turns)]


def whole(turn: list[int], role: int) -> Utterance:
    return turn[0], turn[-1], role


def replace_one(
    stretches: np.ndarray, rows: np.ndarray, owners: np.ndarray, turns: Turns, documents: np.ndarray,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Replace one turn of each of these rows by a turn of another dialogue; up to ten draws to find another one."""
    others = owners[rows]
    for _ in range(10):
        again = others == owners[rows]
        others[again] = rng.choice(documents, int(again.sum()))
    first, last = turns.documents[others], turns.documents[others + 1]
    turn = first + (rng.random(len(rows)) * (last - first)).astype(np.int64)
    filled = (stretches[rows, :, 1] > stretches[rows, :, 0]).sum(axis=1)
    place = (rng.random(len(rows)) * filled).astype(np.int64)
    stretches[rows, place, 0] = turns.borders[turns.sentences[turn]]
    stretches[rows, place, 1] = turns.borders[turns.sentences[turn + 1]]


def shortened(sizes: np.ndarray, room: int) -> np.ndarray:
    """(N, 3) sizes after cutting the longest of each row, one token at a time, until all fit."""
    out = np.zeros_like(sizes)
    left = np.full(len(sizes), room)
    order = np.argsort(sizes, axis=1, kind="stable")
    for column in range(sizes.shape[1]):
        place = order[:, column]
        taken = np.minimum(sizes[np.arange(len(sizes)), place], left // (sizes.shape[1] - column))
        out[np.arange(len(sizes)), place] = taken
        left -= taken
    return out


@dataclass(frozen=True, kw_only=True)
class DialogueAndText(StretchArrangement):
    """Dialogues, some with an utterance of another, mixed with unlabelled plain text (Sun et al., 2019, 3.3)."""

    dialogues: tuple[int, ...] = (1,)  # the corpora that hold dialogues, numbered from 1 in the order given
    share: float = 0.5  # share of the rows that are dialogues; surplus rows of either kind wait for another epoch
    fake: float = 0.5  # share of the dialogues with an utterance from another one
    segments: ClassVar[int] = 2
    texts: ClassVar[int] = 3
    writes: ClassVar[frozenset[str]] = frozenset({"mixed_dialogue"})

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(
                tr("corruption.share must be the share of dialogues, between 0 and 1; found {share}.", share=self.share)
            )
        if not self.dialogues or min(self.dialogues) < 1:
            raise SettingError(
                tr(
                    "corruption.dialogues must list corpora by number, from 1 in the order given; found {dialogues}.",
                    dialogues=list(self.dialogues),
                )
            )
        self.dialogue()

    def dialogue(self) -> Dialogue:
        return Dialogue(fake=self.fake)

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Some corpora must be dialogues, the others plain text."""
        talk, text = self.parted(store, documents)
        if not len(talk) or not len(text):
            found = tr("no plain text") if len(talk) else tr("no dialogue")
            raise InputError(
                tr(
                    "{where}: found {found} among the {max} corpora with corruption.dialogues={dialogues}.\n"
                    "Give dialogues and plain text as separate corpora, and list those that are dialogues: "
                    "corruption.dialogues=[2] means the second.",
                    where=where,
                    found=found,
                    max=int(store.sources.max()) + 1,
                    dialogues=list(self.dialogues),
                )
            )
        self.dialogue().check(store, talk, where)

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> StretchPlan:
        talk, text = self.parted(store, documents)
        plans = [self.dialogue().plan(store, talk, length, rng)] if len(talk) else []
        plans += [as_dialogue(SingleSegment().plan(store, text, length, rng))] if len(text) else []
        if len(plans) == 2:  # held-out text may have only one of the two
            chosen = self.shared(len(plans[0]), len(plans[1]), rng)
            plans = [plan.only(rows) for plan, rows in zip(plans, chosen, strict=True)]
        return joined(plans)

    def parted(self, store: TokenStore, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spoken = np.isin(store.sources[documents] + 1, self.dialogues)
        return documents[spoken], documents[~spoken]

    def shared(self, talk: int, text: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Which rows of each kind this epoch uses to keep the share of dialogues: all of the scarcer kind."""
        kept = min(talk, round(text * self.share / (1 - self.share))), min(text, round(talk * (1 / self.share - 1)))
        return [np.sort(rng.permutation(count)[: max(1, many)]) for count, many in zip((talk, text), kept, strict=True)]


def as_dialogue(plan: StretchPlan) -> StretchPlan:
    """Single texts as rows of three stretches, two of them empty, unlabelled."""
    rows = len(plan)
    stretches = np.zeros((rows, 6), dtype=np.int64)
    stretches[:, :2] = plan.stretches
    segments = np.full((rows, 3), QUESTION, dtype=np.int8)
    return StretchPlan(stretches=stretches, segments=segments, labels={"mixed_dialogue": np.full(rows, IGNORE)})


def joined(plans: list[StretchPlan]) -> StretchPlan:
    parts = [(plan.stretches, plan.segments, plan.labels["mixed_dialogue"]) for plan in plans]
    stretches, segments, mixed = (np.concatenate(part) for part in zip(*parts, strict=True))
    return StretchPlan(stretches=stretches, segments=segments, labels={"mixed_dialogue": mixed})
