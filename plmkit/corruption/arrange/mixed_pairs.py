"""Pairs of text as ERNIE makes them: the wrong ones are made of the right ones."""

from dataclasses import dataclass

import numpy as np

from plmkit.corruption.arrange.pairs import DocumentPairs, SentencePairs, plan_pairs
from plmkit.data.rows import Plan
from plmkit.data.shards import TokenStore

BUFFER = 1000  # pairs whose second texts are exchanged among themselves


@dataclass(frozen=True, kw_only=True)
class MixedPairs(SentencePairs):
    """Stretches that follow each other, and as often the first of a pair with the second of another.

    So it is in ERNIE's released code (Sun et al., 2019; PaddlePaddle/ERNIE).
    """

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> Plan:
        pairs = FollowingPairs(store, documents, length, rng)
        return with_mixed(plan_pairs(pairs, documents, self.short), pairs.room, rng)


class FollowingPairs(DocumentPairs):
    """The second text always follows the first; a lone sentence makes no pair."""

    def pair(self, document: int, begin: int, middle: int, end: int, alone: bool, target: int) -> bool:
        if not alone:
            self.keep(self.cut(begin, middle, middle, end), follows=0)
        return False


def with_mixed(plan: Plan, room: int, rng: np.random.Generator) -> Plan:
    """The pairs, and the mixed ones that fit into a row: the released code leaves out those that are too long."""
    mixed = [
        np.hstack([plan.stretches[mine, :2], plan.stretches[np.roll(mine, -1), 2:]])
        for start in range(0, len(plan), BUFFER)
        if len(mine := start + rng.permutation(min(BUFFER, len(plan) - start))) > 1
    ]
    wrong = np.concatenate([plan.stretches[:0], *mixed])
    wrong = wrong[(wrong[:, 1::2] - wrong[:, ::2]).sum(axis=1) <= room]
    follows = np.repeat([0, 1], [len(plan), len(wrong)])
    return Plan(stretches=np.concatenate([plan.stretches, wrong]), follows=follows)
