"""A run: a recipe, a corpus, a seed, a device, a folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plmkit import __version__
from plmkit.composing import SENTENCE_TASK, compose
from plmkit.errors import FolderError, InputError, SettingError, nearest
from plmkit.files import check_name, leftovers, read_json, unfinished, write_json
from plmkit.manifest import LOGS, seal, unseal
from plmkit.recipe import Recipe, recipe_from_json
from plmkit.settings import assign, checked, cut, from_json, names_in, to_json
from plmkit.tokenizers.files import TOKENIZER_FILES

RUN_FILE, WEIGHTS = "run.json", "model.safetensors"
FORMAT = 1
PRETRAIN, FINETUNE = "pretrain", "finetune"
MOST_CORES = 1024  # of one machine
PREPARING = ("processes", "valid_share", "layout", "column", "header", "weights")  # what a corpus is read by
AXES = ("tokenizer", "corruption", "architecture", "objectives", "schedule")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the machine decides: `--set run.NAME=...`."""

    device: str = "auto"  # auto, cpu, cuda, mps
    dtype: str = "auto"  # auto, float32, bfloat16
    threads: int | None = None  # cores for training; None: all
    processes: int | None = None  # workers for reading text; None: all cores
    rows_at_once: int | None = None  # cut each batch into runs of so many rows to save memory
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
                raise SettingError(f"run.{name} must be 1 or more; found {getattr(self, name)}.")
        for name in ("threads", "processes", "rows_at_once"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingError(f"run.{name} must be 1 or more, or none; found {getattr(self, name)}.")
        for name in ("threads", "processes"):
            if (getattr(self, name) or 0) > MOST_CORES:
                raise SettingError(f"run.{name} is at most {MOST_CORES:,}; found {getattr(self, name):,}.")
        if not 0 <= self.valid_share <= 0.5:
            raise SettingError(f"run.valid_share lies between 0 and 0.5; found {self.valid_share}.")
        if any(weight <= 0 for weight in self.weights):
            raise SettingError(f"run.weights must all be above 0; found {list(self.weights)}.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that `--set` reaches: the recipe's five choices, and `run` for the machine's."""

    recipe: Recipe
    run: Machine


def settle(recipe: Recipe, assignments: Sequence[str], machine: Machine = Machine()) -> Settings:
    """Apply `--set`: names begin with an axis of the recipe, or with `run`; kinds are chosen before their settings."""
    choices, values = compose(recipe, [cut(assignment) for assignment in assignments])
    for name, text in values:  # whether choices fit is asked once, when all are made
        root, *path = name.split(".")
        if root == "run":
            machine = assign(Settings(recipe=recipe, run=machine), [root, *path], text, name).run
        elif root in AXES and path:
            choices[root] = assign(choices.get(root, getattr(recipe, root)), path, text, name)
        elif root in AXES:
            choices[root] = getattr(assign(recipe, [root], text, name), root)  # tokenizer=ByteBPE
        else:
            groups = {axis: getattr(recipe, axis) for axis in AXES} | {"run": machine}
            homes = [f"'{group}.{name}'" for group, member in groups.items() if name in names_in(member)]
            meant = f" Did you mean {' or '.join(homes)}?" if homes else nearest(root, (*groups, SENTENCE_TASK))
            raise SettingError(
                f"There is no setting '{name}'.{meant} "
                f"Names begin with {', '.join(AXES)} or run: `plm recipes {recipe.name}` shows them all."
            )
    choices = {root: checked(choice) for root, choice in choices.items()}
    return Settings(recipe=replace(recipe, **choices), run=checked(machine))


def check_read(name: str, read: Sequence[str], verb: str) -> None:
    """Refuse a setting of `run` that would be ignored."""
    if name.removeprefix("run.") not in read:
        raise SettingError(f"{name} has no effect on {verb}, which reads run.{', run.'.join(read)}. Leave it out.")


def write_run(folder: Path, kind: str, about: dict[str, Any]) -> None:
    unseal(folder)
    write_json(folder / RUN_FILE, {"plmkit": __version__, "format": FORMAT, "kind": kind, **about})


def seal_run(folder: Path, about: dict[str, Any]) -> None:
    """Write down what the files of the run are; its logs, once they no longer grow."""
    seal(folder, [RUN_FILE, WEIGHTS, *TOKENIZER_FILES, *(LOGS if about["state"] == "finished" else ())])


def read_run(folder: Path) -> dict[str, Any] | None:
    """What run.json says, or None where there is none."""
    path = folder / RUN_FILE
    if not path.is_file():
        return None
    try:
        about = read_json(path)
    except InputError as error:
        raise FolderError(str(error)) from error
    if about.get("format") != FORMAT or about.get("kind") not in (PRETRAIN, FINETUNE) or "state" not in about:
        raise FolderError(f"{path} was not written by this version of plmkit, or is not a run's.")
    return about


def settings_of(about: dict[str, Any]) -> Settings:
    return Settings(recipe=recipe_from_json(about["recipe"]), run=from_json(about["run"], {"Machine": Machine}))


def settings_json(settings: Settings) -> dict[str, Any]:
    return {"recipe": to_json(settings.recipe), "run": to_json(settings.run)}


def claim(folder: Path) -> None:
    """See that the folder is empty, or can be made, and can be written; it is made with its first file."""
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"--out {folder} is a file. Name a folder for the run.")
    try:
        found = sorted(set(folder.iterdir()) - set(leftovers(folder))) if folder.is_dir() else []
        if not found:
            probe(folder)
    except OSError as error:
        raise FolderError(
            f"--out {folder} cannot be written: {error.strerror}. Name a folder that you may write to."
        ) from error
    if found:
        names = ", ".join(path.name for path in found[:3]) + (", ..." if len(found) > 3 else "")
        raise FolderError(
            f"--out {folder} holds something else ({names}) and is left as it is.\n"
            "Name a new or empty folder, or the folder of an earlier run to go on with it."
        )


def probe(folder: Path) -> None:
    """Make the folder and a file in it, and take both away again: a command that fails leaves nothing."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    file = unfinished(folder / "probe")
    file.touch()
    file.unlink()
    for path in made:
        path.rmdir()


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """Where two JSON values differ, as `schedule.rate was 0.001, is 0.0005`."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys((*old, *new))
        return [
            line
            for key in keys
            for line in differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [line for a, b in zip(old, new, strict=True) for line in differences(a, b, name)]
    old_told, new_told = ("none" if value is None else value for value in (old, new))
    return [] if old == new else [f"{name} was {old_told}, is {new_told}"]
