"""Device, precision and threads."""

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
from plmkit.language import several, tr

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WORTH = 1.6  # speed-up of a product in bfloat16 from which a whole training step gains: at 2.8 it gains 1.35
SMALL, LARGE = 128, 512  # widths of the products that are measured
EMULATED = 0.1  # below this speed of the small product bfloat16 is emulated, and the large one is not tried
ROWS, PRODUCTS = 1024, 12  # of a measurement


def choose_device(name: str = "auto") -> torch.device:
    """The device given; by default CUDA, then Apple's MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()  # fails on "meta", whose tensors have no data
    except (RuntimeError, AssertionError, TypeError) as error:
        raise SettingError(
            tr("run.device={name} is not available on this machine. Use auto or cpu.", name=name)
        ) from error
    return device


def choose_dtype(device: torch.device, name: str = "auto", width: int = LARGE) -> torch.dtype:
    """The type given; by default bfloat16 if a network of this width is faster in it, otherwise float32."""
    if name not in ("auto", *DTYPES):
        raise SettingError(tr("run.dtype takes auto, float32 or bfloat16; found '{name}'.", name=name))
    if name == "bfloat16" and not has_bfloat16(device):
        raise SettingError(
            tr(
                "run.dtype=bfloat16: this {device} only emulates it, more slowly than float32. Use auto or float32.",
                device=device.type,
            )
        )
    if name == "auto":
        return torch.bfloat16 if has_bfloat16(device, width) else torch.float32
    return DTYPES[name]


def keep_dtype(
    device: torch.device, name: str, kept: str | None, say: Callable[[str], None], width: int = LARGE
) -> torch.dtype:
    """The type of a run; one that continues keeps its type, and a change is reported."""
    if name == "auto" and kept == "float32":
        return torch.float32
    dtype = choose_dtype(device, name, width)
    if kept and dtype is not DTYPES.get(kept):
        why = (
            tr("run.dtype={name} is set", name=name)
            if name != "auto"
            else tr("this {device} has no fast {kept}", device=device.type, kept=kept)
        )
        say(
            tr(
                "This run started in {kept} and continues in {dtype}, because {why}.",
                kept=kept,
                dtype=name_of(dtype),
                why=why,
            )
        )
    return dtype


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def computing(device: torch.device, dtype: torch.dtype, width: int = LARGE, processes: int = 1) -> str:
    """`Computing on cpu with 2 threads in float32.`"""
    threads = several(torch.get_num_threads(), "thread")
    crew = tr(" with {threads}", threads=threads) if device.type == "cpu" else ""
    measured = device.type == "cpu" and dtype is torch.bfloat16
    gain = tr(", measured {gain:.1f} times as fast as float32", gain=bfloat16_gain(width)) if measured else ""
    joint = tr(", in {count} processes", count=processes) if processes > 1 else ""
    return tr(
        "Computing on {device}{crew} in {dtype}{gain}{joint}.",
        device=device.type,
        crew=crew,
        dtype=name_of(dtype),
        gain=gain,
        joint=joint,
    )


def has_bfloat16(device: torch.device, width: int = LARGE) -> bool:
    """Whether the hardware computes it faster than float32; elsewhere torch emulates it."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bfloat16_gain(width) >= WORTH


@functools.cache
def bfloat16_gain(width: int = LARGE) -> float:
    """Measured speed-up of bfloat16 over float32 for matrix products of this width on this processor.

    Emulation takes up to a hundred times as long, so a small product comes first. One thread,
    timed by its own clock, gives the same result on a busy machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gain = 1.0
        for some in sorted({min(SMALL, width), width}):
            if gain > EMULATED or some <= SMALL:
                gain = product_seconds(some, torch.float32) / product_seconds(some, torch.bfloat16)
        return gain
    finally:
        torch.set_num_threads(threads)


def product_seconds(width: int, dtype: torch.dtype) -> float:
    """Seconds of this thread for a product of rows with a square matrix, the shortest of several.

    The first one is not timed: it prepares the others, as `kernels.linear` makes sure that it does in training.
    """
    weight, rows = torch.ones(width, width, dtype=dtype), torch.ones(ROWS, width, dtype=dtype)
    torch.mm(rows, weight)
    seconds = []
    for _ in range(PRODUCTS):
        started = time.thread_time()
        torch.mm(rows, weight)
        seconds.append(time.thread_time() - started)
    return min(seconds)


def precision(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """The autocast context of a step; weights stay float32."""
    return nullcontext() if dtype is torch.float32 else torch.autocast(device.type, dtype)


def set_threads(count: int | None) -> int:
    """Set torch's number of threads (default: the cores that this process may run on)."""
    keep_memory()
    torch.set_num_threads(count or available_cores())
    return torch.get_num_threads()


def keep_memory() -> None:
    """Let glibc keep freed memory for the next step, instead of returning it and faulting it in again.

    On a CPU this saves a quarter of the time of a step. Elsewhere, and with other allocators, it does nothing.
    """
    trim, top_pad, map_from = -1, -2, -3  # names of the settings in malloc.h
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(map_from, 1 << 30)
        libc.mallopt(trim, (1 << 31) - 1)
        libc.mallopt(top_pad, 64 << 20)


def available_cores() -> int:
    """The number of cores that this process may use, within the limit of a container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, container_share())))


def container_share(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> float:
    """The CPU limit of a container, as in `150000 100000` for 1.5 cores; infinite without a limit."""
    try:
        limit, period = file.read_text(encoding="ascii").split()
        return float(limit) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
