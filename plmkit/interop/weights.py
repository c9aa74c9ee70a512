"""Weights in Hugging Face folders: one safetensors file, or several with an index."""

import fnmatch
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from plmkit.errors import CheckpointError
from plmkit.storage.files import read_json
from plmkit.storage.tensors import load_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = ".index.json"  # appended to the name of a file that is split into several
PICKLED = "pytorch_model.bin"
OPENAI_SHAPES = "params_shapes.json"  # beside the arrays of GPT-1 as OpenAI published it
IMPORT = "Convert it first: plm import {folder} --out DIR"
TRANSFORMERS = (
    "Load it with transformers 4 ({how}) and save_pretrained, which writes model.safetensors, or use one from the hub."
)
OTHER_WEIGHTS = {  # other weights that a folder may hold, what they are, and what to do
    PICKLED: ("a PyTorch pickle, which is not opened", IMPORT),
    f"{PICKLED}{INDEX}": ("PyTorch pickles, which are not opened", IMPORT),
    OPENAI_SHAPES: ("GPT-1 as OpenAI published it", IMPORT),
    "tf_model.h5": ("TensorFlow weights", TRANSFORMERS.format(how="from_tf=True")),
    "flax_model.msgpack": ("Flax weights", TRANSFORMERS.format(how="from_flax=True")),
    "*.ckpt*.index": ("a TensorFlow 1 checkpoint", TRANSFORMERS.format(how="its scripts convert_*_tf_checkpoint")),
    "pytorch_model-*.bin": (
        "a part of the weights",
        f"Copy {PICKLED}{INDEX} too, and then: plm import {{folder}} --out DIR",
    ),
}


def is_there(folder: Path, name: str) -> bool:
    """Whether a file of weights exists, as one file or as several."""
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
            raise CheckpointError(f"{part} has no weight '{lost[0]}', which {index.name} lists for it. Copy it again.")
        weights |= {name: found[name] for name in names}
    return weights


def parts_in(index: Path) -> dict[Path, list[str]]:
    """The files that an index names, none missing, and the names of the weights in each."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(place, str) for place in places.values()):
        raise CheckpointError(f"{index} does not list the file of each weight. Copy it again.")
    parts: dict[Path, list[str]] = defaultdict(list)
    for name, place in places.items():
        if Path(place).name != place or "\\" in place or place in ("", ".."):
            raise CheckpointError(f"{index} names '{place}', which is not a file in its folder, so it is not read.")
        parts[index.parent / place].append(name)
    if missing := sorted(part.name for part in parts if not part.is_file()):
        raise CheckpointError(
            f"{index.parent} is incomplete: {missing[0]} is missing ({len(missing)} of {len(parts)} parts are).\n"
            "Copy or download what is missing into the folder."
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
    for pattern, (what, advice) in OTHER_WEIGHTS.items():
        if found := fnmatch.filter(names, pattern):
            return f"{folder} is not a model yet: it holds {found[0]}, {what}.\n{advice.format(folder=folder)}"
    if is_there(folder, WEIGHTS):
        return f"{folder} is not a model: it holds {WEIGHTS} but no {CONFIG}. Copy that file too."
    if CONFIG in names:
        return f"{folder} is not a model: it holds {CONFIG} but no {WEIGHTS}. Copy that file too."
    holds = f"it holds {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else "it is empty"
    return f"{folder} is not a model: {holds}, but neither run.json nor {CONFIG} with {WEIGHTS}."
