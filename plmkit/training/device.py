"""Where and in which precision to compute."""

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from plmkit.errors import SettingError
from plmkit.language import tr

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WORTH = 1.3  # speed-up of a product in bfloat16 from which a whole training step gains
SMALL, LARGE = 128, 512  # widths of the products that are measured
ROWS, PRODUCTS = 512, 12  # of a measurement: of so many rows and a few more each time


def choose_device(name: str = "auto") -> torch.device:
    """CUDA, then Apple's MPS, then the CPU, unless one is named."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()  # "meta" makes tensors, but with nothing in them
    except (RuntimeError, AssertionError, TypeError) as error:
        raise SettingError(tr("run.device={name} is not on this machine; take auto, or cpu.", name=name)) from error
    return device


def choose_dtype(device: torch.device, name: str = "auto", width: int = LARGE) -> torch.dtype:
    """bfloat16 where a network of this width is really faster in it, float32 elsewhere; or the one that is named."""
    if name not in ("auto", *DTYPES):
        raise SettingError(tr("run.dtype takes auto, float32 or bfloat16; found '{name}'.", name=name))
    if name == "bfloat16" and not has_bfloat16(device):
        raise SettingError(
            tr(
                "run.dtype=bfloat16: this {type} only emulates it, more slowly than float32. Take auto or float32.",
                type=device.type,
            )
        )
    if name == "auto":
        return torch.bfloat16 if has_bfloat16(device, width) else torch.float32
    return DTYPES[name]


def keep_dtype(
    device: torch.device, name: str, kept: str | None, say: Callable[[str], None], width: int = LARGE
) -> torch.dtype:
    """What a run computes in: as it began, where it continues; a change is told."""
    if name == "auto" and kept == "float32":
        return torch.float32
    dtype = choose_dtype(device, name, width)
    if kept and dtype is not DTYPES.get(kept):
        why = (
            tr("run.dtype={name} asks for it", name=name)
            if name != "auto"
            else tr("this {type} has no fast {kept}", type=device.type, kept=kept)
        )
        say(
            tr(
                "This run began in {kept} and continues in {name_of}, because {why}.",
                kept=kept,
                name_of=name_of(dtype),
                why=why,
            )
        )
    return dtype


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def computing(device: torch.device, dtype: torch.dtype, width: int = LARGE, processes: int = 1) -> str:
    """`Computing on cpu with 2 threads in float32.`"""
    threads = torch.get_num_threads()
    crew = (
        tr(" with {threads} thread{word}", threads=threads, word="" if threads == 1 else "s")
        if device.type == "cpu"
        else ""
    )
    measured = device.type == "cpu" and dtype is torch.bfloat16
    gain = (
        tr(", measured {bfloat16_gain:.1f} times as fast as float32", bfloat16_gain=bfloat16_gain(width))
        if measured
        else ""
    )
    joint = tr(", {processes} processes together", processes=processes) if processes > 1 else ""
    return tr(
        "Computing on {type}{crew} in {name_of}{gain}{joint}.",
        type=device.type,
        crew=crew,
        name_of=name_of(dtype),
        gain=gain,
        joint=joint,
    )


def has_bfloat16(device: torch.device, width: int = LARGE) -> bool:
    """Does the hardware compute it, faster than float32? torch runs it anywhere, by emulation if necessary."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bfloat16_gain(width) >= WORTH


@functools.cache
def bfloat16_gain(width: int = LARGE) -> float:
    """Measured speed-up of bfloat16 over float32 for matrix products of this width on this processor.

    A processor that emulates it takes up to a hundred times as long, so a small product comes first. One thread,
    timed by its own clock, gives the same result on a busy machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gain = 1.0
        for some in sorted({min(SMALL, width), width}):
            if gain > 0.5 or some <= SMALL:
                gain = product_seconds(some, torch.float32) / product_seconds(some, torch.bfloat16)
        return gain
    finally:
        torch.set_num_threads(threads)


def product_seconds(width: int, dtype: torch.dtype) -> float:
    """Seconds of this thread for a product of rows with a square matrix, the mean over several numbers of rows.

    Every number of rows is prepared for anew in bfloat16, and in training hardly two batches have the same number.
    """
    weight = torch.ones(width, width, dtype=dtype)
    torch.mm(weight, weight)
    seconds = 0.0
    for number in range(PRODUCTS):
        rows = torch.ones(ROWS + 7 * number, width, dtype=dtype)
        begun = time.thread_time()
        torch.mm(rows, weight)
        seconds += time.thread_time() - begun
    return seconds / PRODUCTS


def precision(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """The context in which a step computes: weights stay float32."""
    return nullcontext() if dtype is torch.float32 else torch.autocast(device.type, dtype)


def set_threads(count: int | None) -> int:
    """Make torch use so many cores: those this process may run on, unless a number is given."""
    keep_memory()
    torch.set_num_threads(count or available_cores())
    return torch.get_num_threads()


def keep_memory() -> None:
    """Let glibc keep what a step frees for the next step, instead of handing it back and faulting it in again.

    On a CPU that is a quarter of the time of a step. Elsewhere, and with other allocators, nothing happens.
    """
    trim, top_pad, map_from = -1, -2, -3  # names of the settings in malloc.h
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(map_from, 1 << 30)
        libc.mallopt(trim, (1 << 31) - 1)
        libc.mallopt(top_pad, 64 << 20)


def available_cores() -> int:
    """The cores that this process may run on, of which a container may have a share only."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, container_share())))


def container_share(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> float:
    """How many cores a container gives, as in `150000 100000` for one and a half; without a limit, infinitely many."""
    try:
        limit, period = file.read_text(encoding="ascii").split()
        return float(limit) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
