"""Paths, folders and patterns as the list of files to read."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from plmkit.data.reading.source import Compression, Format
from plmkit.errors import InputError, not_there
from plmkit.language import tr

FORMATS: dict[str, Format] = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSED = "compressed.json"  # of a compressed model
OF_MODELS = ("run.json", "model.safetensors", COMPRESSED)  # a folder with one of these is a model, not text


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to read or to skip; `format` is None if the name does not show it."""

    path: Path
    format: Format | None
    compression: Compression | None
    skipped: bool = False


def find_files(paths: Sequence[str | Path]) -> list[File]:
    """The files at these paths, folders and patterns, in their order; folders and patterns are sorted."""
    if isinstance(paths, str | Path):
        paths = [paths]
    if not paths:
        raise InputError(tr("No corpus was given. Give files, folders or patterns such as 'texts/*.txt'."))
    files: list[File] = []
    for path in paths:
        found = list(_expand(Path(os.path.expanduser(path))))
        if all(file.skipped for file in found):
            raise InputError(
                tr(
                    "{path} contains no readable file. Readable: {formats}; all but .parquet also as .gz or .zst.",
                    path=path,
                    formats=" ".join(FORMATS),
                )
            )
        files += found
    return files


def _expand(path: Path) -> Iterator[File]:
    if os.path.isdir(path):
        yield from (_listed(child) for child in _walk(path))
    elif os.path.lexists(path):
        yield _named(path)
    elif glob.has_magic(str(path)):
        yield from _match(path)
    else:
        raise InputError(not_there(path, tr("file or folder")))


def _match(pattern: Path) -> Iterator[File]:
    matches = sorted(_glob(pattern))
    if not matches:
        raise InputError(tr("No file matches '{pattern}'.", pattern=pattern))
    # `*.log` means all files of that type; `texts/*` means those that can be read
    asked = bool(pattern.suffix) and not glob.has_magic(pattern.suffix)
    files: dict[Path, File] = {}  # `**` finds a folder and its files, too
    for match in map(Path, matches):
        if holds_model(match):
            files[match] = _listed(match)
        elif match.is_dir():
            files |= {child: _listed(child) for child in _walk(match)}
        else:
            files[match] = _named(match) if asked else _listed(match)
    for path in sorted(files):
        yield files[path]


def _glob(pattern: Path) -> set[str]:
    """What a pattern matches; `**` enters a folder only once, even if several links lead there."""
    if "**" not in pattern.parts:
        return set(glob.glob(str(pattern)))
    place = pattern.parts.index("**")
    before, after = Path(*pattern.parts[:place]), pattern.parts[place + 1 :] or ("*",)
    tops = _glob(before) if glob.has_magic(str(before)) else {str(before)}
    folders = [folder for top in tops for folder, _, _ in _folders(Path(top))]
    return {match for folder in folders for match in _glob(Path(glob.escape(folder), *after))}


def _folders(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder once, with the names of its folders, which the caller may prune, and files."""
    seen = set()  # a link may lead back to a folder above it
    for parent, folders, names in os.walk(top, followlinks=True, onerror=_refuse):
        real = os.path.realpath(parent)
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        if real not in seen:
            yield parent, folders, names
        seen.add(real)


def _refuse(error: OSError) -> NoReturn:
    raise InputError(
        tr(
            "{path} cannot be read: {reason}.\nFix its permissions, or move it elsewhere.",
            path=error.filename,
            reason=error.strerror,
        )
    ) from error


def _walk(folder: Path) -> Iterator[Path]:
    """Files, and folders of models, which are not entered: a run may be written next to its text."""
    for parent, folders, names in _folders(folder):
        models = [name for name in folders if holds_model(Path(parent, name))]
        folders[:] = [name for name in folders if name not in models]
        yield from (Path(parent, name) for name in sorted([*names, *models]))


def holds_model(folder: Path) -> bool:
    return any(os.path.isfile(folder / name) for name in OF_MODELS)


def _named(path: Path) -> File:
    if not os.path.exists(path):
        raise InputError(tr("{path} is a broken link. Give the file itself.", path=path))
    if not path.is_file():  # a pipe can be read only once, and may never end
        raise InputError(tr("{path} is not a regular file. Save its content to a file first.", path=path))
    format, compression = format_of(path)
    return File(path=path, format=format, compression=compression)


def _listed(path: Path) -> File:
    format, compression = format_of(path)
    skipped = format is None or path.name.startswith(".") or not path.is_file()
    return File(path=path, format=format, compression=compression, skipped=skipped)


def format_of(path: Path) -> tuple[Format | None, Compression | None]:
    """Format and compression, by the name of the file."""
    stem, ending = os.path.splitext(path.name.lower())
    compression = cast(Compression, ending[1:]) if ending in (".gz", ".zst") else None
    format = FORMATS.get(os.path.splitext(stem)[1] if compression else ending)
    if compression and format == "parquet":  # it cannot be read from start to end
        format = None
    return format, compression
