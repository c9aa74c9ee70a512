"""Whether a run fits into memory: found out before it begins, and told where it does not after all."""

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

ANY = 1 << 50  # bytes that no machine has, where this one does not say what it has
LARGE = 1_000_000  # no setting of a network that fits anywhere is as large
LAYER = 50_000  # bytes for the objects of a layer, however narrow it is
ENTRY = 100  # bytes for each token of a vocabulary while it is learnt
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


def check_shape(recipe: Recipe, device: torch.device) -> None:
    """Refuse a network that no vocabulary makes fit, by multiplication alone, before any text is read."""
    least = least_weights(recipe.architecture)
    refuse_weights(recipe, tr("at least {least:,}", least=least), training_bytes(least), device)


def check_weights(recipe: Recipe, vocabulary: int, device: torch.device) -> None:
    """Refuse a network whose weights, gradients and optimizer alone are too much; none of them is made for that."""
    count = parameters(recipe, vocabulary)
    refuse_weights(recipe, f"{count:,}", training_bytes(count), device)


def refuse_weights(recipe: Recipe, told: str, weights: int, device: torch.device) -> None:
    free = free_memory(device)
    needed = weights + LAYER * recipe.architecture.layers
    if needed > (ANY if free is None else free):
        large = [f"architecture.{name}" for name, size in sizes_of(recipe.architecture).items() if size >= LARGE]
        there = (
            tr("no machine has that")
            if free is None
            else tr("{spelt} are free on this {name_of}", spelt=spelt(free), name_of=name_of(device))
        )
        raise NoRoom(
            tr(
                "{name} with these settings has {told} weights: they, their gradients and the optimizer need "
                "{spelt}, and {there}.\n"
                "Lower {large}, or take a smaller recipe: `plm recipes` lists them.",
                name=recipe.name,
                told=told,
                spelt=spelt(needed),
                there=there,
                large=" and ".join(large) or tr("architecture.layers or architecture.width"),
            )
        )


def check_vocabulary(size: int) -> None:
    """Refuse to learn more tokens than can be kept while they are counted."""
    needed, free = size * ENTRY, free_memory(torch.device("cpu"))
    if needed > (ANY if free is None else free):
        raise NoRoom(
            tr(
                "tokenizer.size={size:,}: to learn so many tokens takes {spelt}{and_spelt}.\n"
                "Lower tokenizer.size: 8,000 to 50,000 are usual.",
                size=size,
                spelt=spelt(needed),
                and_spelt="" if free is None else tr(", and {spelt} are free on this machine", spelt=spelt(free)),
            )
        )


def check_batch(rows: int, length: int, lower: str) -> None:
    """Refuse a batch that cannot even be made."""
    needed, free = rows * length * TOKEN, free_memory(torch.device("cpu"))
    if free is not None and needed > free:
        raise NoRoom(
            tr(
                "A batch of {rows:,} rows of {length} tokens takes {spelt} to make, and {spelt_2} are free.\n"
                "Lower {lower}.",
                rows=rows,
                length=length,
                spelt=spelt(needed),
                spelt_2=spelt(free),
                lower=lower,
            )
        )


def check_step(
    network: Network, sample: Batch, rows: int, device: torch.device, lower: str, longer: float = 1.0
) -> None:
    """Refuse a step that needs too much: what a few rows keep for the way back, times all rows and their length."""
    free = free_memory(device)
    if free is None:
        return
    count = training_bytes(network.parameter_count) * (NUMBERS - 1) // NUMBERS  # the weights are there already
    row = int(kept_bytes(network, sample.to(device)) / len(sample.source.tokens) * longer)
    if count + rows * row <= free:
        return
    fitting = (free - count) // max(1, row)
    advice = (
        tr(
            "Set run.micro_batch={fitting}: each batch is then worked on in parts and the result is the same. Or lower",
            fitting=fitting,
        )
        if fitting > 0
        else "Lower"
    )
    raise NoRoom(
        tr(
            "A step needs {spelt} more: {spelt_2} for gradients and the optimizer, {spelt_3} for {rows:,} rows at "
            "once; {spelt_4} are free on this {name_of}.\n"
            "{advice} {lower}.",
            spelt=spelt(count + rows * row),
            spelt_2=spelt(count),
            spelt_3=spelt(rows * row),
            rows=rows,
            spelt_4=spelt(free),
            name_of=name_of(device),
            advice=advice,
            lower=lower,
        )
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
        outcome = network(batch)  # as long as it lives, no two kept tensors share an address
    del outcome
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
            tr(
                "The memory of this machine is used up. {kept}\nSet run.micro_batch to fewer rows, or lower {lower}.",
                kept=kept(),
                lower=lower,
            )
        ) from error


def name_of(device: torch.device) -> str:
    return "machine" if device.type == "cpu" else device.type


def spelt(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
