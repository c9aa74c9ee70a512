"""Published models in other formats, converted to Hugging Face folders that every command reads."""

import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plmkit.errors import CheckpointError, InputError, SettingError, nearest, not_there
from plmkit.inference.loading import check_whole, foreign_parts
from plmkit.interop import allennlp
from plmkit.interop.hub import MODEL_FILES, find_model
from plmkit.interop.huggingface import check_new, report_written
from plmkit.interop.openai import import_gpt1
from plmkit.interop.tensorflow import import_tensorflow, variables_file
from plmkit.interop.weights import (
    OPENAI_SHAPES,
    PICKLED,
    WEIGHTS,
    in_float32,
    is_huggingface,
    is_there,
    no_model,
    read_parts_of,
)
from plmkit.language import comma, tr
from plmkit.storage.files import new_folder
from plmkit.storage.manifest import seal
from plmkit.storage.tensors import save_tensors
from plmkit.terminal.screen import Screen
from plmkit.vectors.word_vectors import TEXT_FILES, import_vectors

FORMATS = ("huggingface", "openai-gpt", "tensorflow", "word2vec")
FORBIDDEN = re.compile(r"GLOBAL (\S+)")  # in the error of torch's loader for a pickle with more than tensors


def import_model(source: Path, format: str | None, out: Path, screen: Screen) -> dict[str, Any]:
    """Convert a published model to a Hugging Face folder."""
    if allennlp.is_allennlp(source):
        raise needs_no_import(source, allennlp.WEIGHTS)
    if format is not None and format not in FORMATS:
        raise SettingError(
            tr(
                "There is no import format '{format}'.{hint} Formats: {formats}.",
                format=format,
                hint=nearest(format, FORMATS),
                formats=comma().join(FORMATS),
            )
        )
    if source.is_file() and (format == "word2vec" or (format is None and source.suffix in TEXT_FILES)):
        found = import_vectors(source, out)
        screen.say(tr("{words:,} word vectors written to {file}.", words=len(found.words), file=out))
        return {"folder": str(out), "format": "word2vec", "words": len(found.words), "width": found.width}
    if format == "word2vec":
        raise InputError(tr("{source} is not a text file of word vectors.", source=source))
    holds = tr("{pickled} or {openai_shapes}", pickled=PICKLED, openai_shapes=OPENAI_SHAPES)
    if source.is_file():
        raise InputError(
            tr("{source} is a file. Give the folder that holds it, with {holds}.", source=source, holds=holds)
        )
    source = find_model(source)
    if not source.is_dir():
        raise InputError(
            tr("{not_there} Give the folder with {holds}.", not_there=not_there(source, tr("folder")), holds=holds)
        )
    check_new(out)
    format = format or guessed(source)
    importers = {"huggingface": import_pickled, "openai-gpt": import_gpt1, "tensorflow": import_tensorflow}
    count = importers[format](source, out, screen)
    seal(out)
    return {"folder": str(out), "format": format, "parameters": count}


def guessed(source: Path) -> str:
    """The format of a folder, by the files in it."""
    if is_huggingface(source):
        raise needs_no_import(source, WEIGHTS)
    if is_there(source, PICKLED):
        return "huggingface"
    if (source / OPENAI_SHAPES).is_file() or any(source.glob("params_*.npy")):
        return "openai-gpt"
    if variables_file(source) is not None:
        return "tensorflow"
    raise InputError(no_model(source))


def needs_no_import(source: Path, weights: str) -> InputError:
    return InputError(
        tr(
            "{source} already holds {weights}: every command can read it without an import.",
            source=source,
            weights=weights,
        )
    )


def import_pickled(source: Path, out: Path, screen: Screen) -> int:
    """The same folder with its weights in safetensors, after a check that they form a network."""
    if not is_there(source, PICKLED):
        raise InputError(no_model(source))
    screen.say(
        tr(
            "{source} is a pickle, a format that can contain code. It is read by torch's weights-only loader, "
            "which accepts only tensors.",
            source=source / PICKLED,
        )
    )
    weights = read_parts_of(source, PICKLED, load_pickled)
    parts = foreign_parts(source, in_float32(weights), screen.say)
    check_whole(parts)
    with new_folder(out) as partial:
        for path in {path for pattern in MODEL_FILES for path in source.glob(pattern)}:
            copy = partial / path.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copy)
        # safetensors refuses shared memory, and a tied output embedding shares that of the token embedding
        save_tensors(partial / WEIGHTS, {name: tensor.clone().contiguous() for name, tensor in weights.items()})
    return report_written(weights, parts.architecture, out, screen)


def load_pickled(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader may raise anything on a bad file
        forbidden = FORBIDDEN.search(str(error))
        why = (
            tr("it contains {forbidden}", forbidden=forbidden[1])
            if forbidden
            else tr("it is damaged, or not a file of weights")
        )
        raise CheckpointError(
            tr(
                "{path} is refused: {why}. Nothing in it was executed, and nothing is written.\n"
                "Download the model again, preferably as model.safetensors.",
                path=path,
                why=why,
            )
        ) from error
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise CheckpointError(tr("{path} does not hold named weights. Nothing is written.", path=path))
    return {str(name): tensor.detach() for name, tensor in found.items()}
