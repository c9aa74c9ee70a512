"""Stopping a run between two steps, so that it can be saved."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


@contextmanager
def interruptible(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Record Ctrl-C, SIGTERM and a closed terminal, so that the current step can finish.

    A second Ctrl-C stops immediately, unless `patient`: torchrun forwards the first one, which the terminal has
    already sent. Under `nohup`, a closed terminal is ignored.
    """
    noted: list[int] = []
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def note(number: int, frame: FrameType | None) -> None:
        if noted and number == signal.SIGINT and not patient:
            raise KeyboardInterrupt
        if number == HANGUP:
            leave(terminals)
        noted.append(number)

    stops = [signal.SIGINT, signal.SIGTERM]
    if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
        stops.append(HANGUP)
    try:
        old = {number: signal.signal(number, note) for number in stops}
    except ValueError:  # not the main thread, which alone receives signals
        old = {}
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def leave(terminals: list[int]) -> None:
    """Discard all further output: writing to a closed terminal fails."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in terminals:
            os.dup2(nowhere, number)
        os.close(nowhere)
