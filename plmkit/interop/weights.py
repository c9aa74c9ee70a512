"""Weights in Hugging Face folders: one safetensors file, or several with an index."""

import fnmatch
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from plmkit.errors import CheckpointError
from plmkit.language import comma, tr
from plmkit.storage.files import read_json
from plmkit.storage.tensors import load_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = ".index.json"  # appended to the name of a file that is split into several
PICKLED = "pytorch_model.bin"
OPENAI_SHAPES = "params_shapes.json"  # next to the arrays of GPT-1 as OpenAI published it


def other_weights(folder: Path) -> dict[str, tuple[str, str]]:
    """Other weights that a folder may hold: what they are, and what to do."""
    convert = tr("Convert it first: plm import {folder} --out DIR", folder=folder)

    def load(how: str) -> str:
        return tr(
            "Load it with transformers 4 ({how}) and save_pretrained, which writes model.safetensors, or use a model "
            "from the hub.",
            how=how,
        )

    return {
        PICKLED: (tr("a PyTorch pickle, which is not opened"), convert),
        f"{PICKLED}{INDEX}": (tr("PyTorch pickles, which are not opened"), convert),
        OPENAI_SHAPES: (tr("GPT-1 as OpenAI published it"), convert),
        "tf_model.h5": (tr("TensorFlow weights"), load("from_tf=True")),
        "flax_model.msgpack": (tr("Flax weights"), load("from_flax=True")),
        "*.ckpt*.index": (tr("a TensorFlow 1 checkpoint"), load(tr("its scripts convert_*_tf_checkpoint"))),
        "pytorch_model-*.bin": (
            tr("a part of the weights"),
            tr("Copy {index} too, and then: plm import {folder} --out DIR", index=PICKLED + INDEX, folder=folder),
        ),
    }


def is_there(folder: Path, name: str) -> bool:
    """Whether the weights are there, in one file or several."""
    return (folder / name).is_file() or (folder / f"{name}{INDEX}").is_file()


def is_huggingface(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and is_there(folder, WEIGHTS)


def read_safetensors(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder in float32, whatever their precision."""
    return in_float32(read_parts_of(folder, WEIGHTS, load_tensors))


def in_float32(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


def read_parts_of(folder: Path, name: str, load: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of a file, or of the several files that its index names."""
    if (folder / name).is_file():
        return load(folder / name)
    index = folder / f"{name}{INDEX}"
    weights: dict[str, Tensor] = {}
    for part, names in parts_in(index).items():
        found = load(part)
        if lost := [name for name in names if name not in found]:
            raise CheckpointError(
                tr(
                    "{part} has no weight '{lost}', which {name} lists for it. Copy it again.",
                    part=part,
                    lost=lost[0],
                    name=index.name,
                )
            )
        weights |= {name: found[name] for name in names}
    return weights


def parts_in(index: Path) -> dict[Path, list[str]]:
    """The files that an index names, none missing, and the names of the weights in each."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(place, str) for place in places.values()):
        raise CheckpointError(tr("{index} does not list the file of each weight. Copy it again.", index=index))
    parts: dict[Path, list[str]] = defaultdict(list)
    for name, place in places.items():
        if Path(place).name != place or "\\" in place or place in ("", ".."):
            raise CheckpointError(
                tr(
                    "{index} names '{place}', which is not a file in its folder, so it is not read.",
                    index=index,
                    place=place,
                )
            )
        parts[index.parent / place].append(name)
    if missing := sorted(part.name for part in parts if not part.is_file()):
        raise CheckpointError(
            tr(
                "{parent} is incomplete: {missing} is missing (missing parts: {missing_count} of {parts_count}).\n"
                "Copy or download the missing parts into the folder.",
                parent=index.parent,
                missing=missing[0],
                missing_count=len(missing),
                parts_count=len(parts),
            )
        )
    return parts


def is_whole(folder: Path) -> bool:
    """Whether no weights of a folder are missing."""
    if not is_huggingface(folder):
        return False
    try:
        return (folder / WEIGHTS).is_file() or bool(parts_in(folder / f"{WEIGHTS}{INDEX}"))
    except CheckpointError:
        return False


def no_model(folder: Path) -> str:
    """What a folder without a model holds instead, and what to do."""
    names = sorted(path.name for path in folder.iterdir())
    for pattern, (what, advice) in other_weights(folder).items():
        if found := fnmatch.filter(names, pattern):
            return tr(
                "{folder} is not a model yet: it holds {found}, {what}.\n{advice}",
                folder=folder,
                found=found[0],
                what=what,
                advice=advice,
            )
    if is_there(folder, WEIGHTS):
        return tr(
            "{folder} is not a model: {config} is missing. Copy it next to {weights}.",
            folder=folder,
            weights=WEIGHTS,
            config=CONFIG,
        )
    if CONFIG in names:
        return tr(
            "{folder} is not a model: {weights} is missing. Copy it next to {config}.",
            folder=folder,
            config=CONFIG,
            weights=WEIGHTS,
        )
    holds = (
        tr("it holds {names}", names=comma().join(names[:3] + ["..."] * (len(names) > 3)))
        if names
        else tr("it is empty")
    )
    return tr(
        "{folder} is not a model: {holds}. A model folder has run.json, or {config} and {weights}.",
        folder=folder,
        holds=holds,
        config=CONFIG,
        weights=WEIGHTS,
    )
