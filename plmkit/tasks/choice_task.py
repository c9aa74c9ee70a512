"""Tasks that answer with the most probable of several answers, and how far their probabilities can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from torch import Tensor

from plmkit.tasks.contract import Prediction, Row, learned
from plmkit.tasks.long_texts import WindowedTask
from plmkit.tasks.report.calibration import Calibration, calibration, fitted_temperature, log_probabilities
from plmkit.tasks.report.report import Mistake, Mistakes


@dataclass(frozen=True, kw_only=True)
class ChoiceTask(WindowedTask):
    """A task that gives every possible answer to a row a probability, and answers with the most probable one."""

    temperature: float = learned(1.0)  # by which logits are divided, so that probabilities can be trusted (Guo, 2017)

    def probabilities(self, answers: Tensor) -> list[list[float]]:
        """Of the head's answers, (examples, possible answers), as `plm predict` gives them."""
        found: list[list[float]] = (answers / self.temperature).softmax(-1).tolist()
        return found

    def log_probabilities(self, answers: Tensor) -> Tensor:
        return (answers / self.temperature).log_softmax(-1)

    def tuned(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Self:
        """With the temperature that makes the labels of these rows most likely; no answer changes."""
        logits = self.temperature * logs_of(predictions)
        return replace(self, temperature=fitted_temperature(logits, self.targets(rows)))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        return np.array([self.target(row) for row in rows])

    def calibrated(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Calibration:
        """How far the probabilities can be trusted, with and without the temperature."""
        return calibration(logs_of(predictions), self.targets(rows), self.temperature)

    def in_weights(self, weights: dict[str, Tensor]) -> tuple[Self, dict[str, Tensor]]:
        """With a temperature of 1, and the last layer divided by what it was."""
        stem = f"heads.{self.name}"
        last = [f"{stem}.{layer}.{part}" for layer in ("classify", "ngrams") for part in ("weight", "bias")]
        divided = {name: weights[name] / self.temperature for name in last if name in weights}
        return replace(self, temperature=1.0), weights | divided


def logs_of(predictions: Sequence[Prediction]) -> np.ndarray:
    return log_probabilities([[*found.probabilities.values()] for found in predictions if found.probabilities])


def wrong_answers(predictions: Sequence[Prediction], rows: Sequence[Row]) -> Mistakes:
    """The most confident first."""
    return Mistakes.of(
        [
            Mistake.of(
                row, other=row.other, label=str(row.label), prediction=str(found.label),
                size=found.probability,
            )
            for found, row in zip(predictions, rows, strict=True)
            if str(found.label) != str(row.label)
        ]
    )  # fmt: skip
