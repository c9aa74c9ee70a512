"""How many threads compute: as many as there are cores that other programs leave free."""

import time
from collections.abc import Callable
from typing import ClassVar

from plmkit.language import tr
from plmkit.training import device
from plmkit.training.usage import BEGUN, others, usage

SHORTEST = 0.25  # seconds that a look takes in at least; the system counts in hundredths
EVERY = 0.5  # seconds between two looks while a run is under way
FEWER, MORE = 0.5, 5.0  # seconds for which looks must agree before there are fewer threads, or more
LONGEST = 15.0  # what was longer ago than this says nothing of now


def wanted(cores: int, busy: float) -> int:
    """One thread for each core that is free on average, at least one: threads that wait for a core hold up the rest."""
    return max(1, min(cores, round(cores - busy)))


class Threads:
    """The threads of a run: settled when it starts, looked at again while it is under way; or as many as are asked for.

    A number that is asked for stays, and with it the last bits of every result. Two runs that start together both find
    free cores, and take each other's threads away until one of them looks again: fewer threads come soon, more later.
    """

    latest: ClassVar["Threads | None"] = None  # threads belong to the process, and so does the one that counts them

    def __init__(self, asked: int | None, say: Callable[[str], None], processes: int = 1) -> None:
        self.say = say
        self.cores = max(1, device.available_cores() // processes)  # each of several processes has its share
        self.last = BEGUN if BEGUN and time.monotonic() - BEGUN.clock < LONGEST else usage()
        self.fixed = asked is not None or processes > 1 or self.cores == 1 or self.last is None
        self.leaning = self.count = device.set_threads(asked or self.cores)
        self.since = time.monotonic()  # when the looks began to agree
        Threads.latest = self
        if not self.fixed:
            self.start()

    def start(self) -> None:
        """Importing torch has taken longer than a look needs, so most often nothing is waited for."""
        assert self.last is not None
        time.sleep(max(0.0, self.last.clock + SHORTEST - time.monotonic()))
        busy = self.busy()
        self.change(wanted(self.cores, busy), busy)
        self.leaning = self.count

    def __call__(self, report: object = None) -> None:
        self.look()

    def look(self) -> None:
        """After every step: now and then, see what others use; looks that agree for a while change the number."""
        now = time.monotonic()
        if self.fixed or self.last is None or now - self.last.clock < EVERY:
            return
        busy = self.busy()
        count = wanted(self.cores, busy)
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
        threads = "1 thread" if count == 1 else tr("{count} threads", count=count)
        if count < self.cores:
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
    """A step of inference is done: where a command counts the threads, it may look again."""
    if Threads.latest is not None:
        Threads.latest.look()
