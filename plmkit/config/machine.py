"""What `--set` reaches: the recipe's choices, and the settings of the machine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.config import habits
from plmkit.config.composing import SENTENCE_TASK, compose
from plmkit.config.older_versions import current
from plmkit.config.pretraining_tasks import TASKS, WITHOUT
from plmkit.config.settings import assign, checked, cut, names_in, not_a_value
from plmkit.config.streams import (
    Stages,
    Streams,
    assign_corruption,
    assign_stages,
    assign_stream,
    joined,
    one_per_stage,
)
from plmkit.errors import SettingError, did_you_mean, nearest
from plmkit.language import comma, tr
from plmkit.objectives.contract import Objective
from plmkit.recipe import Recipe

MOST_CORES = 1024  # of one machine
AXES = ("tokenizer", "corruption", "architecture", "objectives", "initialisation", "schedule")
STREAMS = ("streams", "stages")  # which corruptions are used when


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Settings of the machine and of reading the corpus: `--set run.NAME=...`."""

    device: str = "auto"  # auto, cpu, cuda or mps
    dtype: str = "auto"  # precision: auto, float32 or bfloat16
    threads: int | None = None  # threads for training; none: all free cores
    reader_workers: int | None = None  # processes that read text; none: all cores
    micro_batch: int | None = None  # rows per micro-batch (gradient accumulation), saves memory; none: the whole batch
    compile: bool = False  # torch.compile: a minute to start, then faster steps
    checkpoint_steps: int = 500  # steps between checkpoints
    kept_checkpoints: int = 2  # number of newest checkpoints that are kept, for `plm attend --checkpoints` too
    average: int = 1  # number of last checkpoints whose mean is the final model
    log_steps: int = 10  # steps between lines of the log
    validations: int = 5  # number of times the validation loss is measured during a run
    valid_share: float = 0.01  # share of the corpus that is held out, without --valid
    layout: str = "auto"  # documents of .txt files: auto, blank-lines, document-per-line or document-per-file
    column: str | None = None  # text column of tables; none: one of the usual names
    image_column: str | None = None  # column of image files, for captions; none: one of the usual names
    image_folder: str | None = None  # folder of these files; none: that of the table
    features: str | None = None  # folder or file with features of image regions, in place of pixels; none: a column
    names: tuple[str, ...] = ()  # tables with the names of entities and relations, for triples
    header: bool = True  # .csv and .tsv files have a header row; false: columns are numbered from 1
    weights: tuple[float, ...] = ()  # sampling weight of each corpus, in the order given

    def __post_init__(self) -> None:
        for name in ("checkpoint_steps", "kept_checkpoints", "average", "log_steps", "validations"):
            if getattr(self, name) < 1:
                raise SettingError(
                    tr("run.{name} must be 1 or more; found {value}.", name=name, value=getattr(self, name))
                )
        for name in ("threads", "reader_workers", "micro_batch"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingError(
                    tr(
                        "run.{name} must be 1 or more, or none; found {value}.",
                        name=name,
                        value=getattr(self, name),
                    )
                )
        for name in ("threads", "reader_workers"):
            if (getattr(self, name) or 0) > MOST_CORES:
                raise SettingError(
                    tr(
                        "run.{name} must be at most {maximum:,}; found {value:,}.",
                        name=name,
                        maximum=MOST_CORES,
                        value=getattr(self, name),
                    )
                )
        if not 0 <= self.valid_share <= 0.5:
            raise SettingError(tr("run.valid_share must be between 0 and 0.5; found {value}.", value=self.valid_share))
        if not all(0 < weight < math.inf for weight in self.weights):
            raise SettingError(tr("run.weights must all be above 0; found {weights}.", weights=list(self.weights)))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that `--set` reaches: the recipe's choices, and `run` for the machine."""

    recipe: Recipe
    run: Machine


def settle(recipe: Recipe, assignments: Sequence[str], machine: Machine = Machine()) -> Settings:
    """Apply `--set`: names start with an axis of the recipe, or with `run`; kinds are chosen before their settings."""
    choices, values = compose(recipe, [cut(assignment) for assignment in assignments])
    stages_text = None
    for name, text in values:  # choices are checked together once all are made
        root, *path = name.split(".")
        streams = choices.get("streams", recipe.streams)
        if root == "run":
            machine = assign(Settings(recipe=recipe, run=machine), [root, *path], text, name).run
        elif root == "corruption" and path:
            choices["streams"] = assign_corruption(streams, path, text, name)
        elif root == "corruption":
            raise not_a_value(name, recipe.corruption)
        elif root == "streams":
            choices["streams"] = assign_stream(streams, path, text, name)
        elif name == "stages":
            stages_text = text
        elif root in AXES and path:
            choices[root] = assign(choices.get(root, getattr(recipe, root)), path, text, name)
        elif root in AXES:
            choices[root] = getattr(assign(recipe, [root], text, name), root)  # tokenizer=ByteBPE
        else:
            raise SettingError(
                tr(
                    "There is no setting '{name}'.{meant} Names start with {axes} or run: `plm recipes {recipe}` "
                    "lists them.",
                    name=name,
                    meant=meant(name, recipe, machine),
                    axes=comma().join((*AXES, *STREAMS)),
                    recipe=recipe.name,
                )
            )
    before = choices.get("stages", recipe.stages)
    choices |= staged(recipe, choices.get("streams", recipe.streams), before, stages_text)
    choices = {root: checked(choice) for root, choice in choices.items()}
    made = Settings(recipe=replace(recipe, **choices), run=checked(machine))
    for name, _ in values:
        check_weight(name, made.recipe)
    return made


def meant(name: str, recipe: Recipe, machine: Machine) -> str:
    """What an unknown name may stand for: a setting without its group, or the name of another tool."""
    groups = {axis: names_in(getattr(recipe, axis)) for axis in AXES} | {"run": names_in(machine)}
    training = {
        "schedule": groups["schedule"],
        "schedule.optimizer": names_in(recipe.schedule.optimizer),
        "run": groups["run"],
    }
    named = {group: current(f"{group}.{name}") for group in groups}
    found = [named[group] for group, names in groups.items() if named[group].removeprefix(f"{group}.") in names]
    found = found or habits.homes(name, training) or ["stages"] * (habits.meant(name) == "length")
    if habits.meant(name) == "epochs":
        return tr(" A pretraining run is as long as --steps, --minutes or --tokens.")
    return did_you_mean(*found) or nearest(name.split(".")[0], (*groups, SENTENCE_TASK, TASKS, WITHOUT))


def check_weight(name: str, recipe: Recipe) -> None:
    """Refuse the sampling weight of a stream that is always alone."""
    lone = {stream.name for stream in recipe.streams} - {
        stream.name for stage in recipe.stages for stream in recipe.running(stage) if len(recipe.running(stage)) > 1
    }
    if name in {f"streams.{stream}.weight" for stream in lone}:
        raise SettingError(
            tr(
                "{name} has no effect: no stage of {recipe} draws from this stream and another. Leave it out.",
                name=name,
                recipe=recipe.name,
            )
        )


def staged(recipe: Recipe, streams: Streams, stages: Stages, text: str | None) -> dict[str, Any]:
    """The streams and their stages, as given by `stages=TEXT`."""
    streams, stages = joined(streams, stages)
    if text is not None:
        stages = assign_stages(stages, text, "stages")
    if len(recipe.streams) == 1 < len(streams):
        stages = one_per_stage(streams, stages)
    return {"streams": streams, "stages": stages}


def check_read(name: str, read: Sequence[str], verb: str) -> None:
    """Refuse a setting that would be ignored: `read` has the names, or their beginnings, that a verb uses."""
    if not any(begins(name, stem) for stem in read):
        raise SettingError(
            tr(
                "{name} has no effect on {verb}, which uses {used}. Leave it out.",
                name=name,
                verb=verb,
                used=comma().join(stem for stem in read if stem.startswith("run.") == name.startswith("run.")),
            )
        )


def check_examined(name: str, recipe: Recipe) -> None:
    """Refuse settings of the network that change neither its input nor its size, which `plm doctor` would ignore."""
    root, last = name.partition(".")[0], name.rpartition(".")[2]
    network = root == "architecture" and (
        last in recipe.architecture.initial or last.endswith(("dropout", "activation", "epsilon"))
    )
    if network or (root == "objectives" and last in names_in(Objective)):
        raise SettingError(
            tr(
                "{name} has no effect on plm doctor: it changes neither the rows nor the size of the network. "
                "Leave it out.",
                name=name,
            )
        )


def begins(name: str, stem: str) -> bool:
    """Whether a setting is this one, or one of this group."""
    return name == stem or name.startswith(f"{stem}.")


def refuse_ignored(assignments: Sequence[str], ignored: Mapping[str, str]) -> None:
    """Refuse settings that another choice makes useless: `ignored` has that choice by the beginning of their names."""
    for name, _ in map(cut, assignments):
        for stem, choice in ignored.items():
            if begins(name, stem):
                raise SettingError(
                    tr("{name} has no effect with {choice}. Leave one of them out.", name=name, choice=choice)
                )
