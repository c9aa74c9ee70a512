"""A run folder: its record, its lock and its weights."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from torch import Tensor

from plmkit.errors import CheckpointError, FolderError, InputError
from plmkit.language import comma, tr
from plmkit.storage.files import (
    check_name,
    leftovers,
    lock,
    new_file,
    read_json,
    reported_os_errors,
    unfinished,
    write_json,
)
from plmkit.storage.graphs import GRAPH_FILES
from plmkit.storage.manifest import LOGS, check, seal, unseal
from plmkit.storage.tensors import WEIGHTS, checksum, load_tensors, save_tensors
from plmkit.tokenizers.files import TOKENIZER_FILES
from plmkit.training.checkpoint import CHECKPOINTS, Content, newest_whole
from plmkit.training.differences import Difference
from plmkit.training.run_record import FORMAT, RECORDS, RunRecord

RUN_FILE = "run.json"
NGRAMS = "ngrams.json"  # that the heads of its tasks read


class RunFolder:
    """A folder that one run writes to; it may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def record(self) -> RunRecord | None:
        """The content of run.json, read once; None if it does not exist."""
        path = self.path / RUN_FILE
        if not path.is_file():
            return None
        try:
            data = read_json(path)
        except InputError as error:
            raise FolderError(str(error)) from error
        kind = RECORDS.get(str(data.get("kind")))
        if data.get("format") not in range(1, FORMAT + 1) or kind is None or "state" not in data:
            raise FolderError(
                tr("{path} was written by another version of plmkit, or does not describe a run.", path=path)
            )
        return kind.from_json(data, path)

    @property
    def is_finished(self) -> bool:
        return self.record is not None and self.record.is_finished

    @property
    def has_weights(self) -> bool:
        """Whether the file of the final weights exists."""
        return (self.path / WEIGHTS).is_file()

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def check(self) -> None:
        """Refuse files that are not as they were written; weights may be missing, a checkpoint may have them."""
        check(self.path, optional=(WEIGHTS,))

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes out of the folder, which is created if necessary."""
        return lock(self.path)

    def differences(self, new: RunRecord) -> list[Difference]:
        """The settings in which the run in the folder and another run differ."""
        return [] if self.record is None else self.record.differences(new)

    def write(self, record: RunRecord) -> None:
        unseal(self.path)
        write_json(self.path / RUN_FILE, record.as_json())
        self.record = record

    def seal(self) -> None:
        """Write the manifest of the run's files; with its logs, once they are complete."""
        seal(
            self.path, [RUN_FILE, WEIGHTS, NGRAMS, *GRAPH_FILES, *TOKENIZER_FILES, *(LOGS if self.is_finished else ())]
        )

    def save_weights(self, weights: dict[str, Tensor]) -> str:
        """Write the final weights atomically; returns their checksum."""
        unseal(self.path)
        with reported_os_errors(self.path), new_file(self.path / WEIGHTS) as partial:
            save_tensors(partial, weights)
        return checksum(self.path / WEIGHTS)

    def weights(self) -> dict[str, Tensor]:
        """The final weights, which must be those of the record."""
        file = self.path / WEIGHTS
        if not file.is_file():
            raise FolderError(
                tr(
                    "The run in {folder} is finished, but its weights ({weights}) are missing.\n"
                    "Copy them again from their source, or run the same command again to restore them.",
                    folder=self.path,
                    weights=WEIGHTS,
                )
            )
        if self.record is None or self.record.checksum != checksum(file):
            raise CheckpointError(
                tr(
                    "{file} is damaged: its checksum differs from the one in run.json.\n"
                    "Copy the folder again from its source, or train the model again.",
                    file=file,
                )
            )
        return load_tensors(file)

    def newest_checkpoint(self, say: Callable[[str], None] = lambda _: None) -> Content | None:
        """The newest intact checkpoint; damaged ones are reported to `say`."""
        return newest_whole(self.checkpoints, say)

    def claim(self) -> None:
        """Check that the folder is new or empty, and can be written; it is created with its first file."""
        folder = self.path
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
            names = comma().join(path.name for path in found[:3]) + (", ..." if len(found) > 3 else "")
            raise FolderError(
                tr(
                    "--out {folder} is not empty and does not hold a run ({names}); nothing was changed.\n"
                    "Use a new or empty folder, or the folder of an earlier run to continue it.",
                    folder=folder,
                    names=names,
                )
            )


def probe(folder: Path) -> None:
    """Make the folder and a file in it, and remove both again: a command that fails leaves nothing."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    file = unfinished(folder / "probe")
    file.touch()
    file.unlink()
    for path in made:
        path.rmdir()
