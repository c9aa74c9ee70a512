"""A task with the files of its rows, and what is made of them before training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import torch

from plmkit.architectures.contract import Model
from plmkit.data.randomness import generator
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.errors import SettingError
from plmkit.inference.loading import Parts
from plmkit.language import tr
from plmkit.network import Network
from plmkit.objectives.contract import Head
from plmkit.tasks.batches import one_by_one
from plmkit.tasks.contract import Example, Labelled, Task
from plmkit.tasks.floor import Floor, with_ngrams
from plmkit.tasks.holding_out import hold_out
from plmkit.tasks.rows import read_labelled
from plmkit.tasks.settings import Settled, TaskSettings
from plmkit.tasks.task_run import TaskData
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer

LENGTH_STEP = 8
SAMPLE = 1000  # training rows that are scored, to compare with dev
FEWEST = 2  # training rows
DRAWN = 13  # key of the random numbers for the rows that are drawn
Some = TypeVar("Some")


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """A task, and the files of its rows."""

    task: Task
    train: Path
    dev: Path | None = None
    test: Path | None = None
    columns: Columns = Columns()  # where to read text and label

    @property
    def paths(self) -> dict[str, Path | None]:
        return {"train": self.train, "dev": self.dev, "test": self.test}


class Request(Protocol):
    """What a task needs to know of the whole fine-tuning."""

    @property
    def model(self) -> Path: ...

    @property
    def settings(self) -> TaskSettings: ...

    @property
    def seed(self) -> int: ...

    @property
    def is_joint(self) -> bool: ...

    @property
    def scores_train(self) -> bool: ...

    @property
    def guide(self) -> "TaskGuide | None": ...


class TaskGuide(Protocol):
    """A fine-tuned teacher and what it does for the fine-tuning of a student: `plm distill` gives it."""

    @property
    def student(self) -> Parts:
        """What the student starts from."""

    @property
    def as_json(self) -> dict[str, Any]:
        """What run.json keeps of it: a run continues with the same one."""

    def task(self, own: Task, path: Path) -> Task:
        """The task as the training rows determine it, with the classes of the teacher."""

    def taught(self, task: Task, rows: list[Example], screen: Screen) -> list[Example]:
        """The training examples with the teacher's answers, and further ones that have no label of their own."""

    def heads(self, task: Task, model: Model) -> dict[str, Head]:
        """What the student is trained on beside the head of its task."""

    def weights(self, task: Task) -> dict[str, float]:
        """The loss weights of these heads, and of that of the task."""

    def ready(self, network: Network, device: torch.device) -> None:
        """Put the teacher's weights into a network with initial weights, and let its heads read its states."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A task as its training rows determine it, with the rows of its files."""

    task: Task
    files: dict[str, Labelled]
    train: list[Example]
    sample: list[Example]  # of the training rows, to score
    said: str = ""  # about rows that are held out as dev

    def shorter(self, length: int, tokenizer: Tokenizer) -> Self:
        """The same with rows of at most `length` tokens."""
        train = self.task.frame(self.files["train"].rows, tokenizer, length)
        sample = self.task.frame([example.row for example in self.sample], tokenizer, length)
        return replace(self, task=replace(self.task, length=length), train=train, sample=sample)

    def data(self, tokenizer: Tokenizer, floor: Floor | None = None) -> TaskData:
        """With all rows framed, and a linear model, if it is not given, where the task reads n-grams."""
        dev, test = (
            self.task.frame(self.files[name].rows, tokenizer, self.task.length) if name in self.files else []
            for name in ("dev", "test")
        )
        floor = floor or (Floor(self.task, self.train, dev) if self.task.ngrams else None)
        train = one_by_one(self.task, self.train)
        return TaskData(task=self.task, train=train, dev=dev, test=test, sample=self.sample, floor=floor)


def taken_up(given: TaskFiles, request: Request, settings: Settled, parts: Parts, screen: Screen) -> Taken:
    """Read the files of a task, and frame its training rows."""
    files = read_files(given, screen)
    task = task_from(given, request.settings, files, screen.say)
    if request.guide:
        task = request.guide.task(task, given.train)
    if request.settings.train_share is not None:  # the classes are those of all rows
        files["train"] = share_of(files["train"], request.settings.train_share, request.seed, task.classes)
    files, said = hold_out(files, task, settings.dev_share) if settings.dev_share and not given.dev else (files, "")
    if reads_ngrams(task, "dev" in files, request.settings, settings):
        task = with_ngrams(task, files["train"].rows)
    longest = parts.architecture.max_length
    train = task.frame(files["train"].rows, parts.tokenizer, length_of(request, task, longest))
    task = replace(task, length=settled_length(request, task, train, longest))
    if request.guide:
        train = request.guide.taught(task, train, screen)
    if request.is_joint:
        task = task.jointly(len(train), parts.tokenizer.vocabulary)
    sample = some_of(train, SAMPLE, request.seed) if request.scores_train else []
    return Taken(task=task, files=files, train=train, sample=sample, said=said)


def some_of(rows: list[Some], count: int, seed: int) -> list[Some]:
    """At most `count` of them, at random and in their order: a pure function of the seed."""
    kept = generator(seed, DRAWN).permutation(len(rows))[:count]
    return [rows[number] for number in sorted(kept.tolist())]


def share_of(file: Labelled, share: float, seed: int, classes: Sequence[str]) -> Labelled:
    """A share of the rows, drawn at random, with at least one row of every class."""
    order = generator(seed, DRAWN).permutation(len(file.rows)).tolist()
    first = {file.rows[number].label: number for number in reversed(order) if file.rows[number].label in classes}
    drawn = list(dict.fromkeys((*first.values(), *order)))
    count = max(FEWEST, len(first), round(share * len(file.rows)))
    return replace(file, rows=[file.rows[number] for number in sorted(drawn[:count])])


def read_files(given: TaskFiles, screen: Screen) -> dict[str, Labelled]:
    """The given files; the columns of the training rows are preferred in the others."""
    train = read_labelled(given.train, given.task, Search(named=given.columns), screen.say)
    search = Search(named=given.columns, trained=train.columns, reported=True)
    paths = {"dev": given.dev, "test": given.test}
    return {"train": train} | {
        name: read_labelled(path, given.task, search, screen.say) for name, path in paths.items() if path
    }


def task_from(given: TaskFiles, settings: TaskSettings, files: dict[str, Labelled], say: Say) -> Task:
    """The task with what its training rows determine; the other files must fit it."""
    train = files["train"]
    task = replace(given.task, pooling=settings.pooling or given.task.pooling, columns=train.columns).learn(
        train.rows, given.train
    )
    for name, file in files.items():
        if name != "train":
            task.check(file.rows, file.path, say)
    return task


def reads_ngrams(task: Task, has_dev: bool, wanted: TaskSettings, settings: Settled) -> bool:
    """Whether the head reads n-grams: where dev can tell what they are worth, in tasks that have a linear model."""
    possible = task.has_linear_model and has_dev
    if wanted.ngrams and not possible:
        raise SettingError(
            tr(
                "task.ngrams=true needs --dev, to choose the share of the linear model, and a task with one class or "
                "number per row. Leave it out."
            )
        )
    return possible and settings.ngrams


def length_of(request: Request, task: Task, max_length: int) -> int:
    """The set length, or the model's maximum or the usual one: later texts may be longer than the training rows."""
    if request.settings.length and request.settings.length > max_length:
        raise SettingError(
            tr(
                "task.length={length}, but the maximum length of {model} is {max_length} tokens.",
                length=request.settings.length,
                model=request.model,
                max_length=max_length,
            )
        )
    return request.settings.length or min(task.usual_length or max_length, max_length)


def settled_length(request: Request, task: Task, train: list[Example], max_length: int) -> int:
    """Tokens per row; with concat pooling, no more than the training rows need."""
    if request.settings.pooling == "concat" and not request.settings.length:
        return min(-(-max(example.length for example in train) // LENGTH_STEP) * LENGTH_STEP, max_length)
    return length_of(request, task, max_length)
