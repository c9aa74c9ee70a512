"""Dialogues and plain text in turns."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from plmkit.corruption.arrange.dialogue import QUESTION, Dialogue
from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.data.batch import IGNORE
from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore
from plmkit.errors import InputError, SettingError


@dataclass(frozen=True, kw_only=True)
class DialogueAndText:
    """Rows of dialogue, judged real or not, in turns with rows of plain text, which are not (Sun et al., 2019, 3.3)."""

    dialogues: tuple[int, ...] = (1,)  # which of the corpora hold dialogues, counted from 1 in the order given
    share: float = 0.5  # of the rows are dialogues; of the kind that there is more of, some wait for another epoch
    fake: float = 0.5  # share of the dialogues with a foreign utterance
    segments: ClassVar = 2
    texts: ClassVar = 3
    writes: ClassVar = frozenset({"real"})

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(f"corruption.share is the share of dialogues, between 0 and 1; found {self.share}.")
        if not self.dialogues or min(self.dialogues) < 1:
            raise SettingError(
                f"corruption.dialogues numbers corpora from 1, in the order given; found {list(self.dialogues)}."
            )
        self.dialogue()

    def dialogue(self) -> Dialogue:
        return Dialogue(fake=self.fake)

    def for_validation(self) -> Self:
        return self

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        """Some corpora are dialogues, the others are not."""
        talk, text = self.parted(store, documents)
        if not len(talk) or not len(text):
            found = "no plain text" if len(talk) else "no dialogue"
            raise InputError(
                f"{where}: there is {found} among the {int(store.sources.max()) + 1} corpora, for "
                f"corruption.dialogues={list(self.dialogues)}.\nGive dialogues and plain text as separate corpora, and "
                "name those that are dialogues: corruption.dialogues=[2] means the second."
            )
        self.dialogue().check(store, talk, where)

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        talk, text = self.parted(store, documents)
        plans = [self.dialogue().plan(store, talk, length, rng)] if len(talk) else []
        plans += [as_dialogue(SingleSegment().plan(store, text, length, rng))] if len(text) else []
        if len(plans) == 2:  # held-out text may be of one kind alone
            chosen = self.shared(len(plans[0]), len(plans[1]), rng)
            plans = [plan.only(rows) for plan, rows in zip(plans, chosen, strict=True)]
        return joined(plans)

    def parted(self, store: TokenStore, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        spoken = np.isin(store.sources[documents] + 1, self.dialogues)
        return documents[spoken], documents[~spoken]

    def shared(self, talk: int, text: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Which rows of each are read in this epoch, so that dialogues have their share: all of the scarcer kind."""
        kept = min(talk, round(text * self.share / (1 - self.share))), min(text, round(talk * (1 / self.share - 1)))
        return [np.sort(rng.permutation(count)[: max(1, many)]) for count, many in zip((talk, text), kept, strict=True)]


def as_dialogue(plan: Plan) -> Plan:
    """Single texts as rows of three stretches, two of them empty, of which nothing is asked."""
    rows = len(plan)
    stretches = np.zeros((rows, 6), dtype=np.int64)
    stretches[:, :2] = plan.stretches
    segments = np.full((rows, 3), QUESTION, dtype=np.int8)
    return Plan(stretches=stretches, segments=segments, follows=np.full(rows, IGNORE))


def joined(plans: list[Plan]) -> Plan:
    parts = [(plan.stretches, plan.segments, plan.follows) for plan in plans]
    stretches, segments, follows = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Plan(stretches=stretches, segments=segments, follows=follows)
