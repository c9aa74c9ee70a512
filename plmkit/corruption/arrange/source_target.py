"""Pairs of a source text and a target text, each in rows of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plmkit.corruption.contract import Arrangement
from plmkit.data.batch import IGNORE
from plmkit.data.rows import Rows, SideRows, StretchPlan
from plmkit.data.shards import TokenStore
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError
from plmkit.language import tr


@dataclass(frozen=True, kw_only=True)
class PairPlan(StretchPlan):
    """Each row is a source and its target."""

    @property
    def lengths(self) -> np.ndarray:
        """(N, 2) tokens of the source and of the target."""
        return np.asarray(self.stretches[:, 1::2] - self.stretches[:, ::2])


@dataclass(frozen=True, kw_only=True)
class SourceTarget(Arrangement[PairPlan]):
    """A source `[CLS] text </s>`, and a target shifted right: `[CLS] text` predicts `text </s>` (Vaswani et al., 2017).

    The end token takes the place of [CLS] in a vocabulary without one. Sides that are longer than a row are cut at
    their end; a target that was cut does not predict the end.
    """

    needs: ClassVar[tuple[str, ...]] = ("end",)
    pairs: ClassVar[bool] = True
    writes: ClassVar[frozenset[str]] = frozenset({"target", "targets"})

    def check(self, store: TokenStore, documents: np.ndarray, where: str) -> None:
        if not len(sides_of(store, documents)):
            raise InputError(
                tr("{where}: no pair has tokens on both sides, so there is nothing to train on.", where=where)
            )

    def notes(self, store: TokenStore, documents: np.ndarray, length: int) -> Iterator[str]:
        """How many sides are cut."""
        lengths = PairPlan(stretches=sides_of(store, documents)).lengths
        source, target = (lengths > [length - 2, length - 1]).sum(0).tolist()
        if source or target:
            yield tr(
                "Sides longer than {length} tokens are cut at their end: {source:,} sources and {target:,} targets of "
                "{pairs:,} pairs. To keep more of them: --set 'stages=[[1.0, {longer}]]'.",
                length=length,
                source=source,
                target=target,
                pairs=len(lengths),
                longer=2 * length,
            )

    def plan(self, store: TokenStore, documents: np.ndarray, length: int, rng: np.random.Generator) -> PairPlan:
        begin, end, target_begin, target_end = sides_of(store, documents).T
        end = np.minimum(end, begin + length - 2)
        target_end = np.minimum(target_end, target_begin + length)
        return PairPlan(stretches=np.stack([begin, end, target_begin, target_end], axis=1))

    def fill(self, store: TokenStore, plan: PairPlan, chosen: np.ndarray, vocabulary: Vocabulary, length: int) -> Rows:
        start, end = vocabulary.start, vocabulary.end
        sources, targets = [], []
        for begin, stop, target_begin, target_stop in plan.stretches[chosen].tolist():
            sources.append(vocabulary.source_row(store.tokens[begin:stop].tolist()))
            targets.append([start, *store.tokens[target_begin:target_stop].tolist(), end][: length + 1])
        tokens, visible = padded(sources, vocabulary.filler)
        read, shown = padded([row[:-1] for row in targets], vocabulary.filler)
        predicted, _ = padded([row[1:] for row in targets], IGNORE)
        return Rows(
            tokens=tokens,
            segments=np.zeros_like(tokens),
            visible=visible,
            target=SideRows(tokens=read, visible=shown),
            targets=predicted,
        )


def sides_of(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """(N, 4) begin and end of source and target in the token file, of documents with tokens on both sides."""
    first = store.documents[documents]
    first = first[store.documents[documents + 1] - first == 2]
    borders = store.sentences
    return np.stack([borders[first], borders[first + 1], borders[first + 1], borders[first + 2]], axis=1)


def padded(rows: list[list[int]], filler: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, L) the rows, padded on the right, and (B, L) False on padding."""
    lengths = np.array([len(row) for row in rows])
    visible = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(visible.shape, filler, dtype=np.int64)
    tokens[visible] = np.concatenate(rows)
    return tokens, visible
