"""Whether a run fits into memory: estimated before it starts, and explained if it runs out later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.autograd.graph import saved_tensors_hooks

from plmkit.config.counting import NUMBERS, least_weights, parameters, sizes_of, training_bytes
from plmkit.data.batch import Batch
from plmkit.errors import PlmError, is_out_of_memory
from plmkit.language import tr
from plmkit.network import Network
from plmkit.recipe import Recipe

ANY = 1 << 50  # bytes that no machine has, if this one does not report its memory
LARGE = 1_000_000  # larger than any setting of a network that fits into memory
LAYER = 50_000  # bytes for the objects of a layer, however narrow it is
ENTRY = 100  # bytes per token of a vocabulary while it is trained
TOKEN = 100  # bytes per token of a batch while it is made: input, targets, random numbers
MEMINFO = Path("/proc/meminfo")
GROUPS = (  # the limit that a container sets, and what is used of it
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


class OutOfMemory(PlmError):
    """A run that needs more memory than is free."""


def free_memory(device: torch.device) -> int | None:
    """Free memory in bytes; None if this machine does not report it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu":
        return None
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        found = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return min([found, *(limit - used for limit, used in map(_group, GROUPS) if limit is not None)])


def _group(files: tuple[Path, Path]) -> tuple[int | None, int]:
    """The memory limit of a control group and its usage, without file pages, which can be reclaimed."""
    try:
        limit, used = (int(file.read_text(encoding="ascii")) for file in files)
        stat = files[0].with_name("memory.stat").read_text(encoding="ascii").split()
        pages = dict(zip(stat[::2], map(int, stat[1::2]), strict=True))
    except (OSError, ValueError):  # none, or `max`
        return None, 0
    return limit, used - pages.get("total_inactive_file", pages.get("inactive_file", 0))


def check_shape(recipe: Recipe, device: torch.device) -> None:
    """Refuse a network that is too large with any vocabulary, before any text is read."""
    least = least_weights(recipe.architecture)
    refuse_weights(recipe, tr("at least {count:,}", count=least), training_bytes(least), device)


def check_weights(recipe: Recipe, vocabulary: int, device: torch.device) -> None:
    """Refuse a network whose weights, gradients and optimizer alone are too large; nothing is allocated."""
    count = parameters(recipe, vocabulary)
    refuse_weights(recipe, f"{count:,}", training_bytes(count), device)


def refuse_weights(recipe: Recipe, count: str, weights: int, device: torch.device) -> None:
    free = free_memory(device)
    needed = weights + LAYER * recipe.architecture.layers
    if needed > (ANY if free is None else free):
        large = [f"architecture.{name}" for name, value in sizes_of(recipe.architecture).items() if value >= LARGE]
        available = (
            tr("no machine has that much")
            if free is None
            else tr("{free} are free on this {device}", free=size(free), device=name_of(device))
        )
        raise OutOfMemory(
            tr(
                "{name} with these settings has {count} weights: they, their gradients and the optimizer need "
                "{needed}, and {available}.\n"
                "Lower {settings}, or use a smaller recipe: `plm recipes` lists them.",
                name=recipe.name,
                count=count,
                needed=size(needed),
                available=available,
                settings=tr(" and ").join(large) or tr("architecture.layers or architecture.width"),
            )
        )


def check_vocabulary(tokens: int) -> None:
    """Refuse a vocabulary that is too large to train."""
    needed, free = tokens * ENTRY, free_memory(torch.device("cpu"))
    if needed > (ANY if free is None else free):
        raise OutOfMemory(
            tr(
                "tokenizer.size={tokens:,}: training a vocabulary of this size needs {needed}{available}.\n"
                "Lower tokenizer.size: 8,000 to 50,000 are usual.",
                tokens=tokens,
                needed=size(needed),
                available="" if free is None else tr(", and {free} are free on this machine", free=size(free)),
            )
        )


def check_batch(rows: int, length: int, lower: str) -> None:
    """Refuse a batch that does not fit into memory."""
    needed, free = rows * length * TOKEN, free_memory(torch.device("cpu"))
    if free is not None and needed > free:
        raise OutOfMemory(
            tr(
                "A batch of {rows:,} rows of {length} tokens needs {needed}, and {free} are free.\nLower {lower}.",
                rows=rows,
                length=length,
                needed=size(needed),
                free=size(free),
                lower=lower,
            )
        )


def check_step(
    network: Network, sample: Batch, rows: int, device: torch.device, lower: str, longer: float = 1.0
) -> None:
    """Refuse a step that needs too much memory: activations of a few rows, scaled to all rows and their length."""
    free = free_memory(device)
    if free is None:
        return
    count = training_bytes(network.parameter_count) * (NUMBERS - 1) // NUMBERS  # the weights are allocated already
    row = int(kept_bytes(network, sample.to(device)) / len(sample.source.tokens) * longer)
    if count + rows * row <= free:
        return
    fitting = (free - count) // max(1, row)
    advice = (
        tr(
            "Set run.micro_batch={fitting} (gradient accumulation, with the same result), or lower {lower}.",
            fitting=fitting,
            lower=lower,
        )
        if fitting > 0
        else tr("Lower {lower}.", lower=lower)
    )
    raise OutOfMemory(
        tr(
            "A step needs {needed} more: {optimizer} for gradients and the optimizer, {activations} for the "
            "activations of {rows:,} rows; {free} are free on this {device}.\n"
            "{advice}",
            needed=size(count + rows * row),
            optimizer=size(count),
            activations=size(rows * row),
            rows=rows,
            free=size(free),
            device=name_of(device),
            advice=advice,
        )
    )


def kept_bytes(network: Network, batch: Batch) -> int:
    """Bytes that the forward pass saves for the backward pass, without weights."""
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    network.train()
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        outcome = network(batch)  # while it exists, no two saved tensors share an address
    del outcome
    return sum(kept.values())


@contextmanager
def reported_out_of_memory(lower: str, kept: Callable[[], str]) -> Iterator[None]:
    """Turn an allocation that fails during a run into a message."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            tr(
                "Out of memory. {kept}\nSet run.micro_batch to fewer rows, or lower {lower}.",
                kept=kept(),
                lower=lower,
            )
        ) from error


def name_of(device: torch.device) -> str:
    return tr("machine") if device.type == "cpu" else device.type


def size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
