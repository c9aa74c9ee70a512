"""What `--set` reaches: the recipe's choices, and what the machine decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.config.composing import SENTENCE_TASK, compose
from plmkit.config.settings import assign, checked, cut, names_in, not_a_value
from plmkit.config.streams import Streams, assign_corruption, assign_stages, assign_stream, joined, one_per_stage
from plmkit.errors import SettingError, nearest
from plmkit.language import tr
from plmkit.recipe import Recipe

MOST_CORES = 1024  # of one machine
PREPARING = ("reader_workers", "valid_share", "layout", "column", "header", "weights")  # what a corpus is read by
AXES = ("tokenizer", "corruption", "architecture", "objectives", "initialisation", "schedule")
STREAMS = ("streams", "stages")  # when and how often each way of making rows is used


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the machine decides: `--set run.NAME=...`."""

    device: str = "auto"  # auto, cpu, cuda, mps
    dtype: str = "auto"  # auto, float32, bfloat16
    threads: int | None = None  # cores for training; None: all
    reader_workers: int | None = None  # processes that read text; None: all cores
    micro_batch: int | None = None  # rows computed at a time, by gradient accumulation, to save memory; None: all
    compile: bool = False  # torch.compile: a minute to start, then faster steps
    checkpoint_steps: int = 500
    log_steps: int = 10
    validations: int = 5  # how often held-out text is scored during a run
    valid_share: float = 0.01  # of the corpus, held out where --valid names no file
    layout: str = "auto"  # how .txt files are cut into documents
    column: str | None = None  # text column of tables
    header: bool = True  # False: the columns of .csv and .tsv have no names, but numbers from 1
    weights: tuple[float, ...] = ()  # share of each corpus in the mix, in the order given

    def __post_init__(self) -> None:
        for name in ("checkpoint_steps", "log_steps", "validations"):
            if getattr(self, name) < 1:
                raise SettingError(
                    tr("run.{name} must be 1 or more; found {getattr}.", name=name, getattr=getattr(self, name))
                )
        for name in ("threads", "reader_workers", "micro_batch"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingError(
                    tr(
                        "run.{name} must be 1 or more, or none; found {getattr}.",
                        name=name,
                        getattr=getattr(self, name),
                    )
                )
        for name in ("threads", "reader_workers"):
            if (getattr(self, name) or 0) > MOST_CORES:
                raise SettingError(
                    tr(
                        "run.{name} is at most {most_cores:,}; found {getattr:,}.",
                        name=name,
                        most_cores=MOST_CORES,
                        getattr=getattr(self, name),
                    )
                )
        if not 0 <= self.valid_share <= 0.5:
            raise SettingError(
                tr("run.valid_share lies between 0 and 0.5; found {valid_share}.", valid_share=self.valid_share)
            )
        if any(weight <= 0 for weight in self.weights):
            raise SettingError(tr("run.weights must all be above 0; found {weights}.", weights=list(self.weights)))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that `--set` reaches: the recipe's five choices, and `run` for the machine's."""

    recipe: Recipe
    run: Machine


def settle(recipe: Recipe, assignments: Sequence[str], machine: Machine = Machine()) -> Settings:
    """Apply `--set`: names begin with an axis of the recipe, or with `run`; kinds are chosen before their settings."""
    choices, values = compose(recipe, [cut(assignment) for assignment in assignments])
    stages_text = None
    for name, text in values:  # whether choices fit is asked once, when all are made
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
            groups = {axis: getattr(recipe, axis) for axis in AXES} | {"run": machine}
            homes = [f"'{group}.{name}'" for group, member in groups.items() if name in names_in(member)]
            meant = (
                tr(" Did you mean {homes}?", homes=" or ".join(homes))
                if homes
                else nearest(root, (*groups, SENTENCE_TASK))
            )
            raise SettingError(
                tr(
                    "There is no setting '{name}'.{meant} Names begin with {axes} or run: `plm recipes {name_2}` "
                    "shows them all.",
                    name=name,
                    meant=meant,
                    axes=", ".join((*AXES, *STREAMS)),
                    name_2=recipe.name,
                )
            )
    choices |= staged(recipe, choices.get("streams", recipe.streams), stages_text)
    choices = {root: checked(choice) for root, choice in choices.items()}
    return Settings(recipe=replace(recipe, **choices), run=checked(machine))


def staged(recipe: Recipe, streams: Streams, text: str | None) -> dict[str, Any]:
    """Streams, and the stages that run them, as `stages=TEXT` says."""
    streams, stages = joined(streams, recipe.stages)
    if text is not None:
        stages = assign_stages(stages, text, "stages")
    if len(recipe.streams) == 1 < len(streams):
        stages = one_per_stage(streams, stages)
    return {"streams": streams, "stages": stages}


def check_read(name: str, read: Sequence[str], verb: str) -> None:
    """Refuse a setting of `run` that would be ignored."""
    if name.removeprefix("run.") not in read:
        raise SettingError(
            tr(
                "{name} has no effect on {verb}, which reads run.{read}. Leave it out.",
                name=name,
                verb=verb,
                read=", run.".join(read),
            )
        )


def refuse_ignored(assignments: Sequence[str], ignored: Mapping[str, str]) -> None:
    """Refuse settings that another choice makes useless: `ignored` has that choice by the beginning of their names."""
    for name, _ in map(cut, assignments):
        for stem, choice in ignored.items():
            if name == stem or name.startswith(f"{stem}."):
                raise SettingError(
                    tr("{name} has no effect with {choice}. Leave one of them out.", name=name, choice=choice)
                )
