"""Multiple choice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.errors import InputError
from plmkit.inference.arguments import text_or_pair
from plmkit.language import message, tr
from plmkit.tasks.answers import most_probable, with_probability
from plmkit.tasks.choice_files import open_choices
from plmkit.tasks.choice_rows import choice_rows
from plmkit.tasks.choice_task import ChoiceTask, wrong_answers
from plmkit.tasks.class_weights import SmoothedTask
from plmkit.tasks.contract import Baseline, Example, Prediction, Row
from plmkit.tasks.framing import Texts
from plmkit.tasks.heads import ChoiceHead
from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.report import Report
from plmkit.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Choose(SmoothedTask, ChoiceTask):
    """A context, a question, and one of several choices, each read with them (Radford et al., 2018, 3.3)."""

    kind: ClassVar[str] = "choose"
    problem: ClassVar[str | None] = "choice"

    def blocks(
        self, path: str | Path, search: Search, say: Say, size: BlockSize | None = None
    ) -> Iterator[Table]:  # fmt: skip
        return open_choices(path, search, say, size)

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return choice_rows(table, search, say, labelled=labelled)

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        choices = given.get("choices") if isinstance(given, Mapping) else None
        if not isinstance(choices, list | tuple):
            raise InputError(
                tr(
                    "{model} is a multiple-choice model: row {number} needs `text` and a list of `choices`.",
                    model=model,
                    number=number,
                )
            )
        text, _ = text_or_pair(given, number)
        return Row(text=text, choices=tuple(map(str, choices)), line=number)

    def versions(self, row: Row) -> list[Texts]:
        return [(row.text, choice) for choice in row.choices]

    def target(self, row: Row) -> int:
        return row.choices.index(str(row.label))

    def targets(self, rows: Sequence[Row]) -> np.ndarray:
        """Among the different choices, each of which has one probability."""
        return np.array([list(dict.fromkeys(row.choices)).index(str(row.label)) for row in rows])

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        return self.framed(rows, tokenizer, length, choosing=True)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> ChoiceHead:
        settings = self.head_settings(architecture, dropout)
        return ChoiceHead(label_smoothing=self.label_smoothing, **settings)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        probabilities = self.probabilities(answers)
        return [most_probable(made.row.choices, row) for made, row in zip(examples, probabilities, strict=True)]

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        right = are_right(predictions, rows)
        return {"accuracy": sum(right) / len(right), "rows": len(rows)}

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        return Report(
            scores=self.score(predictions, rows),
            intervals=mean_intervals({"accuracy": np.array(are_right(predictions, rows))}),
            calibration=self.calibrated(predictions, rows),
            mistakes=wrong_answers(predictions, rows),
        )

    def render(self, prediction: Prediction) -> dict[str, Any]:
        return with_probability(prediction)

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        chance = sum(1 / len(row.choices) for row in rows) / len(rows)
        return Baseline(answer=message("a random choice"), measure="accuracy", score=chance)

    def describe(self, rows: Sequence[Row]) -> str:
        counts = [len(row.choices) for row in rows]
        span = (
            f"{min(counts)}"
            if min(counts) == max(counts)
            else tr("{lowest} to {highest}", lowest=min(counts), highest=max(counts))
        )
        return tr("{span} choices each", span=span)

    @property
    def answers(self) -> str:
        return tr("its choices")


def are_right(predictions: Sequence[Prediction], rows: Sequence[Row]) -> list[bool]:
    return [found.label == row.label for found, row in zip(predictions, rows, strict=True)]
