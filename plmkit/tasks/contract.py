"""What a task is: rows of a table, examples for a model, a head, predictions and scores."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import is_blank
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.inference.arguments import text_or_pair
from plmkit.language import comma, tr, translated
from plmkit.tasks.framing import Framed
from plmkit.tasks.heads import TaskHead
from plmkit.terminal.labels import label
from plmkit.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table: one text or two, and the label that a model should predict."""

    text: str
    other: str | None = None  # second text of a pair
    label: Any = None  # a class, a number, or whatever the task reads; None if it is missing
    choices: tuple[str, ...] = ()  # answers to choose from, of which the label is one
    line: int  # 1-based line, or row of a Parquet file

    @property
    def blank(self) -> bool:
        """Whether a text is missing."""
        return is_blank(self.text) or (self.other is not None and is_blank(self.other))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The rows of one file that have text and label."""

    path: Path
    rows: list[Row]
    columns: Columns  # that were read
    names: tuple[str, ...]  # of all columns


@dataclass(frozen=True, kw_only=True)
class Example:
    """A row as a model reads it, framed once and used in every epoch."""

    row: Row
    inputs: tuple[Framed, ...]  # several where it is read in both orders, or with each choice
    label: int | float | np.ndarray | None = None  # as the head reads it; an array has one for every token
    words: np.ndarray | None = None  # (L,) the word that each token of the input belongs to, or -1

    @property
    def cut(self) -> int:
        """Number of tokens that did not fit."""
        return max(framed.cut for framed in self.inputs)

    @property
    def length(self) -> int:
        """Tokens of its longest input."""
        return max(len(framed.tokens) for framed in self.inputs)

    @property
    def padded(self) -> int:
        """Positions that it takes in a batch of examples like it."""
        return self.length * len(self.inputs)


def unknown_share(examples: Sequence[Example], vocabulary: Vocabulary) -> float:
    """The share of the tokens that are unknown to a vocabulary."""
    tokens = [framed.tokens for example in examples for framed in example.inputs]
    return vocabulary.unknown_share(np.concatenate(tokens)) if tokens else 0.0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A class with its probability and those of all classes, or a number; None for a blank text."""

    label: Any
    probability: float | None = None
    probabilities: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The score of an answer that does not depend on the text."""

    answer: str  # predicted for every text, in English: a run folder keeps it
    label: str | None = None  # that the answer is, if it is one
    measure: str
    score: float

    def __str__(self) -> str:
        return tr("{answer}: {measure} {score:.3f}", answer=self.shown, measure=label(self.measure), score=self.score)

    @property
    def shown(self) -> str:
        """The answer in the reader's language."""
        answer = translated(self.answer)
        return answer if self.label is None else tr("{answer}, {label}", answer=answer, label=self.label)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One task: how its rows are read, framed, answered and scored, with everything that a run folder keeps of it."""

    kind: ClassVar[str]  # by which the registry lists it
    best: ClassVar[str] = "accuracy"  # the score by which the best epoch is chosen: higher is better
    problem: ClassVar[str | None] = None  # of the Hugging Face classifier it is exported as; None: no such classifier

    name: str = ""  # of its head; by default its kind
    classes: tuple[str, ...] = ()  # that a label may be; none where the answer is a number
    pooling: str = "first"  # which hidden states a head for whole rows reads
    length: int = 512  # tokens per row, special tokens included
    columns: Columns = Columns()  # that it was trained on

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.kind)
        if not self.name.isidentifier():
            raise SettingError(tr("A task name has only letters, digits and '_'; found '{name}'.", name=self.name))

    @abstractmethod
    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        """The rows of a table, those without text included, and the columns that were read."""

    @abstractmethod
    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        """The rows as token ids, at most `length` each, with labels in the shape that the head reads."""

    @abstractmethod
    def head(self, architecture: Architecture, dropout: float = 0.1) -> TaskHead:
        """A new head over the states of an architecture."""

    @abstractmethod
    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        """What the head's answers, (examples, ...) on the CPU, predict for each example."""

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """How good the predictions are; `best` is one of the scores."""

    def render(self, prediction: Prediction) -> dict[str, Any]:
        """The columns that `plm predict` adds to a row."""
        return {"prediction": prediction.label}

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        """The task with what its training rows determine, such as the classes; refuses rows unfit for training."""
        return self

    def check(self, rows: Sequence[Row], path: Path) -> None:  # noqa: B027 (optional)
        """Refuse labels that were never seen in training."""

    def remark(self, file: Labelled, say: Say) -> None:  # noqa: B027 (optional)
        """Warn about training labels that are probably not what was meant."""

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        """Row `number` of the input of a Python caller."""
        text, other = text_or_pair(given, number)
        return Row(text=text, other=other, line=number)

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline | None:
        """The score of one answer for all texts, taken from the training labels."""
        return None

    def describe(self, rows: Sequence[Row]) -> str:
        """The labels of the training rows, in a few words."""
        return tr("{count:,} different labels", count=len({str(row.label) for row in rows}))

    @property
    def answers(self) -> str:
        """What it predicts, in a few words."""
        return comma().join(self.classes)

    @property
    def fixed_length(self) -> int | None:
        """The length to which every row is padded, where the head needs one."""
        return self.length if self.pooling == "concat" else None


def stored(task: Task) -> dict[str, Any]:
    """The task as run.json has it."""
    from plmkit.config.settings import to_json

    return {"kind": task.kind, **{field.name: to_json(getattr(task, field.name)) for field in fields(task)}}
