"""The task stage: a student is fine-tuned on the answers of a fine-tuned teacher."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from plmkit.architectures.contract import Model
from plmkit.config.settings import to_json
from plmkit.data.reading.columns import Say, Search, ignore
from plmkit.distillation.answers import NAME, PROBLEMS, SoftAnswersHead
from plmkit.distillation.general import Student, TeacherGuide
from plmkit.distillation.initial import RANDOM
from plmkit.distillation.methods import find_method
from plmkit.distillation.settings import Distillation
from plmkit.distillation.teacher import check_comparable, shape_of, teacher_network
from plmkit.errors import InputError, SettingError
from plmkit.inference.loading import Parts, read_parts, without_generator
from plmkit.language import comma, several, tr
from plmkit.network import Network
from plmkit.objectives.contract import Head
from plmkit.objectives.distillation_states import (
    AttentionMatching,
    CosineStates,
    HiddenMatching,
    Matching,
    RelationMatching,
)
from plmkit.tasks.batches import answers_of
from plmkit.tasks.contract import Example, Prediction, Row, Task
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import load_tokenizer

COMPARED: dict[str, tuple[type[Matching], ...]] = {  # what a method compares besides the answers
    "distilbert": (CosineStates,),
    "tinybert": (HiddenMatching, AttentionMatching),
    "minilm": (RelationMatching,),
    "soft": (),
}
FIRST = ("tinybert", "minilm")  # methods that compare states before they compare answers


def student_parts(student: Student, teacher: Parts, name: str, tokenizer: Path | None, say: Say) -> Parts:
    """What the student starts from: a folder, or a network with initial weights and a tokenizer, the teacher's too."""
    if student.start is not None:
        return without_generator(read_parts(student.start, say))
    recipe = student.recipe
    return Parts(
        folder=Path(name), architecture=recipe.architecture, weights={},
        tokenizer=teacher.tokenizer if tokenizer is None else load_tokenizer(tokenizer),
        tuning=recipe.tuning, max_length=None,
    )  # fmt: skip


def check_teacher(teacher: Parts) -> Task:
    """The task of a fine-tuned teacher, if a student can learn it."""
    task = teacher.tasks[0]
    if len(teacher.tasks) > 1 or task.problem not in PROBLEMS or task.apart:
        raise SettingError(
            tr(
                "{teacher} answers for {tasks}: only a single task with one class, several classes, a number or a "
                "choice per row is distilled.",
                teacher=teacher.folder,
                tasks=comma().join(f"{one.name} ({one.kind})" for one in teacher.tasks),
            )
        )
    return task


@dataclass(frozen=True)
class Teaching:
    """A fine-tuned teacher, the student that it teaches, and how."""

    teacher: Parts
    student: Parts
    method: str
    settings: Distillation
    init: str | tuple[int, ...] = RANDOM
    unlabelled: Path | None = None
    search: Search = field(default_factory=Search)
    say: Say = ignore
    counts: dict[str, int] = field(default_factory=dict)  # of labelled rows and of all, once they are read

    def __post_init__(self) -> None:
        find_method(self.method)
        if COMPARED[self.method]:
            for parts, what in ((self.teacher, tr("The teacher")), (self.student, tr("The student"))):
                check_comparable(parts.architecture, parts.folder, what)
            self.guide.alignment(self.student.tokenizer)  # refuses vocabularies that are too different

    @cached_property
    def guide(self) -> TeacherGuide:
        return TeacherGuide(self.teacher, False, self.init, bool(self.student.weights))

    @cached_property
    def as_json(self) -> dict[str, Any]:
        own = self.guide.as_json
        extra = {"unlabelled": str(self.unlabelled)} if self.unlabelled else {}
        return {**own, "method": self.method, "settings": to_json(self.settings), **extra}

    def task(self, own: Task, path: Path) -> Task:
        theirs = check_teacher(self.teacher)
        if own.problem != theirs.problem:
            raise InputError(
                tr(
                    "{path}: the teacher answers {theirs}, but the labels of these rows are for {ours}.",
                    path=path,
                    theirs=theirs.kind,
                    ours=own.kind,
                )
            )
        if unknown := [name for name in own.classes if name not in theirs.classes]:
            raise InputError(
                tr(
                    "{path}: the teacher does not know the class '{unknown}'; it knows {known}.\n"
                    "Correct the labels, or fine-tune the teacher on rows like these.",
                    path=path,
                    unknown=unknown[0],
                    known=comma().join(theirs.classes),
                )
            )
        return replace(own, classes=theirs.classes)

    def taught(self, task: Task, rows: list[Example], screen: Screen) -> list[Example]:
        if task.windows:
            raise SettingError(tr("Texts in windows are not distilled. Leave task.long out."))
        theirs = check_teacher(self.teacher)
        every = [example.row for example in rows]
        more = self.more_rows(task, screen) if self.unlabelled else []
        screen.say(tr("The teacher answers for {rows}.", rows=several(len(every) + len(more), "row")))
        device = torch.device("cpu")
        network = teacher_network(self.teacher, device)
        length = min(theirs.length, self.teacher.max_length or theirs.length)
        given = [replace(row, label=None) for row in (*every, *more)]
        framed = theirs.frame(given, self.teacher.tokenizer, length)
        with torch.inference_mode():
            answers = answers_of(network, theirs, framed, self.teacher.tokenizer.vocabulary, device).clone()
        soft = answers.float().numpy()
        rows = [replace(example, soft=own) for example, own in zip(rows, soft, strict=False)]
        self.counts.update(labelled=len(rows), all=len(rows) + len(more))
        if not more:
            return rows
        labelled = [
            replace(row, label=label_of(task, one, row))
            for row, one in zip(more, theirs.decide(answers[len(every) :], framed[len(every) :]), strict=True)
        ]
        extra = task.frame(labelled, self.student.tokenizer, task.length)
        return [*rows, *(replace(one, soft=own) for one, own in zip(extra, soft[len(every) :], strict=True))]

    def more_rows(self, task: Task, screen: Screen) -> list[Row]:
        assert self.unlabelled is not None
        search = replace(self.search, reported=True)
        table = task.open(self.unlabelled, search, screen.say)
        found = task.read(table, search, screen.say, labelled=False)[0]
        return [row for row in found if not row.blank]

    def heads(self, task: Task, model: Model) -> dict[str, Head]:
        first = self.method in FIRST
        since = self.settings.matching_share if first else 0.0
        shape = shape_of(self.teacher.architecture)
        built: Any = model
        made: dict[str, Head] = {
            kind.name: kind(**shape, until=since or 1.0).build(built) for kind in COMPARED[self.method]
        }
        return {**made, NAME: SoftAnswersHead(task.name, str(task.problem), self.settings.temperature, since)}

    def weights(self, task: Task) -> dict[str, float]:
        settings = self.settings
        matching = {kind.name: settings.matching_weight for kind in COMPARED[self.method]}
        return {**matching, task.name: settings.label_weight, NAME: settings.soft_weight}

    def ready(self, network: Network, device: torch.device) -> None:
        guide, tokenizer = self.guide, self.student.tokenizer
        guide.initialise(network, tokenizer, self.say)
        if COMPARED[self.method]:
            guide.attach(network, tokenizer, device, self.say)


def label_of(task: Task, prediction: Prediction, row: Row) -> Any:
    """What the teacher predicts, as a label of the row."""
    if task.problem == "multilabel":
        return tuple(name for name, share in (prediction.probabilities or {}).items() if share >= 0.5)
    return prediction.label


@dataclass(frozen=True)
class Untaught:
    """The same student on labels only, for as many steps: what it is compared with."""

    student: Parts
    as_json: dict[str, Any] = field(default_factory=dict)

    def task(self, own: Task, path: Path) -> Task:
        return own

    def taught(self, task: Task, rows: list[Example], screen: Screen) -> list[Example]:
        return rows

    def heads(self, task: Task, model: Model) -> dict[str, Head]:
        return {}

    def weights(self, task: Task) -> dict[str, float]:
        return {}

    def ready(self, network: Network, device: torch.device) -> None:
        pass
