"""Searching 100,000 vectors: `index.search` without the time of embedding the query, beside 50 ms of CPU time."""

import time
from pathlib import Path

import numpy as np

from benchmarks.shared import Line, Options, say

TITLE = "Searching, queries per CPU second: plmkit beside 50 ms per query"
WIDTHS = (256, 384)
LIMIT = 0.05  # seconds of CPU time per query
TEXTS, QUERIES, TOP = 100_000, 20, 10


def run(options: Options) -> list[Line]:
    lines = []
    for width in WIDTHS:
        seconds = [seconds_per_query(width, options) for _ in range(options.rounds)]
        say(f"search: width {width}, {min(seconds) * 1000:.1f} to {max(seconds) * 1000:.1f} ms of CPU time per query")
        lines.append(
            Line(
                case=f"{TEXTS if not options.quick else TEXTS // 100:,} vectors of width {width}, the nearest {TOP}",
                unit="queries/s",
                ours=[1 / one for one in seconds],
                theirs=[1 / LIMIT] * len(seconds),
                target=1.0,
            )
        )
    return lines


def seconds_per_query(width: int, options: Options) -> float:
    """The median over single queries, of all threads together, after one that warms up."""
    from plmkit.inference.passages import Passage
    from plmkit.inference.searching import Embedder, SearchIndex, unit

    rng = np.random.default_rng([options.seed, width])
    texts = TEXTS // 100 if options.quick else TEXTS
    vectors = unit(rng.standard_normal((texts, width), dtype=np.float32))
    passages = [Passage(text=str(number), line=number + 1) for number in range(texts)]
    wanted = iter(rng.standard_normal((QUERIES + 1, 1, width), dtype=np.float32))
    index = SearchIndex(Embedder(folder=Path(), width=width, embed=lambda _: next(wanted)), passages, vectors)
    taken = []
    for _ in range(QUERIES + 1):
        started = time.process_time()
        index.search("a query", TOP)
        taken.append(time.process_time() - started)
    return float(np.median(taken[1:]))
