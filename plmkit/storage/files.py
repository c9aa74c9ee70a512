"""Reading JSON, and writing files and folders so that a crash leaves the old one or the new one, never half."""

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from plmkit.errors import FolderError, InputError
from plmkit.inference.arguments import kind_of
from plmkit.language import tr

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

PARTIAL = re.compile(r"\.(.+)\.([0-9a-f]{32}|[0-9]+)\.partial")


def cache_folder() -> Path:
    """Where prepared text is kept between runs: $PLM_CACHE, or the user's cache folder."""
    chosen = os.environ.get("PLM_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plmkit"
    except RuntimeError as error:
        raise FolderError(
            tr(
                "This user has no home folder, so there is no place to keep prepared text.\n"
                "Set PLM_CACHE to a folder that you may write to."
            )
        ) from error


def write_text(path: Path, text: str) -> None:
    """All of the file or none of it; an error of the disk becomes one of ours."""
    with explained(path.parent):
        put_text(path, text)


def put_text(path: Path, text: str) -> None:
    """All of the file or none of it, for callers that have their own words for an error of the disk."""
    with new_file(path) as partial:
        # half a surrogate pair, of a file's name for one, has no UTF-8; its escape is what JSON has for it
        partial.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path, of: str = "settings") -> dict[str, Any]:
    """The object in a JSON file; anything else is refused in a sentence that names the file."""
    try:
        if path.exists() and not path.is_file():  # a device or a pipe might never end
            raise InputError(tr("{path} is not a file. Copy it again from where it came.", path=path))
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {strerror}.", path=path, strerror=error.strerror)) from error
    except RecursionError as error:
        raise InputError(
            tr("{path} cannot be read: its JSON is nested too deeply. Copy it again.", path=path)
        ) from error
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise InputError(
            tr("{path} cannot be read as JSON: {error}. Copy it again.", path=path, error=error)
        ) from error
    if not isinstance(found, dict):
        raise InputError(tr("{path} holds {kind_of}, not an object of {of}.", path=path, kind_of=kind_of(found), of=of))
    return found


def check_name(folder: Path) -> None:
    """Refuse a folder whose name other tools, safetensors and TensorBoard among them, cannot write to."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise FolderError(tr("{folder}: this name is not valid UTF-8. Name another folder.", folder=folder)) from error


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file to fill; it takes the name `path` when the block ends well, and vanishes otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_beside(path)
    partial = unfinished(path)
    try:
        partial.touch()
        with held(partial):
            yield partial
            flush(partial)
            os.replace(partial, path)
    finally:
        discard(partial)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; it takes the name `path` when the block ends well, and vanishes otherwise.

    A folder that was there before is replaced; one that another process made in the meantime stays.
    """
    partial, old, replaces = unfinished(path), unfinished(path), path.exists()
    with explained(path.parent):
        sweep_beside(path)
        try:
            partial.mkdir(parents=True)
            with held(partial):
                yield partial
                for file in partial.iterdir():
                    flush(file)
                if replaces:
                    os.replace(path, old)  # in one move: a crash while it is removed must not leave half of it
                try:
                    os.replace(partial, path)
                except OSError:
                    if replaces or not path.is_dir():
                        raise
            flush(path.parent)
        finally:
            if old.exists() and not path.exists():
                os.replace(old, path)
            discard(partial)
            discard(old)


def unfinished(path: Path) -> Path:
    """A name beside `path` for what will take its place when it is complete."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def leftovers(folder: Path) -> list[Path]:
    """What a process that was killed had not finished writing."""
    return [path for path in folder.iterdir() if PARTIAL.fullmatch(path.name)] if folder.is_dir() else []


def sweep(folder: Path) -> None:
    """Remove the leftovers of a folder that only one process writes to."""
    for path in leftovers(folder):
        discard(path)


def sweep_beside(path: Path) -> None:
    """Remove what killed processes left of this file or folder; what another is writing now is locked, and stays."""
    with suppress(OSError):
        for left in leftovers(path.parent):
            if target_of(left.name) == target_of(path.name) and is_abandoned(left):
                discard(left)


def target_of(name: str) -> str:
    """The name that an unfinished file or folder was to take."""
    while found := PARTIAL.fullmatch(name):
        name = found[1]
    return name


def is_abandoned(partial: Path) -> bool:
    """Whether nobody holds it; where locks cannot be had, nobody knows."""
    if fcntl is None:
        return False
    handle = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


@contextmanager
def held(partial: Path) -> Iterator[None]:
    """Lock what is being written, which tells it from what a killed process left; the lock goes with the process."""
    if fcntl is None:
        yield
        return
    handle = os.open(partial, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every disk has locks
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make the folder where need be and keep other processes out of it; the lock goes with the process."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)


def lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FolderError(
            tr(
                "Another process is training into {folder} at this moment.\nWait for it, or name another --out.",
                folder=folder,
            )
        ) from error


def flush(path: Path) -> None:
    """Make the system put the file, or the folder's list of names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """An operating-system error in the block becomes one of ours."""
    try:
        yield
    except OSError as error:
        advice = (
            tr("Set PLM_CACHE to a folder with room that you may write to.")
            if is_cached(folder)
            else tr("Free some space, mend its permissions or choose another folder; what was there is unchanged.")
        )
        raise FolderError(
            tr(
                "{folder} cannot be written: {strerror}.\n{advice}",
                folder=folder,
                strerror=error.strerror or error,
                advice=advice,
            )
        ) from error


def is_cached(folder: Path) -> bool:
    """Is it of the cache, whose place the user did not name?"""
    try:
        return folder.is_relative_to(cache_folder())
    except FolderError:
        return False
