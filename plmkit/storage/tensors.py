"""Tensors in safetensors files, and checksums of files."""

import hashlib
import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from plmkit.errors import CheckpointError, FolderError
from plmkit.language import tr

WEIGHTS = "model.safetensors"  # the file of a model's weights


def save_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, str] | None = None) -> None:
    try:
        save_file(tensors, path, metadata={"format": "pt", **(about or {})})
        path.chmod(0o666 & ~umask())  # like every other file: the library writes one that only its owner can read
    except SafetensorError as error:  # a full disk among them
        raise FolderError(
            tr("{folder} cannot be written: {reason}. Existing files are unchanged.", folder=path.parent, reason=error)
        ) from error


def umask() -> int:
    """The permissions that this process withholds from new files; the system reports them only by setting them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(tr("{path} cannot be read as weights: {error}.", path=path, error=error)) from error


def checksum(path: Path) -> str:
    if path.exists() and not path.is_file():  # a device or a pipe might never end
        raise CheckpointError(tr("{path} is not a regular file. Copy it again from its source.", path=path))
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
