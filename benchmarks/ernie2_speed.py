"""ERNIE 2's steps against ERNIE 1's at the same shape, and what making the rows of each task takes of a step."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.loops import our_steps
from benchmarks.shared import ENGLISH, Line, Options, learn_tokenizer, say, sides, take_turns, text_files

TITLE = "ERNIE 2: its steps against ERNIE 1's at the same shape, and its rows against its steps"
MOST_COST = 1.35  # times ERNIE 1's step
MOST_SHARE = 0.05  # of a step, that making its batch may take
SEVEN = 7


def run(options: Options) -> list[Line]:
    text = text_files(options, 0.2 if options.quick else 3, [ENGLISH])
    corpus = connected(next(iter(text.values())), options.folder / "connected.txt")
    tokenizer = learn_tokenizer(corpus, 1_000 if options.quick else 8_000, options.folder / "ernie2-tokenizer")
    titles = write_titles(options.folder / "titles.tsv", corpus)
    work = corpus, titles, tokenizer, options.quick
    say("ernie2: its steps against ernie-mini's")
    with sides((make_side, "ernie2-mini", *work), (make_side, "ernie-mini", *work)) as (ours, theirs):
        a, b = take_turns(ours, theirs, options.rounds)
    steps = [[1 / result["step_seconds"] for result in some] for some in (a, b)]
    lines = [
        Line(
            case="ernie2-mini against ernie-mini, same shape, all seven tasks in turn",
            unit="steps/s",
            ours=steps[0],
            theirs=steps[1],
            target=1 / MOST_COST,
        ),
        Line(  # rows of queries and of connected texts are shorter
            case="the same per token",
            unit="tokens/s",
            ours=[result["tokens_per_second"] for result in a],
            theirs=[result["tokens_per_second"] for result in b],
            target=1 / MOST_COST,
        ),
    ]
    lines += [
        Line(
            case=f"ernie2-mini: batches of {task} made, against steps taken",
            unit="1/s",
            ours=[1 / result[task] for result in a],
            theirs=steps[0],
            target=1 / MOST_SHARE,
        )
        for task in a[0]
        if task not in ("step_seconds", "tokens_per_second")
    ]
    return lines


def connected(text: Path, path: Path) -> Path:
    """The made text, with connectives in a tenth of its lines."""
    lines = text.read_text(encoding="utf-8").split("\n")
    for number in range(0, len(lines), 10):
        first, comma, rest = lines[number].partition(", ")
        lines[number] = f"{first} because {rest}" if comma else lines[number]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_titles(path: Path, text: Path) -> Path:
    """Queries and titles: the first words of a line of the text, and more of it."""
    lines = [line.split() for line in text.read_text(encoding="utf-8").split("\n")[:4_000] if line]
    rows = (f"{' '.join(line[:3])}\t{' '.join(line[3:15])}\t{number % 2}" for number, line in enumerate(lines))
    path.write_text("\n".join(["query\ttitle\tlabel", *(row for row in rows if "\t\t" not in row)]), encoding="utf-8")
    return path


def make_side(name: str, text: Path, titles: Path, tokenizer: Path, quick: bool) -> Callable[[], dict[str, float]]:
    """Steps of a recipe at 4 layers of 256, rows of 128, batches of 32; one thread, its own processor time."""
    import torch

    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.config.pretraining_tasks import tasks_of
    from plmkit.data.samples import Place
    from plmkit.preparation.prepare import prepare
    from plmkit.terminal.screen import Screen
    from plmkit.training.device import set_threads

    set_threads(1)
    rows, length, taken = (4, 32, SEVEN) if quick else (32, 128, 2 * SEVEN)
    recipe = find(name)
    sizes = {"layers": 2, "heads": 2, "width": 32, "inner": 64} if quick else {}
    several = bool(tasks_of(recipe))
    changes = ["tasks=joint"] if several else ["corruption.segmenter=English"]
    settings = settle(recipe, changes)
    made = settings.recipe
    made = replace(
        made,
        architecture=made.architecture.with_settings(**sizes),
        stages=tuple(replace(stage, length=length) for stage in made.stages[-1:]),
        streams=made.streams if several else made.streams[-1:],
        schedule=replace(made.schedule, batch=rows),
    )
    paths = [str(text), str(titles)] if several else [str(text)]
    material = prepare(replace(settings, recipe=made), paths, None, 0, Screen.silent(), tokenizer=tokenizer)
    torch.manual_seed(0)
    network = made.build(material.tokenizer.vocabulary)
    optimizer = made.schedule.optimizer.build(network.named_parameters(), made.schedule.learning_rate)

    def one_round() -> dict[str, float]:
        source = material.source(made, 0)
        tokens, seconds = our_steps(network, source, optimizer, made.schedule, taken, clock=time.process_time)
        found = {"step_seconds": seconds / taken, "tokens_per_second": tokens / seconds}
        return found | ({task: making(task) for task in material.streams} if several else {})

    def making(task: str) -> float:
        """Seconds per batch, with its share of the plan of an epoch."""
        samples: Any = material.streams[task]
        samples.planned = None
        started = time.process_time()
        _, order = samples.plan(0, length, rows)
        planned = (time.process_time() - started) / max(1.0, len(order) / rows)
        many = max(1, min(len(order) // rows, 20))
        place, started = Place(), time.process_time()
        for _ in range(many):
            _, place = samples.next(place, rows, length)
        return float(planned + (time.process_time() - started) / many)

    return one_round
