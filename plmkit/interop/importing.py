"""Models as others published them, written as Hugging Face folders that every verb takes."""

import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.errors import CheckpointError, InputError, SettingError, nearest, not_there
from plmkit.inference.loading import check_whole, foreign_parts
from plmkit.interop.hub import MODEL_FILES, find_model
from plmkit.interop.huggingface import check_new
from plmkit.interop.openai import import_gpt1
from plmkit.interop.weights import (
    OPENAI_SHAPES,
    PICKLED,
    WEIGHTS,
    in_single_precision,
    is_huggingface,
    is_there,
    no_model,
    read_parts_of,
)
from plmkit.storage.files import new_folder
from plmkit.storage.tensors import save_tensors
from plmkit.terminal.screen import Screen

FORMATS = ("huggingface", "openai-gpt")
FORBIDDEN = re.compile(r"GLOBAL (\S+)")  # what torch's loader names of a pickle that is more than tensors


def import_model(source: Path, format: str | None, out: Path, screen: Screen) -> dict[str, Any]:
    """Read a published model, and write it as a Hugging Face folder, which we and others open."""
    if format is not None and format not in FORMATS:
        raise SettingError(
            f"There is no import format '{format}'.{nearest(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    holds = f"{PICKLED} or {OPENAI_SHAPES}"
    if source.is_file():
        raise InputError(f"{source} is a file. Give the folder that holds it, with {holds}.")
    source = find_model(source)
    if not source.is_dir():
        raise InputError(f"{not_there(source, 'folder')} Give the one with {holds}.")
    check_new(out)
    format = format or guessed(source)
    count = (import_gpt1 if format == "openai-gpt" else import_pickled)(source, out, screen)
    return {"folder": str(out), "format": format, "parameters": count}


def guessed(source: Path) -> str:
    """The format of a folder, by the files in it."""
    if is_huggingface(source):
        raise InputError(f"{source} holds {WEIGHTS} already: every command takes it as it is.")
    if is_there(source, PICKLED):
        return "huggingface"
    if (source / OPENAI_SHAPES).is_file() or any(source.glob("params_*.npy")):
        return "openai-gpt"
    raise InputError(no_model(source))


def import_pickled(source: Path, out: Path, screen: Screen) -> int:
    """The same folder with its weights in safetensors; whether a network can be made of them is seen before."""
    if not is_there(source, PICKLED):
        raise InputError(no_model(source))
    screen.say(
        f"{source / PICKLED} is a pickle, a format that can hold programs. Only torch's weights-only loader reads it: "
        "it takes tensors and refuses everything else."
    )
    weights = read_parts_of(source, PICKLED, load_pickled)
    parts = foreign_parts(source, in_single_precision(weights), screen.say)
    check_whole(parts)
    with new_folder(out) as partial:
        for path in {path for pattern in MODEL_FILES for path in source.glob(pattern)}:
            copy = partial / path.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
        # safetensors writes no memory twice, and a tied decoder is the token table's
        save_tensors(partial / WEIGHTS, {name: tensor.clone().contiguous() for name, tensor in weights.items()})
    count = sum(weight.numel() for weight in weights.values())
    architecture = parts.architecture
    screen.say(f"{count:,} parameters in {architecture.layers} layers of {architecture.width} written to {out}.")
    return count


def load_pickled(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the file made the loader raise
        forbidden = FORBIDDEN.search(str(error))
        why = f"it asks for {forbidden[1]}" if forbidden else "it is damaged, or no file of weights"
        raise CheckpointError(
            f"{path} is refused: {why}. Nothing in it was run, and nothing is written.\n"
            "Take the model from its makers again, best as model.safetensors."
        ) from error
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise CheckpointError(f"{path} holds something else than weights by their names. Nothing is written.")
    return {str(name): tensor.detach() for name, tensor in found.items()}
