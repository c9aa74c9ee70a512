"""run.json as types: the settings of a run, its state and its result."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from plmkit import __version__
from plmkit.architectures.contract import Architecture
from plmkit.config.machine import Machine
from plmkit.config.settings import to_json
from plmkit.recipe import Recipe, recipe_from_json
from plmkit.schedules.schedule import Tuning
from plmkit.training.differences import ChangedFile, Difference, differences, picked, plain_paths
from plmkit.training.loop import Budget
from plmkit.training.record_fields import (
    Fields,
    budget_of,
    choice_of,
    is_a,
    list_of,
    machine_of,
    skipgram_of,
    tasks_of,
)
from plmkit.vectors.settings import SkipGram

FORMAT = 2  # in format 1, a fine-tuning had one task without a name: plmkit.config.older_versions reads it
FINISHED, UNFINISHED = "finished", "unfinished"
PROSE = ("summary", "notes", "for_minutes", "paper", "tuning")  # of a recipe: may differ between versions
# settings of `run` that change the training data
DECIDING = ("layout", "column", "header", "weights", "valid_share")


# what older versions did not keep: of a task, fields that a run of theirs says nothing about, and others by what they
# did; of the settings, what they did
UNKNOWN = ("columns", "temperature")
TASK_BEFORE: dict[str, Any] = {"long": "cut", "label_smoothing": 0.0, "sigmoid": False}
SETTINGS_BEFORE: dict[str, Any] = {"evaluations": 1, "task_embedding": None}
HELD_OUT = 0.1  # the default task.dev_share; older versions held nothing out


@dataclass(frozen=True, kw_only=True)
class RunRecord(ABC):
    """The content of run.json that all kinds of runs share."""

    kind: ClassVar[str]

    run: Machine
    seed: int
    state: str = UNFINISHED
    dtype: str | None = None  # precision; None: not decided yet
    checksum: str | None = None  # of the weights; a finished run that is being extended keeps its model's
    result: dict[str, Any] = field(default_factory=dict)  # empty until the run is finished

    @property
    def is_finished(self) -> bool:
        return self.state == FINISHED

    @property
    def has_model(self) -> bool:
        """Whether there are final weights: of a run that is finished, or was before it was extended."""
        return self.is_finished or self.checksum is not None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: Path) -> Self:
        """The record that `as_json` wrote, by this version or an older one; `where` is the file, for errors."""
        fields = Fields(Fields(data, where).upgraded(), where)
        if (state := fields.read("state", is_a(str))) not in (FINISHED, UNFINISHED):
            raise fields.damaged(f"'state': {state}")
        ended = fields.read if state == FINISHED else fields.optional
        return cls(
            run=fields.optional("run", machine_of) or Machine(),
            seed=fields.read("seed", is_a(int)),
            state=state,
            dtype=fields.optional("dtype", is_a(str)),
            checksum=ended("checksum", is_a(str)),
            result=ended("result", is_a(dict)) or {},
            **cls.own_fields(fields),
        )

    @classmethod
    @abstractmethod
    def own_fields(cls, fields: Fields) -> dict[str, Any]:
        """The additional fields of this kind of run."""

    def as_json(self) -> dict[str, Any]:
        ended = {"dtype": self.dtype, "checksum": self.checksum, "result": self.result}
        return {
            "plmkit": __version__,
            "format": FORMAT,
            "kind": self.kind,
            "state": self.state,
            **self.own_json(),
            "run": to_json(self.run),
            "seed": self.seed,
            **{name: value for name, value in ended.items() if value},
        }

    @abstractmethod
    def own_json(self) -> dict[str, Any]:
        """The same as JSON."""

    @abstractmethod
    def differences(self, new: Self) -> list[Difference]:
        """Settings of another run that would train something else."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecord(RunRecord):
    """The content of run.json of a pretraining run."""

    kind = "pretrain"

    recipe: Recipe
    corpora: tuple[str, ...]
    budget: Budget
    asked: Budget  # the same, unless the run was extended
    start: str | None = None  # model whose weights were the initial ones
    tokenizer: str | None = None
    valid: str | None = None
    tokens_key: str | None = None  # of the prepared text; None: not prepared yet
    teacher: dict[str, Any] | None = None  # in distillation: its folder, the checksum of its weights, and its settings

    @classmethod
    def own_fields(cls, fields: Fields) -> dict[str, Any]:
        budget = fields.read("budget", budget_of)
        return {
            "recipe": fields.read("recipe", recipe_from_json),
            "corpora": fields.read("corpora", list_of(str)),
            "budget": budget,
            "asked": fields.optional("asked", budget_of) or budget,
            "start": fields.optional("from", is_a(str)),
            "tokenizer": fields.optional("tokenizer", is_a(str)),
            "valid": fields.optional("valid", is_a(str)),
            "tokens_key": fields.read("tokens_key", is_a(str)),
            "teacher": fields.optional("teacher", is_a(dict)),
        }

    def own_json(self) -> dict[str, Any]:
        return {
            "recipe": to_json(self.recipe),
            "corpora": list(self.corpora),
            "budget": budget_json(self.budget),
            "asked": budget_json(self.asked),
            "from": self.start,
            "tokenizer": self.tokenizer,
            "valid": self.valid,
            "tokens_key": self.tokens_key,
            **({"teacher": self.teacher} if self.teacher else {}),
        }

    def differences(self, new: Self) -> list[Difference]:
        old_data, new_data = self.as_json(), new.as_json()
        unused = {"tokenizer"} if new.start or new.tokenizer else set()  # a tokenizer comes from elsewhere
        choices = [name for name in new_data["recipe"] if name not in PROSE and name not in unused]
        named = ("corpora", "seed", "from", "tokenizer", "valid")
        found = differences(picked(old_data["recipe"], choices), picked(new_data["recipe"], choices))
        found += differences(plain_paths(picked(old_data, named)), plain_paths(picked(new_data, named)))
        found += differences(plain_paths(self.teacher), plain_paths(new.teacher), "teacher")
        if not self.is_finished:  # a finished run is extended by a budget of its own
            found += differences(old_data["asked"], new_data["asked"], "budget")
        return found + differences(picked(old_data["run"], DECIDING), picked(new_data["run"], DECIDING), "run")


def budget_json(budget: Budget) -> dict[str, Any]:
    return {name: value for name, value in vars(budget).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FinetuneRecord(RunRecord):
    """The content of run.json of a fine-tuning run."""

    kind = "finetune"

    model: str
    step: int | None = None  # of the model's checkpoint, if its run was not finished
    tasks: tuple[dict[str, Any], ...]  # as `stored` of plmkit.tasks.contract makes them
    task: dict[str, Any]  # settings of the fine-tuning
    tuning: Tuning | None = None
    architecture: Architecture
    files: dict[str, str | None]  # train, dev and test
    contents: dict[str, str | None]  # their checksums
    seeds: int = 1
    seconds: float | None = None
    learned: dict[str, dict[str, Any]] = field(default_factory=dict)  # of each task, what training determined
    search: dict[str, Any] | None = None  # its minutes, and the tasks and settings that it started from
    teacher: dict[str, Any] | None = None  # in distillation: its folder, the checksum of its weights, and its settings

    @property
    def trained_tasks(self) -> list[dict[str, Any]]:
        """The tasks with what training determined."""
        return [{**task, **self.learned.get(task.get("name") or "", {})} for task in self.tasks]

    @classmethod
    def own_fields(cls, fields: Fields) -> dict[str, Any]:
        return {
            "model": fields.read("model", is_a(str)),
            "step": fields.optional("step", is_a(int)),
            "tasks": fields.read("tasks", tasks_of),
            "task": fields.read("task", is_a(dict)),
            "tuning": fields.optional("tuning", choice_of("tuning")),
            "architecture": fields.read("architecture", choice_of("architecture")),
            "files": fields.optional("files", is_a(dict)) or {},
            "contents": fields.optional("contents", is_a(dict)) or {},
            "seeds": fields.optional("seeds", is_a(int)) or 1,
            "seconds": fields.optional("seconds", float),
            "learned": fields.optional("learned", is_a(dict)) or {},
            "search": fields.optional("search", is_a(dict)),
            "teacher": fields.optional("teacher", is_a(dict)),
        }

    def own_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "step": self.step,
            "tasks": list(self.tasks),
            "task": self.task,
            "tuning": to_json(self.tuning),
            "architecture": to_json(self.architecture),
            "files": self.files,
            "contents": self.contents,
            "seeds": self.seeds,
            **({} if self.seconds is None else {"seconds": self.seconds}),
            **({"learned": self.learned} if self.learned else {}),
            **({"search": self.search} if self.search else {}),
            **({"teacher": self.teacher} if self.teacher else {}),
        }

    def differences(self, new: Self) -> list[Difference]:
        """The machine does not change what is trained; of files, messages say whether they changed."""
        old_data, new_data = self.as_json() | (self.search or {}), new.as_json() | (new.search or {})
        searched = differences(bool(self.search), bool(new.search), "search")
        if self.is_finished and self.search and new.search:  # one that is not may take longer
            searched = differences(self.search["minutes"], new.search["minutes"], "minutes")
        if len(self.tasks) == len(new.tasks):
            old_data["tasks"] = [
                {
                    **{name: value for name, value in TASK_BEFORE.items() if name in wanted},
                    **old,
                    **{name: wanted[name] for name in UNKNOWN if name in wanted and not old.get(name)},
                }
                for old, wanted in zip(old_data["tasks"], new_data["tasks"], strict=True)
            ]
        old_data["task"] = {**SETTINGS_BEFORE, **old_data["task"]}
        if self.is_finished and "dev_share" not in old_data["task"] and new_data["task"].get("dev_share") == HELD_OUT:
            old_data["task"]["dev_share"] = HELD_OUT  # the same command; it is not trained again
        compared = ("model", "step", "tasks", "task", "tuning", "architecture", "files", "seed", "seeds")
        return (
            searched
            + differences(plain_paths(self.teacher), plain_paths(new.teacher), "teacher")
            + differences(picked(old_data, compared), picked(new_data, compared))
            + [
                ChangedFile(path=path, old=self.contents.get(name), new=new.contents[name])
                for name, path in new.files.items()
                if path is not None and path == self.files.get(name) and self.contents.get(name) != new.contents[name]
            ]
        )


@dataclass(frozen=True, kw_only=True)
class VectorsRecord(RunRecord):
    """The content of run.json of word vectors."""

    kind = "vectors"

    skipgram: SkipGram | None = None  # None: the vectors were imported
    corpora: tuple[str, ...]  # or the file that was imported
    corpus_key: str | None = None  # fingerprint of their content; None: imported, or of an older version
    lowercase: bool = False  # words are looked up in lower case

    @classmethod
    def own_fields(cls, fields: Fields) -> dict[str, Any]:
        return {
            "skipgram": fields.optional("skipgram", skipgram_of),
            "corpora": fields.read("corpora", list_of(str)),
            "corpus_key": fields.optional("corpus_key", is_a(str)),
            "lowercase": fields.read("lowercase", bool),
        }

    def own_json(self) -> dict[str, Any]:
        return {
            "skipgram": to_json(self.skipgram),
            "corpora": list(self.corpora),
            "corpus_key": self.corpus_key,
            "lowercase": self.lowercase,
        }

    def differences(self, new: Self) -> list[Difference]:
        compared = ("skipgram", "corpora", "lowercase", "run", "seed")
        return differences(picked(self.as_json(), compared), picked(new.as_json(), compared))


RECORDS: dict[str, type[RunRecord]] = {
    record.kind: record for record in (PretrainRecord, FinetuneRecord, VectorsRecord)
}
