"""Tasks with one answer per row, a class or a number; each kind adds how its texts are read."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import listed
from plmkit.data.reading.columns import Say, ignore
from plmkit.language import comma, message, tr
from plmkit.tasks.choice_task import ChoiceTask, wrong_answers
from plmkit.tasks.class_weights import WeighedTask
from plmkit.tasks.contract import Baseline, Example, Labelled, Prediction, Row
from plmkit.tasks.heads import ClassHead, NumberHead, RowHead, SigmoidNumberHead, balanced_weights
from plmkit.tasks.long_texts import WindowedTask
from plmkit.tasks.ngrams import LinearModel, all_outputs, logistic
from plmkit.tasks.remarks import remark_labels
from plmkit.tasks.report.calibration import agreement
from plmkit.tasks.report.classes import class_intervals, class_table, confusions
from plmkit.tasks.report.numbers import number_intervals
from plmkit.tasks.report.report import Mistake, Mistakes, Report
from plmkit.tasks.rows import check_classes, check_trainable, classes_of
from plmkit.tasks.scores import class_scores, confusion, number_scores

LISTED = 6  # classes that are listed one by one
SMALLEST = 1e-6  # share of the variance of labels that counts as no error


@dataclass(frozen=True, kw_only=True)
class ClassTask(WeighedTask, ChoiceTask):
    """A task whose answer is one of the classes of the training rows."""

    problem: ClassVar[str | None] = "classification"

    def target(self, row: Row) -> int:
        return self.classes.index(str(row.label))

    def strata(self, rows: Sequence[Row]) -> list[str]:
        return [str(row.label) for row in rows]

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RowHead:
        return ClassHead(outputs=len(self.classes), **self.class_settings(architecture, dropout))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        return [most_probable(self.classes, row) for row in self.probabilities(answers)]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """Scores of classes, with the confusion matrix."""
        predicted, gold = self.numbered(predictions, rows)
        scores: dict[str, Any] = class_scores(predicted, gold, self.classes)
        return {**scores, "rows": len(rows), "confusion": confusion(predicted, gold, self.classes)}

    def numbered(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> tuple[list[int], list[int]]:
        """The predicted classes and those of the rows as numbers."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        return [numbers[str(found.label)] for found in predictions], [numbers[str(row.label)] for row in rows]

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        scores, (predicted, gold) = self.score(predictions, rows), self.numbered(predictions, rows)
        per_class, means = class_table(predicted, gold, self.classes)
        return Report(
            scores=scores,
            intervals=class_intervals(predicted, gold, len(self.classes)),
            per_class=per_class,
            means=means,
            confused=confusions(scores["confusion"], self.classes),
            calibration=self.calibrated(predictions, rows),
            mistakes=wrong_answers(predictions, rows),
        )

    def render(self, prediction: Prediction) -> dict[str, Any]:
        found = prediction.probabilities or dict.fromkeys(self.classes)
        rounded = {name: None if (value := found[name]) is None else round(value, 6) for name in self.classes}
        each = {f"probability:{name}": value for name, value in rounded.items()}
        return with_probability(prediction) | each

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        check_trainable(rows, path)
        made = replace(self, classes=classes_of(rows))
        made.check_class_weights()
        return made

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        check_classes(rows, self.classes, path)

    def remark(self, file: Labelled, say: Say) -> None:
        remark_labels(file, say)

    def linear_model(self, matrix: csr_matrix, rows: Sequence[Row], strength: float) -> LinearModel:
        """Logistic regression of each class against the others."""
        targets = self.targets(rows)
        weights = self.row_weights(torch.from_numpy(targets)).numpy()
        if len(self.classes) > 2:
            numbers = range(len(self.classes))
            return all_outputs([logistic(matrix, targets == one, strength, weights) for one in numbers])
        second = logistic(matrix, targets == 1, strength, weights)  # its logit, as two that differ by it
        half = replace(second, weight=second.weight / 2, bias=second.bias / 2)
        return all_outputs([replace(half, weight=-half.weight, bias=-half.bias), half])

    def misfit(self, answers: Tensor, labels: Tensor) -> float:
        return float(self.row_weights(labels) @ F.cross_entropy(answers.double(), labels, reduction="none"))

    def row_weights(self, labels: Tensor) -> Tensor:
        """(rows,) how much each row counts in the loss, by its class."""
        if self.class_weights is None:
            return torch.ones(len(labels), dtype=torch.double)
        weights = (
            torch.tensor(self.class_weights)
            if isinstance(self.class_weights, tuple)
            else balanced_weights(labels, len(self.classes))
        )
        return weights.double()[labels]

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        (label, _), *_ = Counter(row.label for row in train).most_common(1)
        right = sum(row.label == label for row in rows)
        return Baseline(
            answer=message("the most frequent label"), label=label, measure="accuracy", score=right / len(rows)
        )

    def describe(self, rows: Sequence[Row]) -> str:
        return counted_classes([str(row.label) for row in rows], len(rows))

    @property
    def has_linear_model(self) -> bool:
        return True

    @property
    def answers(self) -> str:
        return listed(self.classes)


@dataclass(frozen=True, kw_only=True)
class NumberTask(WindowedTask):
    """A task whose answer is a number."""

    best: ClassVar[str] = "pearson"
    problem: ClassVar[str | None] = "regression"

    sigmoid: bool = False  # a sigmoid between the lowest and the highest training label, instead of any number

    def target(self, row: Row) -> float:
        return float(row.label)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RowHead:
        kind = SigmoidNumberHead if self.sigmoid else NumberHead
        return kind(**self.head_settings(architecture, dropout))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(label=number) for (number,) in answers.tolist()]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        return number_scores([float(found.label) for found in predictions], [float(row.label) for row in rows])

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        predicted = np.array([float(found.label) for found in predictions])
        gold = np.array([float(row.label) for row in rows])
        return Report(
            scores=self.score(predictions, rows),
            intervals=number_intervals(predicted, gold),
            agreement=agreement(predicted, gold),
            mistakes=largest_errors(rows, predicted, gold),
        )

    def render(self, prediction: Prediction) -> dict[str, Any]:
        return {"prediction": None if prediction.label is None else round(prediction.label, 6)}

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        check_trainable(rows, path)
        return self

    def linear_model(self, matrix: csr_matrix, rows: Sequence[Row], strength: float) -> LinearModel:
        """Ridge regression."""
        from sklearn.linear_model import Ridge  # slow to import

        found = Ridge(alpha=1 / strength, solver="sparse_cg").fit(matrix, np.array([self.target(row) for row in rows]))
        weight, bias = found.coef_[:, None], np.array([found.intercept_])
        return LinearModel(weight=weight.astype(np.float32), bias=bias.astype(np.float32), strength=strength)

    def misfit(self, answers: Tensor, labels: Tensor) -> float:
        """Of errors that are normally distributed around their mean."""
        left, whole = (float(numbers.var(correction=0)) for numbers in (labels - answers.squeeze(1), labels))
        return len(labels) / 2 * math.log(left / (whole or 1.0) + SMALLEST)

    def shift(self, answers: Tensor, labels: Tensor) -> float:
        return float((labels - answers.squeeze(1)).mean())

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        mean = sum(float(row.label) for row in train) / len(train)
        errors = [(float(row.label) - mean) ** 2 for row in rows]
        return Baseline(answer=message("the mean label"), measure="mse", score=sum(errors) / len(errors))

    def describe(self, rows: Sequence[Row]) -> str:
        numbers = np.array([float(row.label) for row in rows])
        return tr(
            "numbers from {min:g} to {max:g}, mean {mean:.4g}",
            min=numbers.min(),
            max=numbers.max(),
            mean=numbers.mean(),
        )

    @property
    def has_linear_model(self) -> bool:
        return not self.sigmoid  # whose answers cannot be mixed with those of a linear model

    @property
    def refusal(self) -> str | None:
        return (
            tr("transformers' regression has no sigmoid; fine-tune without task.sigmoid to export")
            if self.sigmoid
            else None
        )

    @property
    def answers(self) -> str:
        return tr("a number")


def counted_classes(labels: Sequence[str], rows: int) -> str:
    """The most frequent classes, with the share of the rows that have them."""
    counted = Counter(labels).most_common()
    named = [
        tr("{name}: {count:,} ({share:.1%})", name=name, count=count, share=count / rows)
        for name, count in counted[:LISTED]
    ]
    if others := counted[LISTED:]:
        named.append(
            tr(
                "{others} more, the rarest {rarest}: {count:,}",
                others=len(others),
                rarest=others[-1][0],
                count=others[-1][1],
            )
        )
    return tr("{count:,} classes: {named}", count=len(counted), named=comma().join(named))


def largest_errors(rows: Sequence[Row], predicted: np.ndarray, gold: np.ndarray) -> Mistakes:
    """Of numbers: every row has an error, the largest first."""
    return Mistakes.of(
        [
            Mistake.of(
                row, other=row.other, label=f"{true:.6g}", prediction=f"{found:.4g}",
                size=abs(found - true),
            )
            for row, found, true in zip(rows, predicted.tolist(), gold.tolist(), strict=True)
        ],
        "error",
    )  # fmt: skip


def with_probability(prediction: Prediction) -> dict[str, Any]:
    """The columns of an answer and its probability."""
    probability = prediction.probability
    return {"prediction": prediction.label, "probability": None if probability is None else round(probability, 6)}


def most_probable(names: Sequence[str], values: Sequence[float]) -> Prediction:
    """The name with the highest probability; a row may have fewer choices than others of its batch."""
    probabilities = dict(zip(names, values, strict=False))
    best = max(probabilities, key=probabilities.__getitem__)
    return Prediction(label=best, probability=probabilities[best], probabilities=probabilities)
