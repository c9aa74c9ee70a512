"""Reading JSON, and writing files and folders so that a crash leaves the old one or the new one, never half."""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
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
    """Where prepared text is cached: $PLM_CACHE, or the user's cache folder."""
    chosen = os.environ.get("PLM_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plmkit"
    except RuntimeError as error:
        raise FolderError(
            tr(
                "This user has no home folder, so there is no place to cache prepared text.\n"
                "Set PLM_CACHE to a writable folder."
            )
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write the file atomically; disk errors become ours."""
    with reported_os_errors(path.parent):
        put_text(path, text)


def put_text(path: Path, text: str) -> None:
    """Write the file atomically, for callers that report disk errors themselves."""
    with new_file(path) as partial:
        # half a surrogate pair, as in some file names, has no UTF-8; write its escape, as JSON does
        partial.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path, of: str | None = None) -> dict[str, Any]:
    """The object in a JSON file; anything else is an error that names the file."""
    try:
        if path.exists() and not path.is_file():  # a device or a pipe might never end
            raise InputError(tr("{path} is not a file. Copy it again from its source.", path=path))
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(tr("{path} cannot be read: {reason}.", path=path, reason=error.strerror)) from error
    except RecursionError as error:
        raise InputError(
            tr("{path} cannot be read: its JSON is nested too deeply. Copy it again.", path=path)
        ) from error
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise InputError(
            tr("{path} cannot be read as JSON: {error}. Copy it again.", path=path, error=error)
        ) from error
    if not isinstance(found, dict):
        raise InputError(
            tr(
                "{path} contains {found}, not a JSON object of {of}.",
                path=path,
                found=kind_of(found),
                of=of or tr("settings"),
            )
        )
    return found


def check_name(folder: Path) -> None:
    """Reject a folder name that other tools, such as safetensors and TensorBoard, cannot write to."""
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise FolderError(
            tr("{folder}: this name is not valid UTF-8. Choose another folder.", folder=folder)
        ) from error


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file to fill; it is renamed to `path` if the block succeeds, and removed otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_beside(path)
    partial = unfinished(path)
    try:
        with held(partial, Path.touch):
            yield partial
            flush(partial)
            os.replace(partial, path)
    finally:
        discard(partial)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; it is renamed to `path` if the block succeeds, and removed otherwise.

    An existing folder is replaced; one that another process made in the meantime stays.
    """
    partial, old, replaces = unfinished(path), unfinished(path), path.exists()
    with reported_os_errors(path.parent):
        sweep_beside(path)
        try:
            with held(partial, make_folder):
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
    """A temporary name next to `path`."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")


def leftovers(folder: Path) -> list[Path]:
    """Temporary files and folders of killed processes."""
    return [path for path in folder.iterdir() if PARTIAL.fullmatch(path.name)] if folder.is_dir() else []


def sweep(folder: Path) -> None:
    """Remove the leftovers of a folder that only one process writes to."""
    for path in leftovers(folder):
        discard(path)


def sweep_beside(path: Path) -> None:
    """Remove leftovers of this file or folder; what another process is writing is locked, and stays."""
    with suppress(OSError):
        for left in leftovers(path.parent):
            if target_of(left.name) == target_of(path.name):
                discard_abandoned(left)


def target_of(name: str) -> str:
    """The final name of a temporary file or folder."""
    while found := PARTIAL.fullmatch(name):
        name = found[1]
    return name


def discard_abandoned(partial: Path) -> None:
    """Remove what no process holds, locked meanwhile against one that has just made it; nothing without locks."""
    if fcntl is None:
        return
    handle = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        discard(partial)
    except OSError:
        return
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


@contextmanager
def held(partial: Path, make: Callable[[Path], None] = make_folder) -> Iterator[None]:
    """Make and lock what is being written, to tell it from leftovers of a killed process.

    The lock ends with the process. Another one may take what is not locked yet for a leftover: then it is made again.
    """
    if fcntl is None:
        make(partial)
        yield
        return
    handle = locked(partial, make)
    try:
        yield
    finally:
        os.close(handle)


def locked(partial: Path, make: Callable[[Path], None]) -> int:
    """An open handle that holds the lock."""
    while True:
        make(partial)
        try:
            handle = os.open(partial, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with suppress(OSError):  # not every disk has locks
            fcntl.flock(handle, fcntl.LOCK_SH)  # waits for one that is about to remove it
        if partial.exists():
            return handle
        os.close(handle)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Create the folder if needed and lock it against other processes; the lock ends with the process."""
    with reported_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        take_lock(handle, folder)
        yield
    finally:
        os.close(handle)


def take_lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FolderError(
            tr(
                "Another process is writing to {folder}.\nWait until it has finished, or choose another --out.",
                folder=folder,
            )
        ) from error


def flush(path: Path) -> None:
    """Flush the file, or the entries of the folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def reported_os_errors(folder: Path) -> Iterator[None]:
    """An operating-system error in the block becomes one of ours."""
    try:
        yield
    except OSError as error:
        advice = (
            tr("Set PLM_CACHE to a writable folder with free space.")
            if is_cached(folder)
            else tr("Free some space, fix its permissions or choose another folder. Existing files are unchanged.")
        )
        raise FolderError(
            tr(
                "{folder} cannot be written: {reason}.\n{advice}",
                folder=folder,
                reason=error.strerror or error,
                advice=advice,
            )
        ) from error


def is_cached(folder: Path) -> bool:
    """Is it in the cache, whose location the user did not choose?"""
    try:
        return folder.is_relative_to(cache_folder())
    except FolderError:
        return False
