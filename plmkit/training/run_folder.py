"""A run folder: what it holds, who may write to it, and how two runs differ."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from plmkit import __version__
from plmkit.config.renamed import set_name
from plmkit.errors import FolderError, InputError
from plmkit.language import tr
from plmkit.storage.files import check_name, leftovers, read_json, unfinished, write_json
from plmkit.storage.manifest import LOGS, seal, unseal
from plmkit.tokenizers.files import TOKENIZER_FILES

RUN_FILE, WEIGHTS = "run.json", "model.safetensors"
FORMAT = 2  # in format 1, a fine-tuning had one task without a name: plmkit.tasks.registry reads it
PRETRAIN, FINETUNE = "pretrain", "finetune"


def write_run(folder: Path, kind: str, about: dict[str, Any]) -> None:
    unseal(folder)
    write_json(folder / RUN_FILE, {"plmkit": __version__, "format": FORMAT, "kind": kind, **about})


def seal_run(folder: Path, about: dict[str, Any]) -> None:
    """Write the manifest of the run's files; with its logs, once they are complete."""
    seal(folder, [RUN_FILE, WEIGHTS, *TOKENIZER_FILES, *(LOGS if about["state"] == "finished" else ())])


def read_run(folder: Path) -> dict[str, Any] | None:
    """The content of run.json, or None if it does not exist."""
    path = folder / RUN_FILE
    if not path.is_file():
        return None
    try:
        about = read_json(path)
    except InputError as error:
        raise FolderError(str(error)) from error
    if (
        about.get("format") not in range(1, FORMAT + 1)
        or about.get("kind") not in (PRETRAIN, FINETUNE)
        or "state" not in about
    ):
        raise FolderError(tr("{path} was written by another version of plmkit, or does not describe a run.", path=path))
    return about


def claim(folder: Path) -> None:
    """Check that the folder is new or empty, and can be written; it is created with its first file."""
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise FolderError(tr("--out {folder} is a file. Give a folder for the run.", folder=folder))
    try:
        found = sorted(set(folder.iterdir()) - set(leftovers(folder))) if folder.is_dir() else []
        if not found:
            probe(folder)
    except OSError as error:
        raise FolderError(
            tr(
                "--out {folder} cannot be written: {reason}. Use a folder that you may write to.",
                folder=folder,
                reason=error.strerror,
            )
        ) from error
    if found:
        names = ", ".join(path.name for path in found[:3]) + (", ..." if len(found) > 3 else "")
        raise FolderError(
            tr(
                "--out {folder} is not empty and does not hold a run ({names}); nothing was changed.\n"
                "Use a new or empty folder, or the folder of an earlier run to continue it.",
                folder=folder,
                names=names,
            )
        )


def probe(folder: Path) -> None:
    """Create the folder and a file in it, and remove both: a command that fails leaves nothing."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    file = unfinished(folder / "probe")
    file.touch()
    file.unlink()
    for path in made:
        path.rmdir()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A setting that differs between two runs; as text, `schedule.rate was 0.001, is 0.0005`."""

    path: str  # in their JSON
    old: Any
    new: Any

    @property
    def name(self) -> str:
        """Its name in `--set`."""
        return set_name(self.path)

    @property
    def values(self) -> tuple[Any, Any]:
        """Both values as messages show them."""
        return shown(self.old), shown(self.new)

    def __str__(self) -> str:
        old, new = self.values
        return tr("{name} was {old}, is {new}", name=self.name, old=old, new=new)


def shown(value: Any) -> Any:
    return "none" if value is None else value


def differences(old: Any, new: Any, path: str = "") -> list[Difference]:
    """Where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = [
            differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
            for key in dict.fromkeys((*old, *new))
        ]
        return list(chain.from_iterable(found))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [one for a, b in zip(old, new, strict=True) for one in differences(a, b, path)]
    return [] if old == new else [Difference(path=path, old=old, new=new)]
