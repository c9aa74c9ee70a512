"""Any number of classes for a text or a pair."""

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
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, message, tr
from plmkit.tasks.answers import counted_classes
from plmkit.tasks.class_weights import WeighedTask
from plmkit.tasks.contract import Baseline, Example, Labelled, Prediction, Row, learned
from plmkit.tasks.heads import LabelsHead, weights_of_presence
from plmkit.tasks.label_lists import best_threshold, check_lists, labels_in, search_in
from plmkit.tasks.ngrams import LinearModel, all_outputs, logistic
from plmkit.tasks.report.classes import class_table
from plmkit.tasks.report.labels import label_intervals, wrong_labels
from plmkit.tasks.report.report import Report
from plmkit.tasks.rows import read_texts, text_row
from plmkit.tasks.scores import label_scores

SHARED, EACH = THRESHOLDS = ("shared", "each")
UNDECIDED = 0.5  # the threshold before one is chosen


@dataclass(frozen=True, kw_only=True)
class MultiLabel(WeighedTask):
    """One text or two, and any number of classes, none included: a sigmoid for each (Zhang & Zhou, 2006)."""

    kind: ClassVar[str] = "multilabel"
    best: ClassVar[str] = "micro_f1"
    problem: ClassVar[str | None] = "multilabel"
    tunes: ClassVar[bool] = True

    separator: str = "|"  # between the labels of a cell of text; JSON lists are read too
    thresholds: str = SHARED  # of probabilities, chosen on dev: shared by all classes, or one for each
    chosen: tuple[float, ...] = learned(())  # thresholds, by class

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds not in THRESHOLDS:
            raise SettingError(
                tr(
                    "task.thresholds takes {ways}; found '{found}'.",
                    ways=comma().join(THRESHOLDS),
                    found=self.thresholds,
                )
            )
        if not self.separator:
            raise SettingError(tr("task.separator must not be empty."))

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        if labelled:
            search = replace(search, named=replace(search.named, label=search_in(table, search)))
        rows, columns = read_texts(table, search, say, paired=None, labelled=labelled, read_label=self.read_label)
        return rows, columns

    def read_label(self, cell: object, place: str) -> tuple[str, ...] | None:
        return labels_in(cell, self.separator, place)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        return text_row(given, number, model, paired=None)

    def target(self, row: Row) -> np.ndarray:
        return np.array([name in row.label for name in self.classes], dtype=np.float32)

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples, classes) 1 for each label."""
        return torch.from_numpy(np.stack([np.asarray(example.label) for example in examples]))

    def head(self, architecture: Architecture, dropout: float = 0.1) -> LabelsHead:
        return LabelsHead(outputs=len(self.classes), **self.class_settings(architecture, dropout))

    def log_probabilities(self, answers: Tensor) -> Tensor:
        return F.logsigmoid(answers)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        shares = [dict(zip(self.classes, row, strict=True)) for row in answers.sigmoid().tolist()]
        return [self.revised(Prediction(label=(), probabilities=row)) for row in shares]

    def revised(self, prediction: Prediction) -> Prediction:
        found = prediction.probabilities or {}
        thresholds = self.chosen or (UNDECIDED,) * len(self.classes)
        names = zip(self.classes, thresholds, strict=True)
        return replace(prediction, label=tuple(name for name, threshold in names if found[name] >= threshold))

    def tuned(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Self:
        """With the thresholds that give the best F1: over all classes together, or of each class."""
        found = np.array([list((one.probabilities or {}).values()) for one in predictions])
        gold = np.stack([self.target(row) for row in rows])
        if self.thresholds == SHARED:
            return replace(self, chosen=(best_threshold(found.ravel(), gold.ravel()),) * len(self.classes))
        return replace(self, chosen=tuple(best_threshold(*each) for each in zip(found.T, gold.T, strict=True)))

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        found, gold = ([self.target_of(one.label) for one in some] for some in (predictions, rows))
        return {**label_scores(np.stack(found), np.stack(gold)), "rows": len(rows)}

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        found, gold = (np.stack([self.target_of(one.label) for one in some]) for some in (predictions, rows))
        probabilities = np.array([list((one.probabilities or {}).values()) for one in predictions])
        per_class, means = class_table(found, gold, self.classes)
        return Report(
            scores=self.score(predictions, rows),
            intervals=label_intervals(found, gold),
            per_class=per_class,
            means=means,
            thresholds=dict(zip(self.classes, self.chosen, strict=True)) if self.chosen else {},
            mistakes=wrong_labels(rows, found, gold, probabilities, self.classes),
        )

    def target_of(self, labels: Sequence[str]) -> np.ndarray:
        return np.array([name in labels for name in self.classes])

    def render(self, prediction: Prediction) -> dict[str, Any]:
        """A list, which a table of text has as JSON, and which `read` reads again."""
        found = prediction.probabilities or dict.fromkeys(self.classes)
        rounded = {name: None if (value := found[name]) is None else round(value, 6) for name in self.classes}
        label = None if prediction.label is None else list(prediction.label)
        return {"prediction": label} | {f"probability:{name}": value for name, value in rounded.items()}

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        if len({row.label for row in rows}) == 1:
            raise InputError(
                tr(
                    "Training needs rows with different labels; all {count} rows of {path} have: {labels}.",
                    count=len(rows),
                    path=path,
                    labels=listed(rows[0].label),
                )
            )
        made = replace(self, classes=tuple(sorted({label for row in rows for label in row.label})))
        made.check_class_weights()
        return made

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        check_lists(rows, self.classes, path)

    def strata(self, rows: Sequence[Row]) -> list[str]:
        """The rarest label of each row, so that no label is missing on either side (Sechidis et al., 2011)."""
        counts = Counter(label for row in rows for label in row.label)
        return [min(row.label, key=lambda label: (counts[label], label), default="") for row in rows]

    def remark(self, file: Labelled, say: Say) -> None:
        if all(len(row.label) <= 1 for row in file.rows):
            say(
                tr(
                    "! {path}: no row has more than one label. If labels are separated by another sign than "
                    "'{separator}', give it with --set task.separator=SIGN. For one class per row, use --task "
                    "classify.",
                    path=file.path,
                    separator=self.separator,
                )
            )

    def misfit(self, answers: Tensor, labels: Tensor) -> float:
        targets = labels.to(answers.dtype)
        weights = self.presence_weights(targets)
        return float(F.binary_cross_entropy_with_logits(answers, targets, reduction="sum", pos_weight=weights))

    def presence_weights(self, targets: Tensor) -> Tensor | None:
        """(classes,) how much more a row that has a class counts in the loss than one without it."""
        if self.class_weights is None:
            return None
        own = torch.tensor(self.class_weights) if isinstance(self.class_weights, tuple) else None
        return weights_of_presence(targets) if own is None else own.to(targets)

    def linear_model(self, matrix: csr_matrix, rows: Sequence[Row], strength: float) -> LinearModel:
        """Logistic regression of each class."""
        targets = np.stack([self.target(row) for row in rows])
        more = self.presence_weights(torch.from_numpy(targets))
        weights = np.ones_like(targets) if more is None else np.where(targets, more.numpy(), 1.0)
        each = zip(targets.T, weights.T, strict=True)
        return all_outputs([logistic(matrix, own, strength, counts) for own, counts in each])

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        """The most frequent labels for every row, as many as are best in training."""
        counts = Counter(label for row in train for label in row.label)
        counted = Counter({name: counts[name] for name in self.classes}).most_common()  # a share may have none of them
        right = np.cumsum([count for _, count in counted])
        scores = 2 * right / (len(train) * np.arange(1, len(right) + 1) + right[-1])
        usual = tuple(name for name, _ in counted[: int(scores.argmax()) + 1])
        found = self.score([Prediction(label=usual)] * len(rows), rows)
        return Baseline(
            answer=message("the most frequent labels"),
            label=comma().join(usual),
            measure=self.measure,
            score=found[self.measure],
        )

    def describe(self, rows: Sequence[Row]) -> str:
        labels = [label for row in rows for label in row.label]
        return tr(
            "{mean:.2f} labels per row, {bare:,} without any; {classes}",
            mean=len(labels) / len(rows),
            bare=sum(not row.label for row in rows),
            classes=counted_classes(labels, len(rows)),
        )

    @property
    def has_linear_model(self) -> bool:
        return True

    @property
    def answers(self) -> str:
        return tr("any of {classes}", classes=listed(self.classes))
