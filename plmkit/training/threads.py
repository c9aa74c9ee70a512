"""The number of threads: one per core that other programs leave free."""

import os
import time
from collections.abc import Callable
from typing import ClassVar

from plmkit.language import several, tr
from plmkit.training import device
from plmkit.training.usage import AT_IMPORT, others, usage

SHORTEST = 0.25  # seconds that a measurement covers at least; the system counts in hundredths
EVERY = 0.5  # seconds between two measurements during a run
FEWER, MORE = 0.5, 5.0  # seconds for which measurements must agree before threads are removed, or added
LONGEST = 15.0  # seconds after which a measurement is out of date


def wanted(cores: int, busy: float) -> int:
    """One thread per core that is free on average, at least one: threads that wait for a core delay the others."""
    return max(1, min(cores, round(cores - busy)))


def limit() -> int | None:
    """OMP_NUM_THREADS, a number or several for nested regions; none: the user gave none."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return (int(first) or None) if first.isdecimal() and first.isascii() and len(first) < 6 else None


class Threads:
    """The number of threads of a run: chosen at its start and adapted during it, or fixed if a number is given.

    A given number never changes, and so neither do the last bits of any result. Two runs that start together both find
    free cores and slow each other down until one measures again: threads are removed quickly and added slowly.
    """

    latest: ClassVar["Threads | None"] = None  # threads belong to the process, so there is one per process

    def __init__(self, requested: int | None, say: Callable[[str], None], processes: int = 1) -> None:
        self.say = say
        self.cores = max(1, device.available_cores() // processes)  # each of several processes has its share
        # torchrun sets OMP_NUM_THREADS to 1 by itself
        self.most = min(self.cores, (limit() if processes == 1 else None) or self.cores)
        self.last = AT_IMPORT if AT_IMPORT and time.monotonic() - AT_IMPORT.clock < LONGEST else usage()
        self.fixed = requested is not None or processes > 1 or self.most == 1 or self.last is None
        self.leaning = self.count = device.set_threads(requested or self.most)
        self.since = time.monotonic()  # since when measurements agree
        Threads.latest = self
        if not self.fixed:
            self.start()

    def start(self) -> None:
        """Importing torch usually takes longer than a measurement, so there is no waiting."""
        assert self.last is not None
        time.sleep(max(0.0, self.last.clock + SHORTEST - time.monotonic()))
        busy = self.busy()
        self.change(min(self.most, wanted(self.cores, busy)), busy)
        self.leaning = self.count

    def __call__(self, report: object = None) -> None:
        self.look()

    def look(self) -> None:
        """Called after every step: measure occasionally; measurements that agree for a while change the number."""
        now = time.monotonic()
        if self.fixed or self.last is None or now - self.last.clock < EVERY:
            return
        busy = self.busy()
        count = min(self.most, wanted(self.cores, busy))
        if count != self.leaning:
            self.leaning, self.since = count, now
        if now - self.since >= (FEWER if count < self.count else MORE):
            self.change(count, busy)

    def busy(self) -> float:
        before, self.last = self.last, usage()
        return others(before, self.last) if before and self.last else 0.0

    def change(self, count: int, busy: float) -> None:
        if count == self.count:
            return
        self.count = device.set_threads(count)
        threads = several(count, "thread")
        if count < self.most:
            self.say(
                tr(
                    "Other programs use {busy:.1f} of {cores} cores: computing with {threads}.",
                    busy=busy,
                    cores=self.cores,
                    threads=threads,
                )
            )
        else:
            self.say(tr("The cores are free again: computing with {threads}.", threads=threads))


def look() -> None:
    """Called after a step of inference: adapt the number of threads if a command manages it."""
    if Threads.latest is not None:
        Threads.latest.look()
