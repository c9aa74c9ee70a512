"""Tasks with one answer per row, a class or a number; each kind adds how its texts are read."""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch.nn.functional as F
from scipy.sparse import csr_matrix
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import listed
from plmkit.data.reading.columns import Say, ignore
from plmkit.language import comma, message, tr
from plmkit.tasks.contract import Baseline, Example, Labelled, Prediction, Row, Task
from plmkit.tasks.framing import Texts, frame_all
from plmkit.tasks.heads import ClassHead, NumberHead, RowHead
from plmkit.tasks.ngrams import LinearModel
from plmkit.tasks.remarks import remark_labels
from plmkit.tasks.rows import check_classes, check_trainable, classes_of
from plmkit.tasks.scores import class_scores, confusion, number_scores
from plmkit.tokenizers.tokenizer import Tokenizer

LISTED = 6  # classes that are listed one by one
SMALLEST = 1e-6  # share of the variance of labels that counts as no error


@dataclass(frozen=True, kw_only=True)
class RowTask(Task):
    """A task with one answer per row, which may be read in several versions."""

    def versions(self, row: Row) -> list[Texts]:
        """The texts that are framed for a row: one input each."""
        return [(row.text, row.other)]

    @abstractmethod
    def target(self, row: Row) -> int | float:
        """The label of a row as the head reads it."""

    def framed(
        self, rows: Sequence[Row], tokenizer: Tokenizer, length: int, *, choosing: bool = False
    ) -> list[Example]:
        versions = [self.versions(row) for row in rows]
        inputs = iter(frame_all([texts for row in versions for texts in row], tokenizer, length, choosing))
        return [
            Example(
                row=row,
                inputs=tuple(next(inputs) for _ in texts),
                label=None if row.label is None else self.target(row),
                ngrams=self.ngrams.vector((row.text, row.other)) if self.ngrams else None,
            )
            for row, texts in zip(rows, versions, strict=True)
        ]

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        return self.framed(rows, tokenizer, length)

    def head_settings(self, architecture: Architecture, dropout: float) -> dict[str, Any]:
        """What every head for whole rows is built with."""
        return {
            "width": architecture.width,
            "bias": architecture.head_bias,
            "initialiser": architecture.initialiser,
            "pooling": self.pooling,
            "length": self.length,
            "dropout": dropout,
            "ngrams": len(self.ngrams) if self.ngrams else 0,
        }


@dataclass(frozen=True, kw_only=True)
class ClassTask(RowTask):
    """A task whose answer is one of the classes of the training rows."""

    problem: ClassVar[str | None] = "classification"
    has_linear_model: ClassVar[bool] = True

    def target(self, row: Row) -> int:
        return self.classes.index(str(row.label))

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RowHead:
        return ClassHead(outputs=len(self.classes), **self.head_settings(architecture, dropout))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        return [most_probable(self.classes, row) for row in answers.softmax(-1).tolist()]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """Scores of classes, with the confusion matrix."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        predicted = [numbers[str(prediction.label)] for prediction in predictions]
        gold = [numbers[str(row.label)] for row in rows]
        scores: dict[str, Any] = class_scores(predicted, gold, self.classes)
        return {**scores, "rows": len(rows), "confusion": confusion(predicted, gold, self.classes)}

    def render(self, prediction: Prediction) -> dict[str, Any]:
        found = prediction.probabilities or dict.fromkeys(self.classes)
        rounded = {name: None if (value := found[name]) is None else round(value, 6) for name in self.classes}
        return {"prediction": prediction.label} | {f"probability:{name}": value for name, value in rounded.items()}

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        check_trainable(rows, path)
        return replace(self, classes=classes_of(rows))

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        check_classes(rows, self.classes, path)

    def remark(self, file: Labelled, say: Say) -> None:
        remark_labels(file, say)

    def linear_model(self, matrix: csr_matrix, rows: Sequence[Row], strength: float) -> LinearModel:
        """Logistic regression of each class against the others."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        targets = np.array([self.target(row) for row in rows])
        weights, biases = [], []
        for number in range(len(self.classes)) if len(self.classes) > 2 else (1,):
            found = LogisticRegression(C=strength, solver="liblinear").fit(matrix, targets == number)
            weights.append(found.coef_[0])
            biases.append(found.intercept_[0])
        weight, bias = np.stack(weights, axis=1), np.array(biases)
        if len(self.classes) == 2:  # the logit of the second class, as two that differ by it
            weight, bias = np.concatenate([-weight, weight], axis=1) / 2, np.concatenate([-bias, bias]) / 2
        return LinearModel(weight=weight.astype(np.float32), bias=bias.astype(np.float32), strength=strength)

    def misfit(self, answers: Tensor, labels: Tensor) -> float:
        return float(F.cross_entropy(answers, labels, reduction="sum"))

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        (label, _), *_ = Counter(row.label for row in train).most_common(1)
        right = sum(row.label == label for row in rows)
        return Baseline(
            answer=message("the most frequent label"), label=label, measure="accuracy", score=right / len(rows)
        )

    def describe(self, rows: Sequence[Row]) -> str:
        counted = Counter(str(row.label) for row in rows).most_common()
        named = [
            tr("{name}: {count:,} ({share:.1%})", name=name, count=count, share=count / len(rows))
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

    @property
    def answers(self) -> str:
        return listed(self.classes)


@dataclass(frozen=True, kw_only=True)
class NumberTask(RowTask):
    """A task whose answer is a number."""

    best: ClassVar[str] = "pearson"
    problem: ClassVar[str | None] = "regression"
    has_linear_model: ClassVar[bool] = True

    def target(self, row: Row) -> float:
        return float(row.label)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> RowHead:
        return NumberHead(**self.head_settings(architecture, dropout))

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(label=number) for (number,) in answers.tolist()]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        return number_scores([float(found.label) for found in predictions], [float(row.label) for row in rows])

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
    def answers(self) -> str:
        return tr("a number")


def most_probable(names: Sequence[str], values: Sequence[float]) -> Prediction:
    """The name with the highest probability; a row may have fewer choices than others of its batch."""
    probabilities = dict(zip(names, values, strict=False))
    best = max(probabilities, key=probabilities.__getitem__)
    return Prediction(label=best, probability=probabilities[best], probabilities=probabilities)
