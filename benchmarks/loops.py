"""The pretraining loops, ours and Hugging Face's Trainer, timed in the same way: some steps after the first few."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import Options, sides, take_turns

WARM_STEPS = 2  # of each round, not counted
RATE = 1e-4
Told = dict[str, float]  # what a side says of a round


@dataclass(frozen=True, kw_only=True)
class Case:
    """One network on one text; both sides get exactly this."""

    text: Path
    tokenizer: Path
    vocabulary: int
    cache: Path
    dropout: float
    seed: int
    threads: int | None = None  # all cores
    layers: int = 4
    heads: int = 4
    width: int = 256
    length: int = 128
    batch: int = 32


def both(
    make_ours: Callable[..., Any], make_theirs: Callable[..., Any], case: Case, options: Options
) -> tuple[list[Told], list[Told]]:
    """What the two sides say, round by round; their networks must have the same size."""
    with sides((make_ours, case), (make_theirs, case)) as (ours, theirs):
        a, b = take_turns(ours, theirs, options.rounds)
    if a[0]["parameters"] != b[0]["parameters"]:
        raise RuntimeError(f"The networks differ: {a[0]['parameters']:,} and {b[0]['parameters']:,} parameters.")
    return a, b


def column(rounds: list[Told], name: str) -> list[float]:
    return [result[name] for result in rounds]


def read_samples(text: Path, tokenizer: Path, cache: Path, corruption: Sequence[Any], seed: int = 0) -> Any:
    """All documents of a text, arranged and hidden so."""
    from plmkit.data.corpus import open_corpus
    from plmkit.data.samples import Samples
    from plmkit.data.shards import open_store
    from plmkit.segmentation.choosing import segmenter_of
    from plmkit.tokenizers.tokenizer import load_tokenizer

    ready = load_tokenizer(tokenizer)
    store = open_store([open_corpus([text])], ready, cache, segmenter=segmenter_of(corruption))
    return Samples(store, np.arange(len(store.documents) - 1), corruption, ready.vocabulary, seed=seed)


def our_steps(
    network: Any, source: Any, optimizer: Any, schedule: Any, steps: int, seed: int = 0,
    between: Callable[[], None] | None = None, clock: Callable[[], float] = time.perf_counter, **how: Any,
) -> tuple[int, float]:  # fmt: skip
    """Tokens that our loop read, and the seconds that it took; what is done `between` steps is not counted."""
    from plmkit.training.loop import Budget, Report, State, train
    from plmkit.training.step import Step

    warm: list[State] = []
    pauses: list[float] = []
    begun: list[float] = []

    def watch(report: Report) -> bool:
        if report.state.step == WARM_STEPS:
            warm.append(report.state)
            begun.append(clock())
        if warm and between is not None:
            started = clock()
            between()
            pauses.append(clock() - started)
        return True

    budget = Budget(steps=WARM_STEPS + steps)
    step = Step(network, optimizer, clip=schedule.clip, **how)
    end = train(step, source, schedule, budget, watch, seed=seed)
    return end.tokens - warm[0].tokens, clock() - begun[0] - sum(pauses)


def their_seconds(
    model: Any, rows: Any, case: Case, steps: int, collate: Any = None, grouped: bool = False,
    clock: Callable[[], float] = time.perf_counter, **more: Any,
) -> float:  # fmt: skip
    """Seconds that the Trainer took; its rows may be grouped by length."""
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback, TrainerCallback

    class Clock(TrainerCallback):
        """When each step ended."""

        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *state: Any, **more: Any) -> None:
            self.ends.append(clock())

    settings = TrainingArguments(
        output_dir=str(case.cache / "trainer"), max_steps=WARM_STEPS + steps,
        per_device_train_batch_size=case.batch, learning_rate=RATE, weight_decay=0.01, max_grad_norm=1.0,
        optim="adamw_torch_fused", use_cpu=True, seed=case.seed, dataloader_num_workers=0,
        dataloader_pin_memory=False, dataloader_drop_last=True, remove_unused_columns=False, **sampling(grouped),
        logging_strategy="no", save_strategy="no", eval_strategy="no", report_to="none", disable_tqdm=True,
        **more,
    )  # fmt: skip
    watch = Clock()
    trainer = Trainer(model=model, args=settings, train_dataset=rows, data_collator=collate, callbacks=[watch])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    assert len(watch.ends) == WARM_STEPS + steps
    return watch.ends[-1] - watch.ends[WARM_STEPS - 1]


def sampling(grouped: bool) -> dict[str, Any]:
    """How their versions before and after 5 are configured to group rows by length."""
    from transformers import TrainingArguments

    if not grouped:
        return {}
    newer = hasattr(TrainingArguments, "train_sampling_strategy")
    return {"train_sampling_strategy": "group_by_length"} if newer else {"group_by_length": True}


def parameters_of(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
