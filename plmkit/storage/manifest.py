"""The manifest of a folder: size, time and SHA-256 of each file, to see later that it is as it was written."""

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
LOGS = ("metrics.jsonl", "scores.json", "tensorboard")  # what a run told: nothing is computed from it


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a file was when the manifest was written."""

    bytes: int
    modified: int  # nanoseconds, as the system tells them
    sha256: str


def seal(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write down what these files and folders in it are, or all that it holds."""
    files = sorted(set(listed(folder, names)))
    entries = {file.relative_to(folder).as_posix(): asdict(entry_of(file)) for file in files}
    write_json(folder / MANIFEST, {"plmkit": __version__, "files": entries})


def unseal(folder: Path) -> None:
    """Files of the folder are about to change: if this process is killed, nobody shall take that for damage."""
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
    """Refuse a folder with files that are not as they were written; False where there is no manifest to tell.

    Of large files those are hashed whose time has changed, and logs are not looked at; `verify` hashes everything.
    """
    if not (folder / MANIFEST).exists():
        return False
    for name, entry in read_manifest(folder).items():
        if not verify and PurePosixPath(name).parts[0] in LOGS:
            continue
        file = folder / name
        if (found := damage(file, entry, verify)) and (file.exists() or name not in optional):
            raise FolderError(
                tr(
                    "{file} {found}.\n"
                    "Copy the folder again from where it came, or make it again. If the change is yours, delete "
                    "{folder} to use the folder as it is.",
                    file=file,
                    found=found,
                    folder=folder / MANIFEST,
                )
            )
    return True


def is_whole(folder: Path) -> bool:
    """Is it there, and all of it as it was written? For what is made again where it is not."""
    try:
        return check(folder)
    except FolderError:
        return False


def read_manifest(folder: Path) -> dict[str, Entry]:
    try:
        files = read_json(folder / MANIFEST, of="files")["files"]
        entries = {name: Entry(**entry) for name, entry in files.items()}
        if all(map(is_plain, entries)) and all(type(entry.bytes) is int for entry in entries.values()):
            return entries
    except (InputError, KeyError, TypeError, AttributeError):
        pass
    raise FolderError(
        tr(
            "{folder} is damaged.\n"
            "Copy the folder again from where it came, or delete this file to use the folder unchecked.",
            folder=folder / MANIFEST,
        )
    )


def is_plain(name: str) -> bool:
    """Does it name something inside a folder?"""
    parts = PurePosixPath(name).parts
    return bool(parts) and not {"/", ".."} & {*parts}


def damage(file: Path, entry: Entry, verify: bool) -> str | None:
    """What is wrong with a file, if anything is."""
    try:
        if not file.is_file():
            return tr("is not a regular file") if file.exists() else tr("is missing")
        found = file.stat()
        if found.st_size != entry.bytes:
            return tr(
                "is not as it was written: it has {st_size:,} bytes, not {bytes:,}",
                st_size=found.st_size,
                bytes=entry.bytes,
            )
        if verify or found.st_size <= SMALL_BYTES or found.st_mtime_ns != entry.modified:
            return None if sha256(file) == entry.sha256 else tr("is not as it was written: its SHA-256 is another")
    except OSError as error:
        return tr("cannot be read: {strerror}", strerror=error.strerror)
    return None
