"""Predictions against what was expected."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plmkit.inference.model import Model, Prediction
from plmkit.tasks.kinds import Kind
from plmkit.tasks.rows import Row, pair_of
from plmkit.tasks.scores import class_scores, confusion, number_scores, spread


def evaluate_rows(model: Model, rows: Sequence[Row]) -> dict[str, Any]:
    """The scores of a fine-tuned model on labelled rows."""
    assert model.kind is not None
    model.network.eval()
    return scores_of(model.predictions([pair_of(row) for row in rows]), rows, model.kind, model.classes)


def scores_of(
    predictions: Sequence[Prediction], rows: Sequence[Row], kind: Kind, classes: tuple[str, ...]
) -> dict[str, Any]:
    """The scores of the task's kind; for classes, who was taken for whom as well."""
    if kind.numeric:
        return number_scores([float(p.label or 0) for p in predictions], [float(row.label or 0) for row in rows])
    if kind.readings == "each":
        right = [p.label == row.label for p, row in zip(predictions, rows, strict=True)]
        return {"accuracy": sum(right) / len(right), "rows": len(rows)}
    numbers = {name: number for number, name in enumerate(classes)}
    predicted = [numbers[str(p.label)] for p in predictions]
    gold = [numbers[str(row.label)] for row in rows]
    scores: dict[str, Any] = class_scores(predicted, gold, classes)
    return {**scores, "rows": len(rows), "confusion": confusion(predicted, gold, classes)}


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What an answer is worth that does not look at the text."""

    answer: str  # that is always given
    measure: str
    score: float

    def __str__(self) -> str:
        return f"{self.answer}: {self.measure} {self.score:.3f}"


def baseline(train: Sequence[Row], rows: Sequence[Row], kind: Kind) -> Baseline:
    """What the training rows alone say of any text: their commonest label, or their mean."""
    if kind.numeric:
        mean = sum(float(row.label or 0) for row in train) / len(train)
        errors = [(float(row.label or 0) - mean) ** 2 for row in rows]
        return Baseline(answer="the mean label", measure="mse", score=sum(errors) / len(errors))
    if kind.readings == "each":
        return Baseline(
            answer="any choice", measure="accuracy", score=sum(1 / len(row.choices) for row in rows) / len(rows)
        )
    (label, _), *_ = Counter(row.label for row in train).most_common(1)
    right = sum(row.label == label for row in rows)
    return Baseline(answer=f"the commonest label, {label}", measure="accuracy", score=right / len(rows))


def spreads(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean and deviation of each score over the seeds."""
    out = {}
    for part in ("dev", "test"):
        scores = [
            {name: value for name, value in run[part].items() if isinstance(value, float)}
            for run in runs
            if part in run
        ]
        if scores:
            out[part] = spread(scores)
    return out
