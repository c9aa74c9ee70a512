"""Every error we raise: what happened, what was found, what to do, in one to three lines."""

import os
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path


class PlmError(Exception):
    """An error that the user can mend; the command line prints it and exits with code 2."""


class InputError(PlmError):
    """A file that cannot be read, or whose content cannot be used."""


class SettingError(PlmError):
    """A setting or option that does not exist, or has a value that cannot be."""


class RecipeError(PlmError):
    """A recipe that does not exist, or whose parts do not fit."""


class FolderError(PlmError):
    """A folder that is not what it should be, or cannot be written."""


class CheckpointError(PlmError):
    """A checkpoint or weights file that is damaged, or of another model."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory could not be had, whoever asked for it: numpy, torch on a CPU, or torch on another device."""
    names = {kind.__name__ for kind in type(error).__mro__}
    refused = "can't allocate memory" in str(error) or "not enough memory" in str(error)
    return "MemoryError" in names or "OutOfMemoryError" in names or (isinstance(error, RuntimeError) and refused)


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` where a known name is close, otherwise nothing."""
    close = [other for other in get_close_matches(name, list(known), n=3, cutoff=0.5) if is_slip(name, other)]
    return f" Did you mean '{close[0]}'?" if close else ""


def is_slip(name: str, other: str) -> bool:
    """Whether one is a slip of the pen or a part of the other, and not just a word with letters in common."""
    inside = name in other or other in name
    one_letter = len(name) == len(other) and sum(a != b for a, b in zip(name, other, strict=True)) == 1
    return inside or one_letter or SequenceMatcher(None, name, other).ratio() >= 0.75


def several(count: int, noun: str) -> str:
    """`1 document`, `2,000 documents`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def not_there(path: Path, what: str) -> str:
    """`There is no folder 'runs/brt'. Did you mean 'bert'?`, of the first part of the path that is missing."""
    folder = what == "folder"
    while not os.path.exists(path.parent):
        path, folder = path.parent, True  # what is missing holds something
    try:
        names = sorted(name for name in os.listdir(path.parent) if not folder or os.path.isdir(path.parent / name))
    except OSError:
        names = []
    return f"There is no {what} '{path}'.{nearest(path.name, names)}"
