"""Matching: one vector per text, near those of texts that match it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import number_of, short, where
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, message, tr
from plmkit.tasks.answers import largest_errors
from plmkit.tasks.contract import Baseline, Example, Prediction, Row, learned
from plmkit.tasks.framing import Texts
from plmkit.tasks.heads import SEPARATOR
from plmkit.tasks.lexical import tfidf_cosines, tfidf_vectors
from plmkit.tasks.long_texts import CUT, MAX
from plmkit.tasks.match_head import LOSSES, NEGATIVES, MatchHead
from plmkit.tasks.match_scores import (
    Block,
    best_threshold,
    binary_scores,
    first_of_each,
    graded_scores,
    pair_scores,
    partner_scores,
    partners_of,
)
from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.calibration import agreement
from plmkit.tasks.report.numbers import binary_intervals, number_intervals
from plmkit.tasks.report.report import Mistake, Mistakes, Report
from plmkit.tasks.rows import check_trainable, read_texts, text_row
from plmkit.tasks.split_texts import SplitTask

GRADED, BINARY, PAIRS = "graded", "binary", "pairs"  # labels are scores; 0 and 1; all 1, or missing
USUAL = {GRADED: "mse", BINARY: "cosent", PAIRS: NEGATIVES}
POSSIBLE = {GRADED: ("mse", "cosent"), BINARY: tuple(LOSSES), PAIRS: (NEGATIVES,)}
CHOICES = ("auto", *LOSSES, NEGATIVES)


@dataclass(frozen=True, kw_only=True)
class Matched(Prediction):
    """What the cosine of two texts says of them: their score, or 1 where they match and 0 where not."""

    cosine: float
    vectors: np.ndarray | None = field(default=None, repr=False, compare=False)  # (2, width), of labelled rows

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "cosine": self.cosine}


@dataclass(frozen=True, kw_only=True)
class Match(SplitTask):
    """Two texts, each read by itself: the cosine of their vectors (Reimers & Gurevych, 2019, 3)."""

    kind: ClassVar[str] = "match"
    reads: ClassVar[frozenset[str]] = frozenset({"hidden"})
    best: ClassVar[str] = "spearman"
    apart: ClassVar[bool] = True
    embeds: ClassVar[bool] = True
    tunes: ClassVar[bool] = True

    pooling: str = "mean"
    loss: str = "auto"  # auto: mse for scores, cosent for 0 and 1, negatives for pairs alone; or contrastive, logistic
    scale: float = 20.0  # by which cosent, logistic and negatives multiply a cosine
    form: str = learned(GRADED)
    lowest: float = learned(0.0)  # training label
    highest: float = learned(1.0)
    threshold: float = learned(0.5)  # cosine from which on two texts match

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in CHOICES:
            raise SettingError(
                tr("task.loss takes {losses}; found '{loss}'.", losses=comma().join(CHOICES), loss=self.loss)
            )
        if self.long == MAX:
            raise SettingError(
                tr(
                    "--task match makes one vector of the windows of a text, their mean: task.long takes cut or "
                    "windows."
                )
            )
        if not self.scale > 0:
            raise SettingError(tr("task.scale must be above 0; found {scale:g}.", scale=self.scale))
        if self.pooling in ("concat", SEPARATOR, "last"):
            raise SettingError(
                tr(
                    "--task match makes vectors for plm embed: task.pooling takes first, mean or max; found '{found}'.",
                    found=self.pooling,
                )
            )

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        """Pairs of texts; without a column of labels, all of them match."""
        marked = search.named.label or table.heading.usual("label") or search.trained.label in table.columns
        rows, columns = read_texts(table, search, say, paired=True, labelled=labelled and bool(marked))
        if not labelled:
            return rows, columns
        return [replace(row, label=number(row, table.path) if marked else 1.0) for row in rows], columns

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=True)

    def versions(self, row: Row) -> list[Texts]:
        return [(row.text, None), (row.other, None)] if row.other is not None else []

    def target(self, row: Row) -> float:
        """The label from 0 to 1."""
        return (float(row.label) - self.lowest) / (self.highest - self.lowest)

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples,) from 0 to 1, or (examples, 2) numbers that equal texts share."""
        if self.settled_loss != NEGATIVES:
            return super().labels(examples, vocabulary, width)
        numbers: dict[Any, int] = {}
        known: list[list[Any]] = [
            [tuple(framed.tokens.tolist()) for framed in example.inputs]
            if self.long == CUT
            else [example.row.text, example.row.other]  # of an equal text, another window may be read
            for example in examples
        ]
        return torch.tensor([[numbers.setdefault(text, len(numbers)) for text in pair] for pair in known])

    @property
    def settled_loss(self) -> str:
        return USUAL[self.form] if self.loss == "auto" else self.loss

    def head(self, architecture: Architecture, dropout: float = 0.1) -> MatchHead:
        pooling = "last" if self.pooling == "first" and architecture.generates != "no" else self.pooling
        return MatchHead(pooling=pooling, loss=self.settled_loss, scale=self.scale)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        (example,) = examples
        vectors = F.normalize(self.of_texts(answers, example), dim=-1)
        cosine = float(vectors[0] @ vectors[1])
        kept = None if example.label is None else vectors.numpy()
        return [Matched(label=self.meaning(cosine), cosine=cosine, vectors=kept)]

    def meaning(self, cosine: float) -> float:
        """A cosine in terms of the training labels."""
        if self.form == BINARY:
            return float(cosine >= self.threshold)
        return cosine if self.form == PAIRS else self.lowest + cosine * (self.highest - self.lowest)

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        found = [one for one in predictions if isinstance(one, Matched)]
        cosines, labels = np.array([one.cosine for one in found]), labels_of(rows)
        form = form_of(rows)
        if form == GRADED:
            return graded_scores(cosines, labels)
        if form == BINARY:
            return binary_scores(cosines, labels, self.threshold)
        return partner_scores(block_of(found, rows), *texts_of(rows))

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        found, labels, form = [one for one in predictions if isinstance(one, Matched)], labels_of(rows), form_of(rows)
        scores, cosines = self.score(predictions, rows), np.array([one.cosine for one in found])
        if form == PAIRS:
            partners = partners_of(block_of(found, rows), *texts_of(rows))
            ranks = np.array([rank for rank, _ in partners])
            return Report(
                scores=scores,
                intervals=mean_intervals(pair_scores(ranks)),
                mistakes=Mistakes.of(
                    [
                        Mistake.of(row, label=row.other or "", prediction=nearest, size=rank)
                        for row, (rank, nearest) in zip(rows, partners, strict=True)
                        if rank > 1
                    ],
                    "rank",
                ),
            )
        if form == BINARY:
            apart = np.abs(cosines - self.threshold)
            wrong = np.flatnonzero((cosines >= self.threshold) != (labels > 0)).tolist()
            mistakes = [
                Mistake.of(
                    rows[number], other=rows[number].other,
                    label=f"{labels[number]:g}", prediction=f"{1 - labels[number]:g} ({cosines[number]:.3f})",
                    size=float(apart[number]),
                )
                for number in wrong
            ]  # fmt: skip
            return Report(
                scores=scores,
                intervals=binary_intervals(cosines, labels, self.threshold),
                agreement=agreement(cosines, labels),
                mistakes=Mistakes.of(mistakes, "beyond_threshold"),
            )
        meant = self.lowest + cosines * (self.highest - self.lowest)
        every = number_intervals(cosines, labels)
        return Report(
            scores=scores,
            intervals={name: interval for name, interval in every.items() if name in scores},
            agreement=agreement(meant, labels),
            mistakes=largest_errors(rows, meant, labels),
        )

    def chosen_by(self, scores: Mapping[str, Any]) -> str:
        return next(name for name in ("mrr", "ap", "spearman") if name in scores)

    def tuned(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Self:
        """With the threshold that separates these rows best, if they are labelled with 0 and 1."""
        if form_of(rows) != BINARY:
            return self
        cosines = np.array([one.cosine for one in predictions if isinstance(one, Matched)])
        return replace(self, threshold=best_threshold(cosines, labels_of(rows)))

    def render(self, prediction: Prediction) -> dict[str, Any]:
        if not isinstance(prediction, Matched):
            return {"prediction": None, "cosine": None}
        label = int(prediction.label) if self.form == BINARY else round(prediction.label, 6)
        return {"prediction": label, "cosine": round(prediction.cosine, 6)}

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        form = form_of(rows)
        if form == GRADED or not labels_of(rows).any():
            check_trainable(rows, path)
        if self.loss not in ("auto", *POSSIBLE[form]):
            raise SettingError(
                tr(
                    "task.loss={loss} cannot be trained on {path}: with {labels}, it takes {losses}.",
                    loss=self.loss,
                    path=path,
                    labels=described(form),
                    losses=comma().join(POSSIBLE[form]),
                )
            )
        labels = labels_of(rows)
        lowest, highest = (float(labels.min()), float(labels.max())) if form == GRADED else (0.0, 1.0)
        return replace(self, form=form, lowest=lowest, highest=highest)

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        if not labels_of(rows).any():
            raise InputError(tr("{path}: every label is 0, so there is nothing to find.", path=path))

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        """The cosine of the words that two texts share."""
        (texts, others), form = texts_of(rows), form_of(rows)
        if form == PAIRS:
            first, second = tfidf_vectors(list(dict.fromkeys(texts)), list(dict.fromkeys(others)))
            scores = partner_scores(lambda some: (first[some] @ second.T).toarray(), texts, others)
        else:
            cosines, labels = tfidf_cosines(texts, others), labels_of(rows)
            scores = graded_scores(cosines, labels) if form == GRADED else binary_scores(cosines, labels, 0.5)
        measure = self.chosen_by(scores)
        return Baseline(answer=message("the cosine of shared words (TF-IDF)"), measure=measure, score=scores[measure])

    def describe(self, rows: Sequence[Row]) -> str:
        counts = Counter(float(row.label) for row in rows)
        share = counts[1.0] / len(rows)
        found = {
            GRADED: tr("scores from {lowest:g} to {highest:g}", lowest=self.lowest, highest=self.highest),
            BINARY: tr("{share:.1%} with label 1 and the others with 0", share=share),
            PAIRS: tr("all of which match; the other texts of a batch are the negatives"),
        }[self.form]
        return tr("{found} (task.loss={loss})", found=found, loss=self.settled_loss)

    @property
    def answers(self) -> str:
        return tr("the cosine of two texts")


def number(row: Row, path: Path) -> float | None:
    """A label as a number; None if it is missing."""
    if row.label is None:
        return None
    if (found := number_of(str(row.label))) is None:
        raise InputError(
            tr(
                "{place}: label '{label}' is not a number.\n"
                "Matching needs a score, or 0 and 1; without a label column, all pairs match.",
                place=where(path, row.line),
                label=short(str(row.label)),
            )
        )
    return found


def labels_of(rows: Sequence[Row]) -> np.ndarray:
    return np.array([float(row.label) for row in rows])


def texts_of(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """The first texts, and the second ones."""
    return [row.text for row in rows], [row.other or "" for row in rows]


def block_of(found: Sequence[Matched], rows: Sequence[Row]) -> Block:
    """The cosines of some first texts with all second ones, each text once."""
    texts, others = texts_of(rows)
    vectors = np.stack([one.vectors for one in found if one.vectors is not None])
    first, second = vectors[first_of_each(texts), 0], vectors[first_of_each(others), 1]
    return lambda some: first[some] @ second.T


def form_of(rows: Sequence[Row]) -> str:
    """What the labels of rows are."""
    found = {float(row.label) for row in rows}
    if found == {1.0}:
        return PAIRS
    return BINARY if found <= {0.0, 1.0} else GRADED


def described(form: str) -> str:
    return {
        GRADED: tr("scores as labels"), BINARY: tr("labels 0 and 1"), PAIRS: tr("pairs that all match"),
    }[form]  # fmt: skip
