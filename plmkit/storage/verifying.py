"""`plm doctor --verify`: whether all files of models and caches are unchanged since plmkit wrote them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from plmkit.data.reading.files import holds_model
from plmkit.errors import InputError, PlmError, not_there
from plmkit.language import comma, several, tr
from plmkit.storage.manifest import MANIFEST, check, read_manifest
from plmkit.training.checkpoint import NAME, STATE, read_checkpoint


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result for one folder."""

    folder: str
    files: int = 0  # that were hashed
    damage: str | None = None

    @property
    def report(self) -> str:
        if self.damage:
            return self.damage
        if not self.files:
            return tr("{folder} has no {manifest}: its files are unchecked.", folder=self.folder, manifest=MANIFEST)
        return tr(
            "{folder}: {files} checked by SHA-256, all unchanged.",
            folder=self.folder,
            files=several(self.files, "file"),
        )


def verify(paths: Sequence[str]) -> list[Verdict]:
    """All folders of models, checkpoints and caches at or below the paths, hashed in full."""
    verdicts = [verdict for path in paths for verdict in look(Path(path))]
    if not verdicts:
        raise InputError(
            tr("There is no model in {paths}. --verify checks folders that plmkit wrote.", paths=comma().join(paths))
        )
    return verdicts


def look(path: Path) -> Iterator[Verdict]:
    if not path.is_dir():
        raise InputError(
            tr("{not_there} --verify checks folders that plmkit wrote.", not_there=not_there(path, "folder"))
        )
    for parent, folders, files in os.walk(path):
        folders.sort()
        folder = Path(parent)
        try:
            if MANIFEST in files:
                check(folder, verify=True)
                yield Verdict(folder=parent, files=len(read_manifest(folder)))
            elif NAME.fullmatch(folder.name) and STATE in files:
                read_checkpoint(folder)
                yield Verdict(folder=parent, files=len(files))
            elif holds_model(folder):
                yield Verdict(folder=parent)
        except PlmError as error:
            yield Verdict(folder=parent, damage=str(error))
