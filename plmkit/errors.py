"""Every error we raise: what happened, what was found, what to do, in one to three lines."""

import os
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from plmkit.language import several as several
from plmkit.language import tr


class PlmError(Exception):
    """An error that the user can fix; the command line prints it and exits with code 2."""


class InputError(PlmError, ValueError):
    """A file or an argument that cannot be read, or whose content cannot be used."""


class SettingError(PlmError):
    """A setting or option that does not exist, or has an invalid value."""


class RecipeError(PlmError):
    """A recipe that does not exist, or whose parts do not fit together."""


class FolderError(PlmError):
    """A folder that is not what it should be, or cannot be written."""


class CheckpointError(PlmError):
    """A checkpoint or weights file that is damaged, or of another model."""


class LoadWarning(UserWarning):
    """A model was not loaded as its folder suggests: from a checkpoint, or without one of its heads."""


class TruncationWarning(UserWarning):
    """Texts were longer than the maximum length, and were truncated."""


class UnknownTokensWarning(UserWarning):
    """Many tokens of the input are unknown to the model's vocabulary."""


class LeftOutWarning(UserWarning):
    """A task of several was left out, because it cannot read the rows."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: of numpy, of torch on a CPU, or of torch on another device."""
    names = {kind.__name__ for kind in type(error).__mro__}
    refused = "can't allocate memory" in str(error) or "not enough memory" in str(error)
    return "MemoryError" in names or "OutOfMemoryError" in names or (isinstance(error, RuntimeError) and refused)


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` if a known name is close to this one; otherwise an empty string."""
    return did_you_mean(nearest_name(name, known))


def did_you_mean(*names: str | None) -> str:
    """One name, or several to choose from; empty if there is none."""
    known = [f"'{name}'" for name in names if name]
    return tr(" Did you mean {names}?", names=tr(" or ").join(known)) if known else ""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """A known name that differs by a typing error, or that extends or shortens this one.

    A word in common is not enough: class_weights does not mean lm_weight.
    """
    wanted, folded = name.casefold(), {other.casefold(): other for other in known}
    alike = get_close_matches(wanted, folded, cutoff=0.6)
    close = [other for other in alike if is_typo(wanted, other) or other.endswith(wanted)]
    longer = [other for other in folded if len(wanted) > 2 and other.startswith(wanted)]
    shorter = [other for other in folded if wanted.startswith(f"{other}_") or wanted.endswith(f"_{other}")]
    close += sorted(longer, key=len) + sorted(shorter, key=len, reverse=True)
    return folded[close[0]] if close else None


def is_typo(name: str, other: str) -> bool:
    """Whether they differ by at most three letters, or a third of the letters of a long name."""
    same = sum(block.size for block in SequenceMatcher(None, name, other).get_matching_blocks())
    return len(name) + len(other) - 2 * same <= max(3, len(name) // 3)


def printable(name: str) -> str:
    """A file name that can be printed: bytes that are not UTF-8 become \\xff."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def not_there(path: Path, what: str) -> str:
    """`There is no folder 'runs/brt'. Did you mean 'runs/bert'?`, for the first part of the path that is missing."""
    folder = what in ("folder", tr("folder"))
    while not os.path.exists(path.parent):
        path, folder = path.parent, True
    try:
        names = sorted(name for name in os.listdir(path.parent) if not folder or os.path.isdir(path.parent / name))
    except OSError:
        names = []
    what = tr("folder") if what == "folder" else what
    close = nearest_name(path.name, names)
    hint = did_you_mean(str(path.parent / close) if close else None)
    return tr("There is no {what} '{path}'.{hint}", what=what, path=path, hint=hint)
