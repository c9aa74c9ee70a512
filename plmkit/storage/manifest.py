"""The manifest of a folder: size, time and SHA-256 of each file, to detect later changes."""

import hashlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from plmkit import __version__
from plmkit.errors import FolderError, InputError
from plmkit.language import tr
from plmkit.storage.files import PARTIAL, read_json, write_json

MANIFEST = "plmkit-manifest.json"
SMALL_BYTES = 1_000_000  # hashed every time, which takes a millisecond
LOGS = ("metrics.jsonl", "scores.json", "tensorboard")  # logs of a run: nothing is computed from them


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The state of a file when the manifest was written."""

    bytes: int
    modified: int  # nanoseconds, as the system reports them
    sha256: str


def seal(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the manifest of these files and folders, or of all that the folder contains."""
    files = sorted(set(listed(folder, names)))
    entries = {file.relative_to(folder).as_posix(): asdict(entry_of(file)) for file in files}
    write_json(folder / MANIFEST, {"plmkit": __version__, "files": entries})


def unseal(folder: Path) -> None:
    """Remove the manifest before files change, so that a killed process does not look like damage."""
    (folder / MANIFEST).unlink(missing_ok=True)


def listed(folder: Path, names: Iterable[str] | None) -> Iterator[Path]:
    for path in folder.iterdir() if names is None else (folder / name for name in names):
        for file in path.rglob("*") if path.is_dir() else (path,):
            if file.is_file() and file.name != MANIFEST and not PARTIAL.fullmatch(file.name):
                yield file


def entry_of(file: Path) -> Entry:
    found = file.stat()
    return Entry(bytes=found.st_size, modified=found.st_mtime_ns, sha256=sha256(file))


def sha256(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check(folder: Path, *, optional: Container[str] = (), verify: bool = False) -> bool:
    """Reject a folder with files that were changed since; False if it has no manifest.

    Large files are hashed only if their time has changed, and logs are skipped; `verify` hashes everything.
    """
    if not (folder / MANIFEST).exists():
        return False
    for name, entry in read_manifest(folder).items():
        if not verify and PurePosixPath(name).parts[0] in LOGS:
            continue
        file = folder / name
        if (problem := damage(file, entry, verify)) and (file.exists() or name not in optional):
            raise FolderError(
                tr(
                    "{file} {problem}.\n"
                    "Copy the folder again from its source, or create it again. If you made the change, delete "
                    "{manifest} to use the folder as it is.",
                    file=file,
                    problem=problem,
                    manifest=folder / MANIFEST,
                )
            )
    return True


def is_whole(folder: Path) -> bool:
    """Does it exist, unchanged since it was written? For caches, which are rebuilt if not."""
    try:
        return check(folder)
    except FolderError:
        return False


def read_manifest(folder: Path) -> dict[str, Entry]:
    try:
        files = read_json(folder / MANIFEST)["files"]
        entries = {name: Entry(**entry) for name, entry in files.items()}
        if all(map(is_plain, entries)) and all(type(entry.bytes) is int for entry in entries.values()):
            return entries
    except (InputError, KeyError, TypeError, AttributeError):
        pass
    raise FolderError(
        tr(
            "{manifest} is damaged.\n"
            "Copy the folder again from its source, or delete this file to use the folder unchecked.",
            manifest=folder / MANIFEST,
        )
    )


def is_plain(name: str) -> bool:
    """Is it a path inside the folder?"""
    parts = PurePosixPath(name).parts
    return bool(parts) and not {"/", ".."} & {*parts}


def damage(file: Path, entry: Entry, verify: bool) -> str | None:
    """What is wrong with a file; None if nothing is."""
    try:
        if not file.is_file():
            return tr("is not a regular file") if file.exists() else tr("is missing")
        found = file.stat()
        if found.st_size != entry.bytes:
            return tr(
                "was changed after it was written: it has {found:,} bytes, not {expected:,}",
                found=found.st_size,
                expected=entry.bytes,
            )
        if verify or found.st_size <= SMALL_BYTES or found.st_mtime_ns != entry.modified:
            return None if sha256(file) == entry.sha256 else tr("was changed after it was written: its SHA-256 differs")
    except OSError as error:
        return tr("cannot be read: {reason}", reason=error.strerror)
    return None
