"""Where and in which precision to compute."""

import ctypes
import os
from contextlib import AbstractContextManager, nullcontext, suppress

import torch

from plmkit.errors import SettingError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


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
        raise SettingError(f"run.device={name} is not on this machine; take auto, or cpu.") from error
    return device


def choose_dtype(device: torch.device, name: str = "auto") -> torch.dtype:
    """bfloat16 where the hardware has it, float32 elsewhere."""
    if name != "auto":
        if name not in DTYPES:
            raise SettingError(f"run.dtype takes auto, float32 or bfloat16; found '{name}'.")
        if DTYPES[name] is torch.bfloat16 and not has_bfloat16(device):
            raise SettingError(
                f"run.dtype=bfloat16: this {device.type} only emulates it, a hundred times slower. Take float32."
            )
        return DTYPES[name]
    return torch.bfloat16 if device.type == "cuda" and has_bfloat16(device) else torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Is it done by the hardware? torch runs it anywhere, by emulation where need be."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        flags = cpu_flags()
        return "amx_bf16" in flags or "avx512_bf16" in flags
    return False


def cpu_flags() -> frozenset[str]:
    """What /proc/cpuinfo says the processor can do; nothing where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def precision(device: torch.device, dtype: torch.dtype) -> AbstractContextManager:
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
