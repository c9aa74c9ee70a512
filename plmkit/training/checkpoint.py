"""Checkpoints: safetensors and JSON, written atomically, with checksums; they cannot contain code."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plmkit.config.older_versions import current_weights
from plmkit.data.batch import Memory
from plmkit.data.mixture_source import ONLY
from plmkit.data.samples import Place, Position
from plmkit.errors import CheckpointError, InputError
from plmkit.language import several, tr
from plmkit.storage.files import new_folder, read_json, sweep, write_json
from plmkit.storage.tensors import WEIGHTS, checksum, load_tensors, save_tensors
from plmkit.training.loop import State
from plmkit.training.step import is_finite

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
MEMORY = "memory.safetensors"  # recurrent memory of a model that continues from batch to batch
NAME = re.compile(r"step-(\d+)")
KEPT = 2
CHECKPOINTS = "checkpoints"  # their place in a run folder

Content = tuple[State, dict[str, Tensor], dict[str, Tensor]]  # with the weights, and the optimizer's state


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    folder: Path
    step: int


def place(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def checkpoints(folder: Path) -> list[Checkpoint]:
    """Newest first."""
    if not folder.is_dir():
        return []
    found = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    made = [Checkpoint(folder=path, step=int(name[1])) for name, path in found if name]
    return sorted(made, key=lambda checkpoint: -checkpoint.step)


def save_checkpoint(
    folder: Path, network: nn.Module, optimizer: Optimizer, state: State, *, newest: int = KEPT
) -> Path:
    """Write a checkpoint, flush it, rename it, and only then remove all but the newest."""
    path = place(folder, state.step)
    with new_folder(path) as partial:
        save_tensors(partial / WEIGHTS, weights_of(network))
        save_tensors(partial / OPTIMIZER, optimizer_tensors(network, optimizer))
        names = [WEIGHTS, OPTIMIZER]
        if state.memory is not None:
            kept = {f"memory.{number}": part.contiguous() for number, part in enumerate(state.memory)}
            save_tensors(partial / MEMORY, kept)
            names.append(MEMORY)
        sums = {name: checksum(partial / name) for name in names}
        content = {"state": asdict(replace(state, memory=None)), "checksums": sums}
        write_json(partial / STATE, {**content, "checksum": digest(content)})
    for old in checkpoints(folder)[newest:]:
        shutil.rmtree(old.folder, ignore_errors=True)
    sweep(folder)  # a run that was killed while saving leaves an unfinished one
    return path


def load_checkpoint(
    folder: Path, network: nn.Module, optimizer: Optimizer, say: Callable[[str], None], *, checked: int | None = None
) -> State | None:
    """Load the newest intact checkpoint into network and optimizer. None if there are no checkpoints."""
    if (content := newest_whole(folder, say, checked=checked)) is None:
        return None
    state, *tensors = content
    heads = {name.split(".")[1] for name in network.state_dict() if name.startswith("heads.")}
    weights, moments = (current_weights(some, heads) for some in tensors)
    put_weights(network, weights, place(folder, state.step) / WEIGHTS)
    put_optimizer(network, optimizer, moments)
    return state


def newest_whole(folder: Path, say: Callable[[str], None], *, checked: int | None = None) -> Content | None:
    """The newest intact checkpoint; damaged ones are reported and skipped. None if there are no checkpoints.

    The checkpoint of step `checked` has just been verified, so its files are not hashed again.
    """
    found, damaged = checkpoints(folder), []
    for checkpoint in found:
        try:
            content = read_checkpoint(checkpoint.folder, hashed=checkpoint.step != checked)
        except CheckpointError as error:
            damaged.append(str(error))
            continue
        for problem in damaged:
            say(tr("{problem} Using the previous one.", problem=problem))
        return content
    if found:
        raise CheckpointError(
            tr(
                "Found {checkpoints} in {folder}, none intact.\nRemove the folder and start the run again.",
                checkpoints=several(len(found), "checkpoint"),
                folder=folder,
            )
        )
    return None


def averaged(folder: Path, count: int) -> tuple[list[int], dict[str, Tensor]]:
    """Steps of the newest checkpoints, at most `count`, and the mean of their weights (Vaswani et al., 2017, 6.1)."""
    found = [read_checkpoint(checkpoint.folder) for checkpoint in checkpoints(folder)[:count]]
    sums = {name: tensor.to(torch.float64) for name, tensor in found[0][1].items()}
    for _, weights, _ in found[1:]:
        for name, tensor in weights.items():
            sums[name] += tensor
    means = {name: (total / len(found)).to(found[0][1][name].dtype) for name, total in sums.items()}
    return [state.step for state, _, _ in reversed(found)], means


def read_checkpoint(folder: Path, *, hashed: bool = True) -> Content:
    """The content of a checkpoint, after checking its checksums."""
    try:
        content = read_json(folder / STATE)
        claimed = content.pop("checksum")
        names = {WEIGHTS, OPTIMIZER} | ({MEMORY} & content["checksums"].keys())
        sums = {name: checksum(folder / name) for name in names} if hashed else content["checksums"]
        if digest(content) != claimed or sums != content["checksums"]:
            raise CheckpointError(tr("Checkpoint {folder} is damaged: its checksum does not match.", folder=folder))
        state = content["state"]
        weights, moments = load_tensors(folder / WEIGHTS), load_tensors(folder / OPTIMIZER)
        memory = read_memory(folder / MEMORY) if MEMORY in content["checksums"] else None
        state |= {"position": read_position(state["position"]), "memory": memory}
        return State(**state), weights, moments
    except (InputError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            tr("Checkpoint {folder} is damaged: {error}.", folder=folder, error=str(error).removesuffix("."))
        ) from error


def read_memory(file: Path) -> Memory:
    """The tensors in their original order; checkpoints before format 2 have a single one."""
    tensors = load_tensors(file)
    return (tensors["memory"],) if "memory" in tensors else tuple(tensors[f"memory.{n}"] for n in range(len(tensors)))


def read_position(data: dict[str, Any]) -> Position:
    """The position in each stream; checkpoints before format 2 have one stream."""
    if "places" not in data:
        return Position(stage=data["stage"], places={ONLY: Place(epoch=data["epoch"], index=data["index"])})
    places = {name: Place(**place) for name, place in data["places"].items()}
    return Position(stage=data["stage"], places=places, owed=data.get("owed", {}))


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in network.state_dict().items()}


def put_weights(network: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    """Load weights; none may be missing, unknown, of the wrong shape or not finite."""
    own = network.state_dict()
    if missing := sorted(own.keys() - weights.keys()):
        raise CheckpointError(
            tr(
                "{source} has no weight '{missing}' ({count} missing).",
                source=source,
                missing=missing[0],
                count=len(missing),
            )
        )
    if extra := sorted(weights.keys() - own.keys()):
        raise CheckpointError(
            tr("{source} has a weight '{extra}' that this network does not have.", source=source, extra=extra[0])
        )
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            raise CheckpointError(
                tr(
                    "{source}: '{name}' has shape {shape}, but this network needs {needed}.",
                    source=source,
                    name=name,
                    shape=tuple(weights[name].shape),
                    needed=tuple(tensor.shape),
                )
            )
        if not weights[name].is_floating_point():
            kind = str(weights[name].dtype).removeprefix("torch.")
            raise CheckpointError(
                tr(
                    "{source}: '{name}' has the type {kind}; weights must be floating-point numbers.",
                    source=source,
                    name=name,
                    kind=kind,
                )
            )
        if not is_finite(weights[name]):
            raise CheckpointError(
                tr(
                    "{source}: '{name}' has values that are not finite (NaN or infinity), so the model is unusable.\n"
                    "Copy the file again from its source, or train the model again.",
                    source=source,
                    name=name,
                )
            )
    network.load_state_dict(weights)


def optimizer_tensors(network: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state under the names of the weights: `embed.tokens.weight|exp_avg`."""
    return {
        f"{name}|{key}": torch.as_tensor(value).detach().contiguous()
        for name, parameter in network.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def put_optimizer(network: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    parameters = dict(network.named_parameters())
    fused = {p for group in optimizer.param_groups if group.get("fused") for p in group["params"]}
    optimizer.state.clear()
    for full, tensor in tensors.items():
        name, _, key = full.rpartition("|")
        if name not in parameters:
            raise CheckpointError(
                tr("The optimizer state has a weight '{name}' that this network does not have.", name=name)
            )
        parameter = parameters[name]
        # Adam counts its steps in a tensor that stays on the CPU unless the optimizer is fused
        device = parameter.device if tensor.dim() or parameter in fused else torch.device("cpu")
        optimizer.state[parameter][key] = tensor.to(device)


def digest(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode()).hexdigest()
