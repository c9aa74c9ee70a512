"""Tasks that read whole rows: one text or two, framed in one version or several."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plmkit.architectures.contract import Architecture
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.tasks.contract import Example, Row, Task
from plmkit.tasks.framing import Texts, frame_all
from plmkit.tasks.heads import SEPARATOR
from plmkit.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class RowTask(Task):
    """A task with one answer per row, which may be read in several versions."""

    reads: ClassVar[frozenset[str]] = frozenset({"pooled"})

    def versions(self, row: Row) -> list[Texts]:
        """The texts that are framed for a row: one input each."""
        return [(row.text, row.other)]

    @abstractmethod
    def target(self, row: Row) -> int | float | np.ndarray:
        """The label of a row as the head reads it."""

    def framed(
        self, rows: Sequence[Row], tokenizer: Tokenizer, length: int, *, choosing: bool = False
    ) -> list[Example]:
        self.check_pooling(tokenizer)
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

    def check_pooling(self, tokenizer: Tokenizer) -> None:
        if self.pooling == SEPARATOR and tokenizer.vocabulary.separator is None:
            raise SettingError(
                tr(
                    "task.pooling=separator reads the state at the last separator, but this model's vocabulary ends a "
                    "row without one. Take first, last, mean or max."
                )
            )

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
