"""Which processes of a run are alive, and which one reports its end: noted in the store that torchrun keeps for all."""

import atexit
import signal
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from plmkit.training.processes import processes, rank

if TYPE_CHECKING:
    from torch.distributed import Store

BEAT = 0.25  # seconds between two signs of life
SILENCE = 5.0  # seconds without one, after which a process counts as dead
HEAD_START = 5.0  # seconds for rank 0 to report an error before another process does
PATIENCE = timedelta(seconds=30)  # for an answer of the store
FAILED = "plm/failed"  # number of processes that have failed


def open_store() -> "Store":
    """A connection to the store; torchrun's own outlives every process of the run."""
    from torch.distributed import rendezvous

    store: Store = next(rendezvous("env://", rank(), processes(), timeout=PATIENCE))[0]
    return store


class RollCall:
    """Signs of life: each process counts up regularly, in a thread, while it computes or waits for the others."""

    def __init__(self, store: "Store", rank: int, size: int) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)
        self.thread.start()
        atexit.register(self.close)  # a thread that is inside torch when Python ends would abort

    def beat(self) -> None:
        with suppress(RuntimeError):  # without a store there is no one to tell
            while not self.closed.wait(BEAT):
                self.store.add(key(self.rank), 1)

    def close(self) -> None:
        self.closed.set()
        self.thread.join(timeout=2)
        atexit.unregister(self.close)

    def failed(self) -> bool:
        """Whether a process has reported an error, which ends the run."""
        return failures(self.store) > 0

    def dead(self) -> list[int]:
        """The ranks without a sign of life for a while."""
        quiet = {other: self.beats(other) for other in range(self.size) if other != self.rank}
        end = time.monotonic() + SILENCE
        while quiet and time.monotonic() < end:
            time.sleep(BEAT)
            quiet = {other: count for other, count in quiet.items() if self.beats(other) == count}
        return sorted(quiet)

    def beats(self, other: int) -> int:
        return self.store.add(key(other), 0)


def key(rank: int) -> str:
    return f"plm/beats/{rank}"


def failures(store: "Store") -> int:
    return store.add(FAILED, 0)


def reports_failure() -> bool:
    """Whether this process prints the error that ends the run: rank 0 if it fails too, otherwise the first to fail."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends all processes as soon as one has left
    try:
        store = open_store()
        end = time.monotonic() + (HEAD_START if rank() else 0.0)
        while time.monotonic() < end and not failures(store):
            time.sleep(BEAT)
        return store.add(FAILED, 1) == 1
    except (RuntimeError, ValueError):  # rank 0 kept the store itself, or nobody does: better twice than not at all
        return True
