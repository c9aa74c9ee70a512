"""Pretraining GPT-2: our loop compared with Hugging Face's Trainer, in tokens per second and in memory."""

import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import loops
from benchmarks.loops import RATE, WARM_STEPS, Told, both, column, our_steps, parameters_of, read_samples, their_seconds
from benchmarks.shared import ENGLISH, Line, Options, say, text_files

TITLE = "Pretraining GPT-2: plmkit against transformers.Trainer, speed and peak memory"
SPEED_TARGET, MEMORY_TARGET = 1.3, 1 / 0.6  # theirs against ours: ours is to be at most 60% of it


@dataclass(frozen=True, kw_only=True)
class Case(loops.Case):
    batch: int = 16
    steps: int = 6  # in a round


def run(options: Options) -> list[Line]:
    lines = []
    for name, case in cases(options).items():
        say(f"pretraining GPT-2: {name}")
        a, b = both(make_ours, make_theirs, case, options)
        speed, their_speed = (column(side, "tokens_per_second") for side in (a, b))
        peak, their_peak = (column(side, "megabytes") for side in (a, b))
        lines += [
            Line(case=name, unit="tokens/s", ours=speed, theirs=their_speed, target=SPEED_TARGET),
            Line(
                case=f"{name}: peak memory, theirs against ours", unit="MB",
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
    from plmkit.corruption.arrange.stream import Stream

    return read_samples(case.text, case.tokenizer, case.cache, (Stream(),), case.seed)


def peak_megabytes() -> float:
    """The most that this process has had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


# --- ours


def make_ours(case: Case) -> Callable[[], Told]:
    import torch

    from plmkit.architectures.decoder import Decoder
    from plmkit.catalogue import find
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.data.vocabulary import unnamed
    from plmkit.schedules.optimizers import AdamW
    from plmkit.schedules.schedule import Stage
    from plmkit.training.device import set_threads

    set_threads(case.threads)
    mini = find("gpt2-mini")
    schedule = replace(mini.schedule, batch=case.batch, learning_rate=RATE, optimizer=AdamW())
    architecture = Decoder(
        layers=case.layers, heads=case.heads, width=case.width, inner=4 * case.width, max_length=case.length,
        dropout=case.dropout, attention_dropout=case.dropout,
    )  # fmt: skip
    recipe = replace(mini, architecture=architecture, stages=(Stage(length=case.length),), schedule=schedule)
    source = MixtureSource.of_one(samples_of(case), case.length)
    torch.manual_seed(case.seed)
    network = recipe.build(unnamed(case.vocabulary))
    optimizer = schedule.optimizer.build(network.named_parameters(), RATE)

    def one_round() -> Told:
        tokens, seconds = our_steps(network, source, optimizer, schedule, case.steps, case.seed)
        return {
            "tokens_per_second": tokens / seconds,
            "megabytes": peak_megabytes(),
            "parameters": parameters_of(network),
        }

    return one_round


# --- theirs


def make_theirs(case: Case) -> Callable[[], Told]:
    import torch
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel

    batch = samples_of(case).batch(0, 0, case.batch * (WARM_STEPS + case.steps), case.length)
    whole = batch.source.tokens[batch.source.visible.all(1)].tolist()  # the very rows that ours reads
    rows = Dataset.from_dict({"input_ids": whole, "labels": whole})
    torch.manual_seed(case.seed)
    config = GPT2Config(
        vocab_size=case.vocabulary, n_embd=case.width, n_layer=case.layers, n_head=case.heads,
        n_positions=case.length, resid_pdrop=case.dropout, embd_pdrop=case.dropout, attn_pdrop=case.dropout,
        activation_function="gelu_pytorch_tanh",  # the same function as ours, in the faster of their two forms
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)

    def one_round() -> Told:
        seconds = their_seconds(model, rows, case, case.steps)
        return {
            "tokens_per_second": case.steps * case.batch * case.length / seconds,
            "megabytes": peak_megabytes(),
            "parameters": parameters_of(model),
        }

    return one_round
