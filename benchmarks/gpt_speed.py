"""Pretraining GPT-2: our loop beside Hugging Face's Trainer, in tokens a second and in memory."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import ENGLISH, Line, Options, say, sides, take_turns, text_files

TITLE = "Pretraining GPT-2: plmkit beside transformers.Trainer, speed and peak memory"
SPEED_TARGET, MEMORY_TARGET = 1.3, 1 / 0.6  # theirs beside ours: ours is to be at most 60% of it
WARM_STEPS = 2  # of each round, not counted
RATE = 1e-4


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
    batch: int = 16
    steps: int = 6  # in a round


def run(options: Options) -> list[Line]:
    lines = []
    for name, case in cases(options).items():
        say(f"pretraining GPT-2: {name}")
        with sides((make_ours, case), (make_theirs, case)) as (ours, theirs):
            a, b = take_turns(ours, theirs, options.rounds)
        if a[0]["parameters"] != b[0]["parameters"]:
            raise RuntimeError(f"The networks differ: {a[0]['parameters']:,} and {b[0]['parameters']:,} parameters.")
        speed, their_speed = ([told["tokens_per_second"] for told in side] for side in (a, b))
        peak, their_peak = ([told["megabytes"] for told in side] for side in (a, b))
        lines += [
            Line(case=name, unit="tokens/s", ours=speed, theirs=their_speed, target=SPEED_TARGET),
            Line(
                case=f"{name}: peak memory, theirs beside ours", unit="MB",
                ours=their_peak, theirs=peak, target=MEMORY_TARGET,
            ),
        ]  # fmt: skip
    return lines


def cases(options: Options) -> dict[str, Case]:
    """GPT-2's vocabulary, with and without dropout."""
    text = options.corpus or text_files(options, 0.2 if options.quick else 4, [ENGLISH])[ENGLISH]
    size = 600 if options.quick else 50_257
    tokenizer = learn_bytes(text, size, options.folder / f"{text.stem}-bytes-{size}")
    small: dict[str, Any] = {"layers": 2, "heads": 2, "width": 32, "length": 32, "batch": 4, "steps": 2, "threads": 1}
    return {
        f"vocabulary {size:,}, dropout {dropout:g}": Case(
            text=text, tokenizer=tokenizer, vocabulary=size, cache=options.folder / "cache", dropout=dropout,
            seed=options.seed, **(small if options.quick else {}),
        )
        for dropout in ((0.0,) if options.quick else (0.0, 0.1))
    }  # fmt: skip


def learn_bytes(text: Path, size: int, folder: Path) -> Path:
    """A folder with a byte-level tokenizer; the networks have `size` rows whatever it has."""
    from plmkit.tokenizers.byte_bpe import StreamByteBPE

    if not folder.exists():
        with open(text, encoding="utf-8") as file:
            lines = file.read(2_000_000).splitlines()
        StreamByteBPE(size=min(size, 8_000)).train(lines).save(folder)
    return folder


def samples_of(case: Case) -> Any:
    from plmkit.corruption.stream import Stream
    from plmkit.data.corpus import open_corpus
    from plmkit.data.samples import Samples
    from plmkit.data.shards import open_store
    from plmkit.tokenizers.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(case.tokenizer)
    store = open_store([open_corpus([case.text])], tokenizer, case.cache)
    return Samples(store, np.arange(len(store.documents) - 1), (Stream(),), tokenizer.vocabulary, seed=case.seed)


def peak_megabytes() -> float:
    """The most that this process has had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


# --- ours


def make_ours(case: Case) -> Callable[[], dict[str, float]]:
    import torch

    from plmkit.architectures.decoder import Decoder
    from plmkit.catalogue import find
    from plmkit.schedules.optimizers import AdamW
    from plmkit.training.device import set_threads
    from plmkit.training.loop import Budget, Report, State, train

    set_threads(case.threads)
    mini = find("gpt2-mini")
    schedule = replace(mini.schedule, batch=case.batch, lengths=((1.0, case.length),), rate=RATE, optimizer=AdamW())
    architecture = Decoder(
        layers=case.layers, heads=case.heads, width=case.width, inner=4 * case.width, longest=case.length,
        dropout=case.dropout, attention_dropout=case.dropout,
    )  # fmt: skip
    recipe = replace(mini, architecture=architecture, schedule=schedule)
    samples = samples_of(case)
    torch.manual_seed(case.seed)
    network = recipe.build(range(case.vocabulary))
    optimizer = schedule.optimizer.build(network.named_parameters(), RATE)

    def one_round() -> dict[str, float]:
        warm: list[State] = []

        def watch(report: Report) -> bool:
            if report.state.step == WARM_STEPS:
                warm.append(report.state)
            return True

        budget = Budget(steps=WARM_STEPS + case.steps)
        end = train(network, samples, optimizer, schedule, budget, watch, seed=case.seed, device=torch.device("cpu"))
        return {
            "tokens_per_second": (end.tokens - warm[0].tokens) / (end.seconds - warm[0].seconds),
            "megabytes": peak_megabytes(),
            "parameters": network.parameter_count,
        }

    return one_round


# --- theirs


def make_theirs(case: Case) -> Callable[[], dict[str, float]]:
    import torch
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    from transformers.trainer_callback import PrinterCallback, TrainerCallback

    batch = samples_of(case).batch(0, 0, case.batch * (WARM_STEPS + case.steps), case.length)
    whole = batch.tokens[batch.visible.all(1)].tolist()  # the very rows that ours reads
    rows = Dataset.from_dict({"input_ids": whole, "labels": whole})
    torch.manual_seed(case.seed)
    config = GPT2Config(
        vocab_size=case.vocabulary, n_embd=case.width, n_layer=case.layers, n_head=case.heads,
        n_positions=case.length, resid_pdrop=case.dropout, embd_pdrop=case.dropout, attn_pdrop=case.dropout,
        activation_function="gelu_pytorch_tanh",  # the same function as ours, in the faster of their two forms
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    settings = TrainingArguments(
        output_dir=str(case.cache / "trainer"), max_steps=WARM_STEPS + case.steps,
        per_device_train_batch_size=case.batch, learning_rate=RATE, weight_decay=0.01, max_grad_norm=1.0,
        optim="adamw_torch_fused", use_cpu=True, seed=case.seed, dataloader_num_workers=0,
        dataloader_pin_memory=False, dataloader_drop_last=True,
        logging_strategy="no", save_strategy="no", eval_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip

    class Clock(TrainerCallback):
        """When each step ended."""

        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *state: Any, **more: Any) -> None:
            self.ends.append(time.perf_counter())

    def one_round() -> dict[str, float]:
        clock = Clock()
        trainer = Trainer(model=model, args=settings, train_dataset=rows, callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        seconds = clock.ends[-1] - clock.ends[WARM_STEPS - 1]
        return {
            "tokens_per_second": (len(clock.ends) - WARM_STEPS) * case.batch * case.length / seconds,
            "megabytes": peak_megabytes(),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        }

    return one_round
