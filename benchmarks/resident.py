"""The memory of a command: the most that it and its children have resident at once."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.shared import ENGLISH, Line, Options, make_text, say

TITLE = "Resident memory of `plm pretrain bert-tiny`, all its processes together, against what it may use"
CORPUS, MOST = 1000.0, 1000.0  # MB
PIECE = 10.0  # MB of text that are new; the rest of the corpus is the same in another order
STEPS = 20
LOOK_SECONDS = 0.05
COMMAND = "import sys; from plmkit.cli import main; sys.argv[0] = 'plm'; main()"


def run(options: Options) -> list[Line]:
    megabytes = 0.5 if options.quick else CORPUS
    corpus = options.corpus or write_corpus(options.folder / "resident.txt", megabytes, options.seed)
    size = corpus.stat().st_size / 1e6
    peaks = []
    for number in range(1 if options.quick else min(options.rounds, 2)):  # minutes each, and they do not vary
        say(f"resident: plm pretrain bert-tiny on {size:,.0f} MB, round {number + 1}")
        folder = options.folder / f"resident-{number}"
        command = [
            "pretrain", "bert-tiny", str(corpus), "--out", str(folder / "run"), "--steps", str(STEPS),
            *(("--set", "tokenizer.size=200") if options.quick else ()),
        ]  # fmt: skip
        peaks.append(peak_of(command, folder / "cache"))
        shutil.rmtree(folder)
    case = f"plm pretrain bert-tiny, corpus of {size:,.0f} MB, {STEPS} steps: allowed, against used"
    return [Line(case=case, unit="MB", ours=[MOST] * len(peaks), theirs=peaks, target=1.0)]


def write_corpus(path: Path, megabytes: float, seed: int) -> Path:
    """Made text in pieces, each of them turned round by a different number of documents."""
    piece = min(PIECE, megabytes)
    documents = make_text(ENGLISH, piece, seed).strip("\n").split("\n\n")
    with open(path, "w", encoding="utf-8") as file:
        for number in range(max(1, round(megabytes / piece))):
            at = number * 7919 % len(documents)
            file.write("\n\n".join(documents[at:] + documents[:at]) + "\n\n")
    return path


def peak_of(arguments: Sequence[str], cache: Path) -> float:
    """MB: the highest sum over the command and its children of what each has resident, shared pages shared out."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        env={**os.environ, "PLM_CACHE": str(cache)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    printed: list[str] = []
    assert process.stderr is not None
    listener = threading.Thread(target=printed.extend, args=(process.stderr,))  # a full pipe would stop the command
    listener.start()
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(resident, family(process.pid))))
        time.sleep(LOOK_SECONDS)
    listener.join()
    if process.returncode:
        raise RuntimeError(f"plm ended with code {process.returncode}:\n{''.join(printed[-5:])}")
    return peak / 1e6


def family(parent: int) -> list[int]:
    """A process and all that descend from it."""
    found, new = [parent], [parent]
    while new:
        new = [child for process in new for child in children(process)]
        found += new
    return found


def children(process: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{process}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return []


def resident(process: int) -> int:
    """Bytes; a page that several processes map counts a part for each."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0
