"""Training every kind of task on texts of mixed length: our loop and Hugging Face's Trainer, both grouped by length."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import finetuning_speed
from benchmarks.finetuning_speed import default_precision
from benchmarks.loops import RATE, WARM_STEPS, Told, column, our_steps, parameters_of, their_seconds
from benchmarks.shared import Line, Options, say, sides, take_turns

TITLE = "Training each kind, tokens per CPU second: plmkit against transformers.Trainer, group_by_length; 1 thread"
TARGET = 2.0
TAGS = 9
SHARED = 0.5  # of a row: the context of choices, or the query of candidates
FIRST_TOKENS = 0.75  # of the tokens begin a word


@dataclass(frozen=True, kw_only=True)
class Case(finetuning_speed.Case):
    """One kind: `batch` examples per step, each of `texts` rows."""

    kind: str
    texts: int = 1
    steps: int = 8
    threads: int | None = 1


def run(options: Options) -> list[Line]:
    lines = []
    for case in cases(options):
        say(f"training: {case.kind}, {case.dtype}")
        with sides((make_ours, case), (make_theirs, case)) as (ours, theirs):
            a, b = take_turns(ours, theirs, options.rounds)
        unused = case.width * (case.width + 1)  # our network keeps its pooler where a kind does not use it
        if a[0]["parameters"] - b[0]["parameters"] not in (0, unused):
            raise RuntimeError(f"The networks differ: {a[0]['parameters']:,} and {b[0]['parameters']:,} parameters.")
        lines.append(
            Line(
                case=f"{case.kind}, rows of up to {case.length} tokens, {case.dtype}", unit="tokens/s",
                ours=column(a, "tokens_per_second"), theirs=column(b, "tokens_per_second"), target=TARGET,
            )
        )  # fmt: skip
    return lines


def cases(options: Options) -> list[Case]:
    """The usual shapes: 32 rows per step, of questions 16 windows."""
    small: dict[str, Any] = {"layers": 2, "heads": 2, "width": 32, "inner": 64, "steps": 2}
    shared: dict[str, Any] = {
        "text": options.folder, "tokenizer": options.folder, "cache": options.folder / "cache",
        "vocabulary": 1_000 if options.quick else 21_128, "dropout": 0.1, "seed": options.seed,
        "length": 16 if options.quick else 128, **(small if options.quick else {}),
    }  # fmt: skip
    window = {**shared, "length": 32 if options.quick else 384}
    found = [
        Case(**shared, kind="tag", batch=32),
        Case(**window, kind="qa", batch=16),
        Case(**shared, kind="rank", batch=4, texts=8),
        Case(**shared, kind="match", batch=16, texts=2),
        Case(**shared, kind="choose", batch=8, texts=4),
    ]
    if not options.quick and default_precision(Case.width) == "bfloat16":
        found += [replace(case, dtype="bfloat16") for case in found]
    return found


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """An example, as both sides read it."""

    rows: tuple[np.ndarray, ...]  # of tokens
    second: int  # where the second text begins in each row; its length if there is none
    label: Any


def drawn(case: Case) -> list[Drawn]:
    """Lengths as reviews have them: half of the rows are shorter than a quarter of the longest."""
    rng = np.random.default_rng([case.seed, 5])
    count = finetuning_speed.ROWS_OF_STEPS * case.batch * (WARM_STEPS + case.steps)
    return [drawn_one(case, rng) for _ in range(count)]


def drawn_one(case: Case, rng: np.random.Generator) -> Drawn:
    middle = case.length / (1.5 if case.kind == "qa" else 4)  # most windows of real contexts are long
    lengths = np.clip(rng.lognormal(np.log(middle), 0.9, size=case.texts), 8, case.length).astype(int)
    if case.kind in ("rank", "choose"):  # rows of one example share a text
        lengths = np.clip(SHARED * lengths.max() + SHARED * lengths, 8, case.length).astype(int)
    rows = tuple(rng.integers(5, case.vocabulary, size=length) for length in lengths)
    second = int(SHARED * lengths.min()) if case.kind in ("qa", "rank", "choose") else case.length
    labels: dict[str, Callable[[], Any]] = {
        "tag": lambda: np.where(rng.random(lengths[0]) < FIRST_TOKENS, rng.integers(TAGS, size=lengths[0]), -100),
        "qa": lambda: np.sort(rng.integers(second, lengths[0], size=2)),
        "rank": lambda: int(rng.integers(case.texts)),
        "choose": lambda: int(rng.integers(case.texts)),
        "match": lambda: float(rng.random()),
    }
    return Drawn(rows=rows, second=second, label=labels[case.kind]())


def make_ours(case: Case) -> Callable[[], Told]:
    import torch

    from plmkit.architectures.encoder import Encoder
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary, unnamed
    from plmkit.network import Network
    from plmkit.schedules.optimizers import AdamW
    from plmkit.schedules.schedule import Schedule
    from plmkit.tasks.batches import LabelledExamples
    from plmkit.tasks.framing import TOKENS_AT_ONCE
    from plmkit.training.device import set_threads

    set_threads(case.threads)
    encoder = Encoder(
        layers=case.layers, heads=case.heads, width=case.width, inner=case.inner, activation="gelu",
        dropout=case.dropout, attention_dropout=case.dropout,
    )  # fmt: skip
    torch.manual_seed(case.seed)
    task, examples = our_task(case)
    model, head = encoder.build(unnamed(case.vocabulary)), task.head(encoder, case.dropout)
    network = Network(model, {"label": head}, {"label": 1.0})
    optimizer = AdamW().build(network.named_parameters(), RATE)
    words = [f"w{number}" for number in range(case.vocabulary - len(SPECIAL_TOKENS))]
    vocabulary = Vocabulary.from_tokens((*SPECIAL_TOKENS, *words))
    batches = MixtureSource.of_one(LabelledExamples(task, examples, vocabulary, seed=case.seed), case.length)
    rows = case.batch * case.texts if case.kind == "rank" else case.batch  # task.batch counts candidates there
    schedule = Schedule(steps=case.steps, batch=rows, learning_rate=RATE, warmup=0.0)

    def one_round() -> Told:
        tokens, seconds = our_steps(
            network, batches, optimizer, schedule, case.steps, case.seed, clock=time.process_time,
            tokens_at_once=TOKENS_AT_ONCE, dtype=getattr(torch, case.dtype),
        )  # fmt: skip
        return {"tokens_per_second": tokens / seconds, "parameters": parameters_of(network)}

    return one_round


def our_task(case: Case) -> tuple[Any, list[Any]]:
    """The task, and its examples."""
    from plmkit.tasks.answering.windows import NULL, PASSAGE
    from plmkit.tasks.contract import Example, Row
    from plmkit.tasks.framing import Framed
    from plmkit.tasks.kinds.choose import Choose
    from plmkit.tasks.kinds.match import Match
    from plmkit.tasks.kinds.qa import QA
    from plmkit.tasks.kinds.rank import Rank
    from plmkit.tasks.kinds.tag import Tag

    blank = Row(text="", line=1)

    def example(one: Drawn) -> Example:
        inputs = tuple(Framed(tokens=row, second=min(one.second, len(row)), cut=0) for row in one.rows)
        if case.kind == "tag":
            places = np.flatnonzero(one.label != -100)
            words = np.stack([np.zeros_like(places), places], axis=1)
            return Example(row=blank, inputs=inputs, label=one.label[places], words=words)
        if case.kind == "qa":
            places = np.where(np.arange(len(one.rows[0])) < one.second, 0, PASSAGE).astype(np.int8)
            places[0] = NULL
            return Example(row=blank, inputs=(replace(inputs[0], places=places),), label=one.label[None])
        if case.kind == "rank":
            return Example(row=blank, inputs=inputs, label=np.eye(case.texts, dtype=np.float32)[one.label])
        return Example(row=blank, inputs=inputs, label=one.label)

    tasks: dict[str, Callable[[], Any]] = {
        "tag": lambda: Tag(classes=tuple(f"T{number}" for number in range(TAGS)), length=case.length),
        "qa": lambda: QA(length=case.length),
        "rank": lambda: Rank(length=case.length, candidates=case.texts),
        "match": lambda: Match(length=case.length),
        "choose": lambda: Choose(length=case.length),
    }
    return tasks[case.kind](), [example(one) for one in drawn(case)]


def make_theirs(case: Case) -> Callable[[], Told]:
    import torch
    from datasets import Dataset

    torch.set_num_threads(case.threads or 1)
    torch.manual_seed(case.seed)
    model = their_model(case)
    examples = drawn(case)
    dataset = Dataset.from_dict({"number": range(len(examples)), "length": [max(map(len, e.rows)) for e in examples]})
    counts: list[int] = []

    def collate(features: list[dict[str, Any]]) -> dict[str, Any]:
        """Padded to the longest of the batch, as their collators do."""
        some = [examples[feature["number"]] for feature in features]
        rows = [torch.from_numpy(row) for one in some for row in one.rows]
        counts.append(sum(map(len, rows)))
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        segments = (
            torch.arange(tokens.shape[1]) >= torch.tensor([one.second for one in some for _ in one.rows])[:, None]
        ).long()
        inputs = {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "token_type_ids": segments}
        if case.kind in ("rank", "choose"):
            inputs = {name: part.view(len(some), case.texts, -1) for name, part in inputs.items()}
        if case.kind == "qa":
            first, last = torch.from_numpy(np.stack([one.label for one in some])).unbind(1)
            return {**inputs, "start_positions": first, "end_positions": last}
        if case.kind == "tag":
            tags = [torch.from_numpy(one.label) for one in some]
            labels = torch.nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-100)
        else:
            labels = torch.tensor([one.label for one in some])
        return {**inputs, "labels": labels}

    def one_round() -> Told:
        counts.clear()
        seconds = their_seconds(model, dataset, case, case.steps, collate, grouped=True, clock=time.process_time)
        tokens = sum(counts[WARM_STEPS : WARM_STEPS + case.steps])  # one more may have been fetched ahead
        return {"tokens_per_second": tokens / seconds, "parameters": parameters_of(model)}

    return one_round


def their_model(case: Case) -> Any:
    """Their class for the kind; a list of candidates is what they call multiple choice."""
    from transformers import (
        BertConfig,
        BertForMultipleChoice,
        BertForQuestionAnswering,
        BertForTokenClassification,
    )

    config = BertConfig(
        vocab_size=case.vocabulary, hidden_size=case.width, num_hidden_layers=case.layers,
        num_attention_heads=case.heads, intermediate_size=case.inner, hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout, pad_token_id=0, num_labels=TAGS if case.kind == "tag" else 2,
        hidden_act="gelu",
    )  # fmt: skip
    if case.kind == "match":
        return two_towers(config)
    made = {
        "tag": BertForTokenClassification,
        "qa": BertForQuestionAnswering,
        "rank": BertForMultipleChoice,
        "choose": BertForMultipleChoice,
    }
    return made[case.kind](config)


def two_towers(config: Any) -> Any:
    """Mean pooling and the squared error of the cosine, all texts in one pass; they have no class for it."""
    import torch
    from torch import Tensor, nn
    from transformers import BertModel

    class TwoTowers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(config, add_pooling_layer=False)

        def forward(self, labels: Tensor, attention_mask: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
            states = self.bert(attention_mask=attention_mask, **inputs).last_hidden_state
            shown = attention_mask[:, :, None].to(states.dtype)
            pooled = (states * shown).sum(1) / shown.sum(1)
            first, second = pooled.view(-1, 2, pooled.shape[-1]).unbind(1)
            cosines = torch.cosine_similarity(first, second)
            return {"loss": nn.functional.mse_loss(cosines, labels.to(cosines.dtype)), "logits": cosines}

    return TwoTowers()
