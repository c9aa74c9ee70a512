"""A machine that is not idle: what is left of our speed next to a busy process, and when two of ours run at once."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.shared import ENGLISH, Line, Options, Side, say, sides, text_files

TITLE = "Speed on a machine that is not idle, against the speed on an idle one"
CROWDED, TOGETHER = 0.45, 0.9  # of the idle speed
SECONDS = 15.0  # of a turn: longer than it takes to notice load
ROWS, WORDS = 1_500, 40  # of a fine-tuning


def run(options: Options) -> list[Line]:
    lines = []
    for name, make in {
        "pretraining": make_pretraining,
        "fine-tuning": make_finetuning,
        "generation": make_writing,
    }.items():
        text = next(iter(text_files(options, 0.2 if options.quick else 4, [ENGLISH]).values()))
        alone, crowded, together = [], [], []
        with sides(*((make, options, text, number) for number in (1, 2))) as (one, two):
            one()  # warms up
            for number in range(options.rounds):
                say(f"contention: {name}, round {number + 1}")
                alone.append(one())
                with busy():
                    crowded.append(one())
                together.append(sum(at_once(one, two)))
        unit = "tokens/s" if name != "fine-tuning" else "rows/s"
        lines += [
            Line(case=f"{name} next to a busy process", unit=unit, ours=crowded, theirs=alone, target=CROWDED),
            Line(case=f"{name}, two at once, together", unit=unit, ours=together, theirs=alone, target=TOGETHER),
        ]
    return lines


def at_once(*ready: Side) -> list[float]:
    for side in ready:
        side.pipe.send(())
    return [side.answer() for side in ready]


@contextmanager
def busy() -> Iterator[None]:
    """One process that never rests for every two cores."""
    from plmkit.training.device import available_cores

    processes = [get_context("spawn").Process(target=spin) for _ in range(max(1, available_cores() // 2))]
    for process in processes:
        process.start()
    time.sleep(1.0)  # it is under way when the next turn begins
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def spin() -> None:
    while True:
        pass


class Quiet:
    """A screen that shows nothing."""

    def __new__(cls) -> Any:
        import io

        from rich.console import Console

        from plmkit.terminal.screen import Screen

        return Screen(Console(file=io.StringIO()))


def make_pretraining(options: Options, text: Path, number: int) -> Callable[[], float]:
    """`plm pretrain bert-mini`, each turn a new run on the same prepared text."""
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain

    turn = iter(range(1_000_000))

    def one_turn() -> float:
        out = options.folder / f"contention-{number}-{next(turn)}"
        record = pretrain(order(options, text, out, Budget(seconds=1.0 if options.quick else SECONDS)), Quiet())
        return record.result["tokens"] / record.result["seconds"]

    return one_turn


def order(options: Options, text: Path, out: Path, budget: Any, recipe: str = "bert-mini") -> Any:
    import os

    from plmkit.catalogue import find
    from plmkit.config.machine import settle
    from plmkit.training.request import PretrainRequest

    os.environ["PLM_CACHE"] = str(options.folder / "cache")
    tiny = ["architecture.layers=1", "architecture.width=32", "architecture.heads=2", "architecture.inner=32"]
    sets = ["tokenizer.size=500", *tiny] if options.quick else ["tokenizer.size=21128"]
    base = [f"run.{setting}" for setting in ("validations=1", "checkpoint_steps=1000000")]
    return PretrainRequest(settings=settle(find(recipe), [*sets, *base]), corpora=(str(text),), out=out, budget=budget)


def make_finetuning(options: Options, text: Path, number: int) -> Callable[[], float]:
    """`plm finetune` of rows of the text, distinguished by their number: what is learned does not matter here."""
    from plmkit.config.machine import Machine
    from plmkit.tasks.finetune import FinetuneRequest, finetune
    from plmkit.tasks.registry import find_kind
    from plmkit.tasks.settings import TaskSettings
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain

    model, rows = options.folder / f"contention-model-{number}", 20 if options.quick else ROWS
    pretrain(order(options, text, model, Budget(steps=2)), Quiet())
    words = text.read_text(encoding="utf-8").split()
    train = options.folder / f"contention-{number}.tsv"
    lines = [" ".join(words[WORDS * row : WORDS * (row + 1)]) + f"\t{'ab'[row % 2]}" for row in range(rows)]
    train.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    settings = TaskSettings(epochs=1, length=64, dev_share=0)
    turn = iter(range(1_000_000))

    def one_turn() -> float:
        asked = FinetuneRequest(
            model=model, task=find_kind("classify")(), train=train, dev=None, test=None, settings=settings,
            machine=Machine(), out=options.folder / f"contention-tuned-{number}-{next(turn)}",
        )  # fmt: skip
        started = time.perf_counter()
        finetune(asked, Quiet())
        return rows / (time.perf_counter() - started)

    return one_turn


def make_writing(options: Options, text: Path, number: int) -> Callable[[], float]:
    """`plm generate`, one text at a time."""
    from plmkit.inference.loading import load
    from plmkit.training.loop import Budget
    from plmkit.training.pretrain import pretrain
    from plmkit.training.threads import Threads

    out, tokens = options.folder / f"contention-writer-{number}", 20 if options.quick else 200
    asked = order(options, text, out, Budget(steps=2), recipe="gpt2-mini")
    pretrain(replace(asked, seed=number), Quiet())
    model = load(out)

    def one_turn() -> float:
        Threads(None, lambda _: None)
        started, written = time.perf_counter(), 0
        while time.perf_counter() - started < (0.2 if options.quick else SECONDS / 3):
            written += model.generate(["the"], tokens=tokens)[0].tokens
        return written / (time.perf_counter() - started)

    return one_turn
