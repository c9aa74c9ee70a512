"""Pooling of hidden states into one vector per text, by the settings of sentence-transformers folders."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plmkit.errors import InputError
from plmkit.inference.arguments import kind_of
from plmkit.language import comma, tr
from plmkit.storage.files import read_json, write_json
from plmkit.storage.tensors import load_tensors, save_tensors

MODULES, CONFIG, WEIGHTS = "modules.json", "config.json", "model.safetensors"
LENGTH, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
TYPES = "sentence_transformers.models."  # every release reads these names
MODES = {  # current names, and the switches of older folders, in the order of concatenation
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
TANH = "torch.nn.modules.activation.Tanh"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.nn.modules.linear.Identity": lambda vectors: vectors,
    TANH: torch.tanh,
    "torch.nn.modules.activation.ReLU": F.relu,
    "torch.nn.modules.activation.GELU": F.gelu,
}


@dataclass(frozen=True, kw_only=True)
class Normalize:
    """Normalise vectors to unit length."""

    def __call__(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1)


@dataclass(frozen=True, kw_only=True)
class Dense:
    """One layer after the pooling."""

    weight: Tensor  # (outputs, inputs)
    bias: Tensor | None
    activation: str

    def __call__(self, vectors: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(vectors.device)
        return ACTIVATIONS[self.activation](F.linear(vectors, self.weight.to(vectors.device), bias))


Step = Normalize | Dense


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """From the hidden states of the last layer to one vector per text."""

    modes: tuple[str, ...] = ("mean",)  # over all tokens, special ones included; several are concatenated
    steps: tuple[Step, ...] = ()
    max_length: int | None = None  # maximum length, if the folder gives one
    prompt: str = ""  # before every text
    windows: bool = False  # a text that is too long has the mean of the vectors of its windows
    unknown: tuple[str, ...] = ()  # modules and settings of the folder that are not supported

    def __call__(self, hidden: Tensor, visible: Tensor) -> Tensor:
        """(B, L, width) and (B, L) to (B, outputs)."""
        vectors = torch.cat([pooled(mode, hidden.float(), visible) for mode in self.modes], dim=-1)
        for step in self.steps:
            vectors = step(vectors)
        return vectors

    def outputs(self, width: int) -> int:
        """The width of a vector."""
        layers = [len(step.weight) for step in self.steps if isinstance(step, Dense)]
        return layers[-1] if layers else width * len(self.modes)


MEAN = Pooling()  # sentence-transformers' own default


def pooled(mode: str, hidden: Tensor, visible: Tensor) -> Tensor:
    shown = visible[:, :, None].to(hidden.dtype)
    rows, places = torch.arange(len(hidden), device=hidden.device), visible.int()
    first = places.argmax(1)
    if mode == "cls":
        return hidden[rows, first]
    if mode == "lasttoken":
        return hidden[rows, visible.shape[1] - 1 - places.flip(1).argmax(1)]
    if mode == "max":
        return hidden.masked_fill(~visible[:, :, None], -torch.inf).amax(1)
    if mode == "weightedmean":  # weights 1, 2, 3, ... from the first token of the text
        shown = shown * (torch.arange(1, visible.shape[1] + 1, device=hidden.device) - first[:, None])[:, :, None]
    length = shown.sum(1)
    return (hidden * shown).sum(1) / (length.sqrt() if mode == "mean_sqrt_len_tokens" else length)


# Reading


def read_pooling(folder: Path, width: int) -> Pooling | None:
    """The pooling of a sentence-transformers folder; None for any other folder."""
    if not (folder / MODULES).is_file():
        return None
    (first, where), *others = modules_of(folder)
    if first != "Transformer" or where != folder:
        raise InputError(
            tr(
                "{file}: the first module is {first} in '{name}'; it must be a Transformer in the folder itself.",
                file=folder / MODULES,
                first=first,
                name=where.name,
            )
        )
    modes: tuple[str, ...] = ()
    steps: list[Step] = []
    unknown = [*unsupported_settings(folder)]
    for kind, where in others:
        if kind == "Pooling" and not modes:
            modes = modes_in(where)
        elif kind == "Normalize" and modes:
            steps.append(Normalize())
        elif kind == "Dense" and modes and (layer := dense_in(where)):
            steps.append(layer)
        elif kind != "Dropout":  # which is active in training only
            unknown.append(kind)
    check_widths(folder, [layer for layer in steps if isinstance(layer, Dense)], width * len(modes))
    return Pooling(
        modes=modes,
        steps=tuple(steps),
        max_length=max_length_in(folder),
        prompt=prompt_of(folder),
        unknown=tuple(unknown if modes else [*unknown, "no Pooling"]),
    )


def check_widths(folder: Path, layers: Sequence[Dense], width: int) -> None:
    """The input width of each layer is the output width of the one before."""
    for layer in layers:
        outputs = len(layer.weight)
        if layer.weight.shape != (outputs, width) or (layer.bias is not None and layer.bias.shape != (outputs,)):
            raise InputError(
                tr(
                    "{folder}: a Dense layer does not fit an input of width {width}. The files do not belong together.",
                    folder=folder,
                    width=width,
                )
            )
        width = outputs


def modules_of(folder: Path) -> list[tuple[str, Path]]:
    """The type of each module in order, and the folder of its settings."""
    found = listed_in(folder / MODULES)
    named = [
        part for part in found if isinstance(part, dict) and all(type(part.get(k)) is str for k in ("type", "path"))
    ]
    outside = [part for part in named if PurePosixPath(part["path"]).is_absolute() or ".." in part["path"].split("/")]
    if not named or len(named) < len(found) or outside:
        raise InputError(tr("{file} does not list modules by type and path. Copy it again.", file=folder / MODULES))
    return [(part["type"].rsplit(".", 1)[-1], folder / part["path"]) for part in named]


def modes_in(folder: Path) -> tuple[str, ...]:
    settings = read_json(folder / CONFIG)
    given = settings.get("pooling_mode") or [mode for mode, switch in MODES.items() if settings.get(switch)]
    modes = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else ()
    if wrong := [mode for mode in modes if mode not in MODES]:
        raise InputError(
            tr(
                "{file}: unknown pooling '{wrong}'; known: {modes}.",
                file=folder / CONFIG,
                wrong=wrong[0],
                modes=comma().join(MODES),
            )
        )
    return modes or MEAN.modes


def dense_in(folder: Path) -> Dense | None:
    """The layer, if it is supported; weights are never unpickled."""
    settings = read_json(folder / CONFIG)
    activation = settings.get("activation_function", TANH)
    elsewhere = any(
        settings.get(f"module_{end}_name") not in (None, "sentence_embedding") for end in ("input", "output")
    )
    if activation not in ACTIVATIONS or elsewhere or settings.get("use_residual") or not (folder / WEIGHTS).is_file():
        return None
    weights = load_tensors(folder / WEIGHTS)
    if "linear.weight" not in weights:
        raise InputError(tr("{file} has no weight of a Dense layer. Copy it again.", file=folder / WEIGHTS))
    return Dense(weight=weights["linear.weight"].float(), bias=weights.get("linear.bias"), activation=activation)


def unsupported_settings(folder: Path) -> list[str]:
    """Settings that would change the vectors."""
    lowered = settings_of(folder / LENGTH).get("do_lower_case")
    apart = prompt_of(folder) and any(
        settings_of(where / CONFIG).get("include_prompt") is False
        for kind, where in modules_of(folder)
        if kind == "Pooling"
    )
    return [name for name, found in (("do_lower_case", lowered), ("include_prompt", apart)) if found]


def max_length_in(folder: Path) -> int | None:
    max_length = settings_of(folder / LENGTH).get("max_seq_length")
    return max_length if type(max_length) is int and max_length > 0 else None


def prompt_of(folder: Path) -> str:
    settings = settings_of(folder / PROMPTS)
    prompts, name = settings.get("prompts"), settings.get("default_prompt_name")
    return str(prompts.get(name) or "") if isinstance(prompts, dict) and isinstance(name, str) else ""


def settings_of(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def listed_in(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise InputError(
            tr("{path} cannot be read: its JSON is nested too deeply. Copy it again.", path=path)
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(tr("{path} cannot be read: {error}. Copy it again.", path=path, error=error)) from error
    if not isinstance(found, list):
        raise InputError(tr("{path} holds {found}, not a list of modules.", path=path, found=kind_of(found)))
    return found


# Writing


def write_pooling(folder: Path, pooling: Pooling, width: int, max_length: int) -> None:
    """The files with which sentence-transformers computes the same vectors from the model in this folder."""
    names = ["", "1_Pooling", *(f"{number}_{type(step).__name__}" for number, step in enumerate(pooling.steps, 2))]
    types = ["Transformer", "Pooling", *(type(step).__name__ for step in pooling.steps)]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": TYPES + kind}
        for number, (path, kind) in enumerate(zip(names, types, strict=True))
    ]
    write_json(folder / MODULES, modules)
    write_json(folder / LENGTH, {"max_seq_length": max_length, "do_lower_case": False})
    if pooling.prompt:
        write_json(folder / PROMPTS, {"prompts": {"default": pooling.prompt}, "default_prompt_name": "default"})
    write_json(folder / names[1] / CONFIG, {"word_embedding_dimension": width, **settings_for(pooling.modes)})
    for path, step in zip(names[2:], pooling.steps, strict=True):
        (folder / path).mkdir()
        if isinstance(step, Dense):
            write_dense(folder / path, step)


def settings_for(modes: Sequence[str]) -> dict[str, Any]:
    """The switches that every release reads; only the newest can read another order."""
    if list(modes) == [mode for mode in MODES if mode in modes]:
        return {switch: mode in modes for mode, switch in MODES.items()}
    return {"pooling_mode": list(modes)}


def write_dense(folder: Path, layer: Dense) -> None:
    outputs, inputs = layer.weight.shape
    write_json(
        folder / CONFIG,
        {
            "in_features": inputs,
            "out_features": outputs,
            "bias": layer.bias is not None,
            "activation_function": layer.activation,
        },
    )
    weights = {"linear.weight": layer.weight, "linear.bias": layer.bias}
    save_tensors(folder / WEIGHTS, {name: tensor for name, tensor in weights.items() if tensor is not None})
