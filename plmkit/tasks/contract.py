"""What a task is: rows of a table, examples for a model, a head, predictions and scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import is_blank
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.inference.arguments import text_or_pair
from plmkit.language import comma, tr, translated
from plmkit.tasks.framing import Framed
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.ngrams import LinearModel, Ngrams, Vector
from plmkit.tasks.report.report import Report
from plmkit.tasks.tables import open_tables
from plmkit.terminal.labels import label
from plmkit.tokenizers.tokenizer import Tokenizer

SEQUENCE, TOKEN = "sequence", "token"  # levels of answers: one for a whole row, or one for each of its tokens
TAKEN = {*dir(nn.ModuleDict()), "row_lm"}  # names that torch and GPT's language-model loss use beside those of heads


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table: one text or two, and the label that a model should predict."""

    text: str
    other: str | None = None  # second text of a pair
    label: Any = None  # a class, a number, or whatever the task reads; None if it is missing
    choices: tuple[str, ...] = ()  # answers to choose from, of which the label is one
    line: int  # 1-based line, or row of a Parquet file
    id: str = ""  # as the file has it, where the kind reads one or lines do not tell rows apart
    number: int | None = None  # of the row in the file, from 1, where lines do not tell rows apart
    places: tuple[int, ...] = ()  # indices of the rows of the table that it was made of, where these are several

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
    label: int | float | np.ndarray | None = None  # as the head reads it; an array has one for every word
    words: np.ndarray | None = None  # (W, 2) the input that each word is predicted in, and its place; < 0: from the end
    windows: int = 1  # into which a text that is too long was split
    versions: int = 1  # inputs per window, where each window is trained on by itself; those of a window are neighbours
    ngrams: Vector | None = None  # of its texts, where the head reads them
    soft: np.ndarray | None = None  # in distillation, the teacher's answer

    def alone(self, number: int) -> Self:
        """The same with one of its windows, for a kind whose windows are trained on one by one."""
        own = self.inputs[number * self.versions : (number + 1) * self.versions]
        return replace(self, inputs=own, windows=1)

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

    def as_json(self) -> dict[str, Any]:
        """As `plm predict --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The score of an answer that needs no network, such as one label for all texts."""

    answer: str  # in English: a run folder keeps it
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


def learned(default: Any) -> Any:
    """A field of a kind that training determines, so that it is not a setting."""
    return field(default=default, metadata={"learned": True})


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One task: how its rows are read, framed, answered and scored, with everything that a run folder keeps of it."""

    kind: ClassVar[str]  # by which the registry lists it
    reads: ClassVar[frozenset[str]] = frozenset({"hidden"})  # fields of `States` that its head reads by default
    best: ClassVar[str] = "accuracy"  # the score by which the best epoch is chosen: higher is better
    problem: ClassVar[str | None] = None  # by which interop.task_heads lists it; None: no Hugging Face head computes it
    writes: ClassVar[tuple[str, ...]] = ()  # endings of files that `plm predict` can write, besides those of tables
    levels: ClassVar[frozenset[str]] = frozenset({SEQUENCE})  # whether it answers for the row, for its tokens, or both
    apart: ClassVar[bool] = False  # in predictions, every input of an example is read by itself, as one row
    usual_length: ClassVar[int | None] = None  # tokens per row by default, if fewer than the model's maximum
    asks: ClassVar[bool] = False  # a row is a question about a text
    grouped: ClassVar[bool] = False  # it ranks the rows of a table that have the same query together
    embeds: ClassVar[bool] = False  # what it trains are vectors of texts, which `plm embed` gives and an export has
    tunes: ClassVar[bool] = False  # after training, `tuned` chooses something on dev
    together: ClassVar[tuple[str, ...]] = ("text", "other", "choices")  # rows with equal ones are held out together

    name: str = ""  # of its head; by default its kind
    classes: tuple[str, ...] = ()  # that a label may be; none where the answer is a number
    pooling: str = "first"  # which hidden states a head for whole rows reads
    length: int = 512  # tokens per row, special tokens included
    columns: Columns = Columns()  # that it was trained on
    ngrams: Ngrams | None = None  # that the head reads; kept in a file of its own
    dropout: float | None = None  # before its head, where it differs from that of the other tasks

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.kind)
        if not self.name.isidentifier():
            raise SettingError(tr("A task name has only letters, digits and '_'; found '{name}'.", name=self.name))
        if self.name in TAKEN:
            raise SettingError(tr("'{name}' cannot be the name of a task. Choose another.", name=self.name))

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """The fields that a kind adds, which `--set task.NAME` takes; their comments explain them."""
        common = {part.name for part in fields(Task)}
        return tuple(part.name for part in fields(cls) if part.name not in common and not part.metadata.get("learned"))

    @classmethod
    def unsupported(cls, architecture: Architecture) -> str | None:
        """Why an architecture cannot be fine-tuned on this kind, in a few words; None: it can."""
        if architecture.describes_images:
            return tr("it describes images and reads no texts")
        if missing := cls.reads - architecture.for_task(0.0).writes:
            return tr("its states lack {missing}", missing=comma().join(sorted(missing)))
        return None

    def open(self, path: str | Path, search: Search, say: Say) -> Table:
        """The table of a file."""
        return next(self.blocks(path, search, say))

    def blocks(
        self, path: str | Path, search: Search, say: Say, size: BlockSize | None = None
    ) -> Iterator[Table]:  # fmt: skip
        """The table in blocks of rows that do not need each other, without a size in one; at least one.

        A kind may know other formats than tables, and read as a whole what cannot be read in blocks.
        """
        return open_tables(path, search, say, size)

    @abstractmethod
    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        """The rows of a table, those without text included, and the columns that were read."""

    @abstractmethod
    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        """The rows as token ids, at most `length` each, with labels in the shape that the head reads."""

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples, ...) in the shape that the head reads; `width` is the padded length of the rows."""
        return torch.tensor([example.label for example in examples])

    def for_epoch(self, examples: Sequence[Example], seed: int, epoch: int) -> Sequence[Example]:
        """The examples that an epoch trains on: a pure function of (seed, epoch), and the same number in each."""
        return examples

    def examples_per_step(self, batch: int) -> int:
        """Examples per step, where `task.batch` is a number of rows that the network reads."""
        return batch

    @abstractmethod
    def head(self, architecture: Architecture, dropout: float = 0.1) -> TaskHead:
        """A new head over the states of an architecture."""

    @abstractmethod
    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        """What the head's answers, (examples, ...) on the CPU, predict for each example.

        With `apart`, the answers, (inputs, ...), are those of one example.
        """

    @abstractmethod
    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """How good the predictions are; `best` is one of the scores."""

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        """The scores with their intervals, and what is behind them: classes, calibration, the hardest mistakes."""
        return Report(scores=self.score(predictions, rows))

    def chosen_by(self, scores: Mapping[str, Any]) -> str:
        """The one of these scores that chooses the best epoch, where it depends on the rows."""
        return self.measure

    def tuned(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Self:
        """The task with what predictions for the dev rows determine, such as a threshold."""
        return self

    def revised(self, prediction: Prediction) -> Prediction:
        """A prediction of this task before it was tuned, as it is now."""
        return prediction

    def in_weights(self, weights: dict[str, Tensor]) -> tuple[Self, dict[str, Tensor]]:
        """The same predictions by the weights of the network alone, as far as these can give them."""
        return self, weights

    def render(self, prediction: Prediction) -> dict[str, Any]:
        """The columns that `plm predict` adds to a row."""
        return {"prediction": prediction.label}

    def nothing(self) -> Prediction:
        """The prediction for a blank text."""
        return Prediction(label=None)

    def by_line(self, predictions: Sequence[Prediction], rows: Sequence[Row], lines: int) -> list[Prediction]:
        """One prediction for each of the `lines` rows of the table that the rows were read from."""
        return list(predictions)

    def written(self, rows: Sequence[Row], predictions: Sequence[Prediction], ending: str) -> str:
        """The content of a file with one of the endings that it `writes`; a blank line comes between two blocks."""
        raise NotImplementedError(f"{type(self).__name__} writes tables only")

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        """The task with what its training rows determine, such as the classes; refuses rows unfit for training."""
        return self

    def strata(self, rows: Sequence[Row]) -> list[str]:
        """Of each row; of those that are held out as dev, the rows of each stratum are as many in proportion."""
        return [""] * len(rows)

    def jointly(self, rows: int, vocabulary: Vocabulary) -> Self:
        """The task as it is trained with others, on this many rows."""
        return self

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:  # noqa: B027 (optional)
        """Refuse labels that were never seen in training."""

    def remark(self, file: Labelled, say: Say) -> None:  # noqa: B027 (optional)
        """Warn about training labels that are probably not what was meant."""

    def input_row(self, given: Any, number: int, model: Path) -> Row:
        """Row `number` of the input of a Python caller."""
        text, other = text_or_pair(given, number)
        return Row(text=text, other=other, line=number)

    def linear_model(self, matrix: csr_matrix, rows: Sequence[Row], strength: float) -> LinearModel | None:
        """A linear model over n-grams; the lower its strength, the more it is regularised. None: the kind has none."""
        return None

    def misfit(self, answers: Tensor, labels: Tensor) -> float:
        """The negative log-likelihood of the labels, by which answers of a network and a linear model are mixed."""
        raise NotImplementedError(f"{type(self).__name__} has no linear model")

    def shift(self, answers: Tensor, labels: Tensor) -> float:
        """What mixed answers lack on average."""
        return 0.0

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline | None:
        """The score to beat: that of one answer for all texts, taken from the training labels."""
        return None

    def baselines(self, train: Sequence[Row], rows: Sequence[Row]) -> tuple[Baseline, ...]:
        """All scores to compare with, the one to beat first."""
        found = self.baseline(train, rows)
        return (found,) if found else ()

    def describe(self, rows: Sequence[Row]) -> str:
        """The labels of the training rows, in a few words."""
        return tr("{count:,} different labels", count=len({str(row.label) for row in rows}))

    def log_probabilities(self, answers: Tensor) -> Tensor:
        """(..., classes) from logits: of classes that exclude each other."""
        return answers.log_softmax(-1)

    def joined(self, answers: Tensor) -> Tensor:
        """One answer from those for all windows of a text, (windows, ...)."""
        return answers.mean(0)

    @property
    def windows(self) -> bool:
        """Whether the inputs of an example are windows of its text, each trained on by itself."""
        return False

    @property
    def has_linear_model(self) -> bool:
        """Whether there is a linear model over n-grams for it."""
        return False

    @property
    def measure(self) -> str:
        """The score by which the best epoch is chosen, where it depends on the labels."""
        return self.best

    @property
    def refusal(self) -> str | None:
        """Why no Hugging Face class computes the same, although there is one for its kind."""
        return None

    @property
    def answers(self) -> str:
        """What it predicts, in a few words."""
        return comma().join(self.classes)

    @property
    def fixed_length(self) -> int | None:
        """The length to which every row is padded, where the head needs one."""
        return self.length if self.pooling == "concat" else None


def learned_by(task: Task) -> dict[str, Any]:
    """The fields that training determined, by name."""
    return {part.name: getattr(task, part.name) for part in fields(task) if part.metadata.get("learned")}


def stored(task: Task) -> dict[str, Any]:
    """The task as run.json has it."""
    from plmkit.config.settings import to_json

    kept = [part.name for part in fields(task) if part.name != "ngrams"]
    return {"kind": task.kind, **{name: to_json(getattr(task, name)) for name in kept}}
