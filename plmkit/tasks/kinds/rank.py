"""Ranking the candidates of a query."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plmkit.architectures.contract import Architecture
from plmkit.data.randomness import generator
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, message, tr
from plmkit.tasks.contract import Baseline, Example, Labelled, Prediction, Row
from plmkit.tasks.framing import Texts
from plmkit.tasks.lexical import BM25
from plmkit.tasks.rank_blocks import is_contiguous, whole_queries
from plmkit.tasks.rank_head import LOSSES, RankHead, rank_head
from plmkit.tasks.rank_lists import lists_of
from plmkit.tasks.rank_rows import candidates_in, grouped_rows, is_listed, listed_rows, query_in
from plmkit.tasks.rank_scores import first_rank, mean, query_scores, random_average_precision, rank_scores
from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.report import Mistake, Mistakes, Report
from plmkit.tasks.split_texts import SplitTask

LISTS = 12  # key of the random numbers for the lists of an epoch


@dataclass(frozen=True, kw_only=True)
class Ranking(Prediction):
    """The best candidate of a query, with the score and the rank of every candidate, in the order given."""

    scores: tuple[float, ...]
    ranks: tuple[int, ...]  # from 1, the best
    shares: tuple[float, ...]  # the probability of each candidate: to be the relevant one or, with sigmoid, to be one


@dataclass(frozen=True, kw_only=True)
class Ranked(Prediction):
    """The score of one candidate, and its rank among those of its query."""

    rank: int


@dataclass(frozen=True, kw_only=True)
class Rank(SplitTask):
    """A query and its candidates, each read with it and scored (Liu et al., 2019, 3.2)."""

    kind: ClassVar[str] = "rank"
    best: ClassVar[str] = "map"
    problem: ClassVar[str | None] = "regression"  # of a query and one candidate
    apart: ClassVar[bool] = True
    grouped: ClassVar[bool] = True
    together: ClassVar[tuple[str, ...]] = ("text",)  # the query

    loss: str = "softmax"  # softmax: over the candidates of a list; sigmoid: each candidate by itself
    candidates: int = 8  # per list in training; a step trains on task.batch / task.candidates lists

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in LOSSES:
            raise SettingError(
                tr("task.loss takes {losses}; found '{loss}'.", losses=comma().join(LOSSES), loss=self.loss)
            )
        if self.candidates < 2:
            raise SettingError(tr("task.candidates must be at least 2; found {found}.", found=self.candidates))

    def blocks(
        self, path: str | Path, search: Search, say: Say, size: BlockSize | None = None
    ) -> Iterator[Table]:  # fmt: skip
        """The rows of a query are in one block; where they are not next to each other, all rows are."""
        if size is None or not is_contiguous(super().blocks(path, search, ignore, size)):
            return super().blocks(path, search, say)
        return whole_queries(super().blocks(path, search, say, size))

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        """A table with `qid`, a query and a candidate per row, or with a list of candidates per row."""
        if is_listed(table):
            rows, columns = listed_rows(table, search, labelled), Columns()
        else:
            rows, columns = grouped_rows(table, search, say, labelled)
        known = [row for row in rows if row.label is not None]
        if without := sum(not any(row.label) for row in known):
            say(
                tr(
                    "! {path}: {without:,} of {queries:,} queries have no relevant candidate; scores leave them out.",
                    path=table.path,
                    without=without,
                    queries=len(known),
                )
            )
        return rows, columns

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        if not isinstance(given, Mapping) or "query" not in given or "candidates" not in given:
            raise InputError(
                tr(
                    "{model} ranks candidates: row {number} needs `query` and a list of `candidates`.",
                    model=model,
                    number=number,
                )
            )
        place = tr("row {number}", number=number)
        candidates = given["candidates"]
        texts = candidates_in(list(candidates) if isinstance(candidates, tuple) else candidates, place)
        return Row(text=query_in(given["query"], "query", place), choices=texts, line=number)

    def versions(self, row: Row) -> list[Texts]:
        return [(row.text, candidate) for candidate in row.choices]

    def target(self, row: Row) -> Any:
        return np.array(row.label, dtype=np.float32)

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples, most candidates) their relevance, 0 where an example has fewer."""
        return pad_sequence([torch.as_tensor(example.label) for example in examples], batch_first=True)

    def for_epoch(self, examples: Sequence[Example], seed: int, epoch: int) -> list[Example]:
        """The candidates of each query in lists of `candidates`, each with one relevant candidate."""
        shown = super().for_epoch(examples, seed, epoch)
        return [made for number, one in enumerate(shown) for made in self.lists(one, (seed, LISTS, epoch, number))]

    def lists(self, example: Example, key: tuple[int, ...]) -> list[Example]:
        relevance = np.asarray(example.label)
        relevant, others = np.flatnonzero(relevance > 0), np.flatnonzero(relevance <= 0)
        if self.loss == "softmax" and not (len(relevant) and len(others)):
            return []  # nothing to prefer, or nothing to prefer it to
        made = lists_of(relevant, others, self.candidates, generator(*key))
        return [
            Example(row=example.row, inputs=tuple(example.inputs[place] for place in chosen), label=relevance[chosen])
            for chosen in made
        ]

    def examples_per_step(self, batch: int) -> int:
        return max(1, batch // self.candidates)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RankHead:
        return rank_head(self.loss, self.head_settings(architecture, dropout))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        logits = self.of_texts(answers, examples[0])[:, 0]
        scores = logits.sigmoid() if self.loss == "sigmoid" else logits
        ranks = torch.empty(len(logits), dtype=torch.long)
        ranks[logits.argsort(descending=True, stable=True)] = torch.arange(1, len(logits) + 1)
        best = examples[0].row.choices[int(ranks.argmin())]
        shares = logits.sigmoid() if self.loss == "sigmoid" else logits.softmax(0)
        return [
            Ranking(
                label=best,
                probability=float(shares[ranks.argmin()]),
                scores=tuple(scores.tolist()),
                ranks=tuple(ranks.tolist()),
                shares=tuple(shares.tolist()),
            )
        ]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        return rank_scores(*arrays_of(predictions, rows))

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        """By query; a mistake is a query whose first candidate is not relevant, the lowest right answer first."""
        found, relevance = arrays_of(predictions, rows)
        mistakes = [
            Mistake.of(
                row, label=row.choices[best], prediction=row.choices[int(scores.argmax())],
                size=float(rank),
            )
            for row, scores, true in zip(rows, found, relevance, strict=True)
            if (true > 0).any() and (rank := first_rank(scores, true)) > 1
            for best in [int(np.where(true > 0, scores, -np.inf).argmax())]
        ]  # fmt: skip
        return Report(
            scores=rank_scores(found, relevance),
            intervals=mean_intervals(query_scores(found, relevance)),
            mistakes=Mistakes.of(mistakes, "rank"),
        )

    def render(self, prediction: Prediction) -> dict[str, Any]:
        if isinstance(prediction, Ranking):
            scores = [round(score, 6) for score in prediction.scores]
            shares = [round(share, 6) for share in prediction.shares]
            return {"score": scores, "rank": list(prediction.ranks), "probability": shares}
        if not isinstance(prediction, Ranked) or prediction.probability is None:
            return {"score": None, "rank": None, "probability": None}
        score, share = round(prediction.label, 6), round(prediction.probability, 6)
        return {"score": score, "rank": prediction.rank, "probability": share}

    def by_line(self, predictions: Sequence[Prediction], rows: Sequence[Row], lines: int) -> list[Prediction]:
        if not any(row.places for row in rows):
            return list(predictions)
        found = [Prediction(label=None)] * lines
        for one, row in zip(predictions, rows, strict=True):
            if isinstance(one, Ranking):
                for place, score, rank, share in zip(row.places, one.scores, one.ranks, one.shares, strict=True):
                    found[place] = Ranked(label=score, rank=rank, probability=share)
        return found

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        if not any(self.can_train(row) for row in rows):
            raise InputError(
                tr(
                    "{path}: none of its {queries:,} queries has both a relevant candidate and one that is not. There "
                    "is no order to train.",
                    path=path,
                    queries=len(rows),
                )
            )
        return self

    def can_train(self, row: Row) -> bool:
        return any(row.label) and not all(row.label)

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        if not any(any(row.label) for row in rows):
            raise InputError(
                tr("{path}: none of its {queries:,} queries has a relevant candidate.", path=path, queries=len(rows))
            )

    def remark(self, file: Labelled, say: Say) -> None:
        left_out = sum(not self.can_train(row) for row in file.rows)
        if left_out and self.loss == "softmax":
            say(
                tr(
                    "! {path}: {left_out:,} of {queries:,} queries have only relevant candidates or none, so there is "
                    "no order to train; they are left out of training.",
                    path=file.path,
                    left_out=left_out,
                    queries=len(file.rows),
                )
            )

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        """The order by the words that query and candidate share."""
        found = BM25([text for row in rows for text in row.choices])
        scores = [found.scores(row.text, row.choices) for row in rows]
        reached = rank_scores(scores, [np.array(row.label) for row in rows])["map"]
        return Baseline(answer=message("the order by shared words (BM25)"), measure="map", score=reached)

    def baselines(self, train: Sequence[Row], rows: Sequence[Row]) -> tuple[Baseline, ...]:
        relevant = [sum(grade > 0 for grade in row.label) for row in rows]
        chance = mean(
            [
                random_average_precision(count, len(row.choices))
                for row, count in zip(rows, relevant, strict=True)
                if count
            ]
        )
        return self.baseline(train, rows), Baseline(answer=message("a random order"), measure="map", score=chance)

    def describe(self, rows: Sequence[Row]) -> str:
        counts = [len(row.choices) for row in rows]
        return tr(
            "each a query with {fewest:,} to {most:,} candidates: {total:,} in all, {share:.1%} of them relevant",
            fewest=min(counts),
            most=max(counts),
            total=sum(counts),
            share=sum(grade > 0 for row in rows for grade in row.label) / sum(counts),
        )

    @property
    def answers(self) -> str:
        return tr("the order of its candidates")


def arrays_of(predictions: Sequence[Prediction], rows: Sequence[Row]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The scores and the relevance of the candidates of each query."""
    scores = [np.array(one.scores) for one in predictions if isinstance(one, Ranking)]
    return scores, [np.array(row.label) for row in rows]
