"""CPU time as counted by the system. Without torch, so that a command can measure from its very start."""

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Usage:
    """CPU time up to a moment, in seconds."""

    clock: float
    busy: float  # of all programs, on the cores that this process may use
    own: float  # of this process and its finished children


def usage() -> Usage | None:
    """The content of /proc/stat; None if there is no such file."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
    except (OSError, ValueError):
        return None
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    tick = os.sysconf("SC_CLK_TCK")
    # user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already
    busy = sum(int(count) for name, *counts in lines if name in mine for count in [*counts[:3], *counts[5:8]])
    return Usage(clock=time.monotonic(), busy=busy / tick, own=sum(os.times()[:4]))


def others(before: Usage, after: Usage) -> float:
    """The number of cores that other programs kept busy between two moments."""
    seconds = after.clock - before.clock
    return max(0.0, (after.busy - before.busy) - (after.own - before.own)) / seconds if seconds > 0 else 0.0


AT_IMPORT = usage()
