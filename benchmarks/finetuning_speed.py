"""Fine-tuning on rows of mixed length: our loop and Hugging Face's Trainer, which groups them by length too."""

import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import loops
from benchmarks.loops import RATE, WARM_STEPS, Told, column, our_steps, parameters_of, their_seconds
from benchmarks.shared import Line, Options, say, sides, take_turns

TITLE = "Fine-tuning, tokens per second: plmkit against transformers.Trainer, group_by_length; memory against 2.5 GB"
TARGET, MOST = 2.0, 2500.0  # of speed; MB
CLASSES = ("0", "1")
ROWS_OF_STEPS = 2  # this many times the rows of a round, so that there are lengths to sort


@dataclass(frozen=True, kw_only=True)
class Case(loops.Case):
    """`text` and `tokenizer` are not read: tokens are drawn."""

    inner: int = 1024
    steps: int = 12
    dtype: str = "float32"  # of ours; theirs computes in float32, as it does by default


def run(options: Options) -> list[Line]:
    lines = []
    for name, case in cases(options).items():
        say(f"fine-tuning: {name}")
        with sides((make_ours, case), (make_theirs, case)) as (ours, theirs):
            a, b = take_turns(ours, theirs, options.rounds)
        if a[0]["parameters"] != b[0]["parameters"]:
            raise RuntimeError(f"The networks differ: {a[0]['parameters']:,} and {b[0]['parameters']:,} parameters.")
        speed, their_speed = column(a, "tokens_per_second"), column(b, "tokens_per_second")
        peaks = column(a, "peak")
        say(f"  their peak of memory: {max(column(b, 'peak')):,.0f} MB")
        lines += [
            Line(case=name, unit="tokens/s", ours=speed, theirs=their_speed, target=TARGET),
            Line(case=f"{name}, memory: allowed, against used", unit="MB", ours=[MOST] * len(peaks), theirs=peaks,
                 target=1.0),
        ]  # fmt: skip
    return lines


def cases(options: Options) -> dict[str, Case]:
    """A small BERT with a Chinese vocabulary, at the longest rows it reads and at those of short texts."""
    small: dict[str, Any] = {"layers": 2, "heads": 2, "width": 32, "inner": 64, "batch": 4, "steps": 2, "threads": 1}
    shared: dict[str, Any] = {
        "text": options.folder, "tokenizer": options.folder, "cache": options.folder / "cache",
        "vocabulary": 1_000 if options.quick else 21_128, "dropout": 0.1, "seed": options.seed,
        **(small if options.quick else {}),
    }  # fmt: skip
    lengths = (48, 16) if options.quick else (512, 128)
    found = {f"rows of up to {length} tokens": Case(**shared, length=length) for length in lengths}
    if default_precision(shared.get("width", Case.width)) == "bfloat16":
        for name, case in list(found.items()):
            found[f"{name}, bfloat16 as by default here"] = replace(case, dtype="bfloat16")
    return found


def default_precision(width: int) -> str:
    """What run.dtype=auto is on this machine."""
    import torch

    from plmkit.training.device import choose_dtype, name_of

    return name_of(choose_dtype(torch.device("cpu"), width=width))


def row_lengths(case: Case) -> np.ndarray:
    """As reviews have them: half of them shorter than a quarter of the row, some cut at its end."""
    rng = np.random.default_rng([case.seed, 3])
    count = ROWS_OF_STEPS * case.batch * (WARM_STEPS + case.steps)
    return np.clip(rng.lognormal(np.log(case.length / 4), 0.9, size=count), 5, case.length).astype(int)


def rows_of(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng([case.seed, 4])
    return [rng.integers(5, case.vocabulary, size=length) for length in row_lengths(case)]


def peak() -> float:
    """MB that this process had resident at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def make_ours(case: Case) -> Callable[[], Told]:
    import torch

    from plmkit.architectures.encoder import Encoder
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary, unnamed
    from plmkit.network import Network
    from plmkit.schedules.optimizers import AdamW
    from plmkit.schedules.schedule import Schedule
    from plmkit.tasks.batches import LabelledExamples
    from plmkit.tasks.contract import Example, Row
    from plmkit.tasks.framing import TOKENS_AT_ONCE, Framed
    from plmkit.tasks.kinds.classify import Classify
    from plmkit.training.device import set_threads

    set_threads(case.threads)
    encoder = Encoder(
        layers=case.layers, heads=case.heads, width=case.width, inner=case.inner, activation="gelu",
        dropout=case.dropout, attention_dropout=case.dropout,
    )  # fmt: skip
    torch.manual_seed(case.seed)
    task = Classify(classes=CLASSES, length=case.length)
    model, head = encoder.build(unnamed(case.vocabulary)), task.head(encoder, case.dropout)
    network = Network(model, {"label": head}, {"label": 1.0})
    optimizer = AdamW().build(network.named_parameters(), RATE)
    words = [f"w{number}" for number in range(case.vocabulary - len(SPECIAL_TOKENS))]
    framed = [Framed(tokens=row, second=len(row), cut=0) for row in rows_of(case)]
    blank = Row(text="", line=1)
    examples = [Example(row=blank, inputs=(row,), label=number % 2) for number, row in enumerate(framed)]
    vocabulary = Vocabulary.from_tokens((*SPECIAL_TOKENS, *words))
    batches = MixtureSource.of_one(LabelledExamples(task, examples, vocabulary, seed=case.seed), case.length)
    schedule = Schedule(steps=case.steps, batch=case.batch, learning_rate=RATE, warmup=0.0)

    def one_round() -> Told:
        tokens, seconds = our_steps(
            network,
            batches,
            optimizer,
            schedule,
            case.steps,
            case.seed,
            tokens_at_once=TOKENS_AT_ONCE,
            dtype=getattr(torch, case.dtype),
        )
        return {"tokens_per_second": tokens / seconds, "peak": peak(), "parameters": parameters_of(network)}

    return one_round


def make_theirs(case: Case) -> Callable[[], Told]:
    import torch
    from datasets import Dataset
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(case.seed)
    config = BertConfig(
        vocab_size=case.vocabulary, hidden_size=case.width, num_hidden_layers=case.layers,
        num_attention_heads=case.heads, intermediate_size=case.inner, hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout, pad_token_id=0, num_labels=len(CLASSES),
        hidden_act="gelu",  # as ours, and their default
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    rows = rows_of(case)
    dataset = Dataset.from_dict({
        "input_ids": [row.tolist() for row in rows], "length": [len(row) for row in rows],
        "labels": [number % 2 for number in range(len(rows))],
    })  # fmt: skip
    counts: list[int] = []

    def collate(features: list[dict[str, Any]]) -> dict[str, Any]:
        """Padded to the longest of the batch."""
        tokens = [torch.tensor(feature["input_ids"]) for feature in features]
        counts.append(sum(map(len, tokens)))
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        labels = torch.tensor([feature["labels"] for feature in features])
        return {"input_ids": padded, "attention_mask": (padded != 0).long(), "labels": labels}

    def one_round() -> Told:
        counts.clear()
        seconds = their_seconds(model, dataset, case, case.steps, collate, grouped=True)
        tokens = sum(counts[WARM_STEPS : WARM_STEPS + case.steps])  # one more may have been fetched ahead
        return {"tokens_per_second": tokens / seconds, "peak": peak(), "parameters": parameters_of(model)}

    return one_round
