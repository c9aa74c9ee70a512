"""Whether a run fits into memory: found out before it begins, and told where it does not after all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.autograd.graph import saved_tensors_hooks

from plmkit.counting import NUMBERS, training_bytes
from plmkit.data.batch import Batch
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import PlmError, is_out_of_memory
from plmkit.network import Network
from plmkit.recipe import Recipe

TOKEN = 100  # bytes for each token of a batch while it is made: what is read, asked, drawn
MEMINFO = Path("/proc/meminfo")
GROUPS = (  # the limit that a container sets, and what is used of it
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


class NoRoom(PlmError):
    """A run that needs more memory than there is."""


def free_memory(device: torch.device) -> int | None:
    """Bytes that a run may still take; None where this machine does not say."""
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
    """A limit and what is used of it, pages of files not counted: they make room when asked."""
    try:
        limit, used = (int(file.read_text(encoding="ascii")) for file in files)
        stat = files[0].with_name("memory.stat").read_text(encoding="ascii").split()
        pages = dict(zip(stat[::2], map(int, stat[1::2]), strict=True))
    except (OSError, ValueError):  # none, or `max`
        return None, 0
    return limit, used - pages.get("total_inactive_file", pages.get("inactive_file", 0))


def check_weights(recipe: Recipe, vocabulary: Vocabulary, device: torch.device) -> None:
    """Refuse a network whose weights, gradients and optimizer alone are too much; none of them is made for that."""
    with torch.device("meta"):
        count = recipe.build(vocabulary).parameter_count
    needed, free = training_bytes(count), free_memory(device)
    if free is not None and needed > free:
        raise NoRoom(
            f"{recipe.name} with these settings has {count:,} weights: they, their gradients and the optimizer need "
            f"{spelt(needed)}, and {spelt(free)} are free on this {name_of(device)}.\n"
            "Lower architecture.layers or architecture.width, or take a smaller recipe: `plm recipes` lists them."
        )


def check_batch(rows: int, length: int, lower: str) -> None:
    """Refuse a batch that cannot even be made."""
    needed, free = rows * length * TOKEN, free_memory(torch.device("cpu"))
    if free is not None and needed > free:
        raise NoRoom(
            f"A batch of {rows:,} rows of {length} tokens takes {spelt(needed)} to make, and {spelt(free)} are free.\n"
            f"Lower {lower}."
        )


def check_step(
    network: Network, sample: Batch, rows: int, device: torch.device, lower: str, longer: float = 1.0
) -> None:
    """Refuse a step that needs too much: what a few rows keep for the way back, times all rows and their length."""
    free = free_memory(device)
    if free is None:
        return
    count = training_bytes(network.parameter_count) * (NUMBERS - 1) // NUMBERS  # the weights are there already
    row = int(kept_bytes(network, sample.to(device)) / len(sample.tokens) * longer)
    if count + rows * row <= free:
        return
    fitting = (free - count) // max(1, row)
    advice = (
        f"Set run.rows_at_once={fitting}: each batch is then worked on in parts and the result is the same. Or lower"
        if fitting > 0
        else "Lower"
    )
    raise NoRoom(
        f"A step needs {spelt(count + rows * row)} more: {spelt(count)} for gradients and the optimizer, "
        f"{spelt(rows * row)} for {rows:,} rows at once; {spelt(free)} are free on this {name_of(device)}.\n"
        f"{advice} {lower}."
    )


def kept_bytes(network: Network, batch: Batch) -> int:
    """What the way forward keeps for the way back, weights not counted."""
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    network.train()
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        losses = network(batch)  # as long as these live, no two kept tensors share an address
    del losses
    return sum(kept.values())


@contextmanager
def memory_explained(lower: str, kept: Callable[[], str]) -> Iterator[None]:
    """An allocation that fails in the middle of a run becomes a sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise NoRoom(
            f"The memory of this machine is used up. {kept()}\nSet run.rows_at_once to fewer rows, or lower {lower}."
        ) from error


def name_of(device: torch.device) -> str:
    return "machine" if device.type == "cpu" else device.type


def spelt(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
