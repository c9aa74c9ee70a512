"""Pretraining: our loop compared with Hugging Face's Trainer, and compared with what torch's matrix product can do."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from benchmarks import loops
from benchmarks.loops import RATE, WARM_STEPS, Told, both, column, our_steps, parameters_of, read_samples, their_seconds
from benchmarks.shared import CHINESE, ENGLISH, Line, Options, learn_tokenizer, say, text_files

TITLE = "Pretraining, tokens per second: plmkit against transformers.Trainer"
TRAINER_TARGET, PRODUCT_TARGET = 3.0, 0.7
PRODUCT_SIDE = 1024


@dataclass(frozen=True, kw_only=True)
class Case(loops.Case):
    inner: int = 1024
    our_steps: int = 12  # in a round; about as many seconds as
    their_steps: int = 4
    dtype: str = "float32"  # of ours
    products: int = 8  # of the matrices that ours are measured by, between two steps


def run(options: Options) -> list[Line]:
    lines = []
    for name, case in cases(options).items():
        say(f"pretraining: {name}")
        a, b = both(make_ours, make_theirs, case, options)
        say(f"  padding in rows: ours {a[0]['padding']:.1%}, theirs {b[0]['padding']:.1%}")
        network = f"{name}, the network's products against one of {PRODUCT_SIDE}³"
        computed = f"{name}, those computed against one of {PRODUCT_SIDE}³"
        speed, their_speed = column(a, "tokens_per_second"), column(b, "tokens_per_second")
        work, done, product = column(a, "work_rate"), column(a, "computed_rate"), column(a, "product_rate")
        lines += [
            Line(case=name, unit="tokens/s", ours=speed, theirs=their_speed, target=TRAINER_TARGET),
            Line(case=network, unit="GFLOP/s", ours=work, theirs=product, target=PRODUCT_TARGET),
            Line(case=computed, unit="GFLOP/s", ours=done, theirs=product, target=PRODUCT_TARGET),
        ]
    return lines


def cases(options: Options) -> dict[str, Case]:
    """Two vocabularies, with and without dropout."""
    wanted = {1_000: ENGLISH} if options.quick else {21_128: CHINESE, 30_522: ENGLISH}
    texts = text_files(options, 0.2 if options.quick else 4, list(wanted.values()))
    small: dict[str, Any] = {"layers": 2, "heads": 2, "width": 32, "inner": 64, "length": 32, "batch": 4}
    small |= {"our_steps": 2, "their_steps": 2, "products": 1, "threads": 1}
    found = {}
    for size, language in wanted.items():
        text = options.corpus or texts[language]
        tokenizer = learn_tokenizer(text, size, options.folder / f"{text.stem}-{size}")
        for dropout in (0.1,) if options.quick else (0.0, 0.1):
            found[f"vocabulary {size:,}, dropout {dropout:g}"] = Case(
                text=text, tokenizer=tokenizer, vocabulary=size, cache=options.folder / "cache",
                dropout=dropout, seed=options.seed, **(small if options.quick else {}),
            )  # fmt: skip
    return found


def samples_of(case: Case, corruption: tuple[Any, ...]) -> Any:
    """Pairs of texts that fill the row: with little padding, neither side gains by leaving it out."""
    from plmkit.corruption.arrange.pairs import SentencePairs

    arranged = (SentencePairs(short=0.0), *corruption)
    return read_samples(case.text, case.tokenizer, case.cache, arranged, case.seed)


# --- ours


def make_ours(case: Case) -> Callable[[], Told]:
    import torch

    from plmkit.architectures.encoder import Encoder
    from plmkit.catalogue import find
    from plmkit.corruption.mask.token import TokenMasking
    from plmkit.data.mixture_source import MixtureSource
    from plmkit.objectives.masked_lm import MaskedLM
    from plmkit.objectives.sentence_pair import NextSentence
    from plmkit.recipe import one_stream
    from plmkit.schedules.optimizers import AdamW
    from plmkit.schedules.schedule import Stage
    from plmkit.training.device import set_threads

    set_threads(case.threads)
    mini = find("bert-mini")
    encoder = Encoder(
        layers=case.layers, heads=case.heads, width=case.width, inner=case.inner, activation="gelu",
        dropout=case.dropout, attention_dropout=case.dropout,
    )  # fmt: skip
    recipe = replace(
        mini,
        streams=one_stream(mini.corruption[0], TokenMasking(rate=0.15)),
        architecture=encoder,
        objectives=(MaskedLM(), NextSentence()),
        stages=(Stage(length=case.length),),
        schedule=replace(mini.schedule, batch=case.batch, learning_rate=RATE, optimizer=AdamW()),
    )
    samples = samples_of(case, recipe.corruption[1:])
    torch.manual_seed(case.seed)
    network = recipe.build(samples.vocabulary)
    optimizer = recipe.schedule.optimizer.build(network.named_parameters(), RATE)
    source = Watched(samples)
    batches = MixtureSource.of_one(source, case.length)

    def one_round() -> Told:
        source.shapes.clear()
        product = Product(case.products)
        _, seconds = our_steps(
            network, batches, optimizer, recipe.schedule, case.our_steps, case.seed, product.take,
            dtype=getattr(torch, case.dtype),
        )  # fmt: skip
        shapes = source.shapes[WARM_STEPS:]
        return {
            "tokens_per_second": sum(shape.tokens for shape in shapes) / seconds,
            "work_rate": sum(3 * network_work(case, shape) for shape in shapes) / seconds / 1e9,
            "computed_rate": sum(3 * computed_work(case, shape) for shape in shapes) / seconds / 1e9,
            "product_rate": product.rate,
            "padding": padding(shapes),
            "parameters": parameters_of(network),
        }

    return one_round


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a batch makes the network compute."""

    rows: int
    length: int  # with padding
    tokens: int  # without
    predicted: int
    most: int  # wanted of one row: those predicted, and the first


class Watched:
    """A source that remembers the shapes of its batches."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples
        self.shapes: list[Shape] = []

    def next(self, position: Any, rows: int, length: int) -> tuple[Any, Any]:
        batch, after = self.samples.next(position, rows, length)
        self.shapes.append(shape_of(batch))
        return batch, after


def shape_of(batch: Any) -> Shape:
    rows, length = batch.source.tokens.shape
    predicted = (batch.targets >= 0).sum(1)
    most = int(predicted.max()) + 1
    return Shape(
        rows=rows, length=length, tokens=int(batch.source.visible.sum()), predicted=int(predicted.sum()), most=most
    )


def network_work(case: Case, shape: Shape) -> int:
    """What one forward pass of the network takes: all layers at all tokens but padding, the vocabulary where asked."""
    return forward_work(case, shape, last=shape.tokens, most=shape.length)


def computed_work(case: Case, shape: Shape) -> int:
    """What we compute of it: the last layer only at tokens that are predicted, and at the first."""
    return forward_work(case, shape, last=shape.predicted + shape.rows, most=shape.most)


def forward_work(case: Case, shape: Shape, last: int, most: int) -> int:
    """Operations of all matrix products; backward takes two of each, so a step is thrice this.

    The last layer computes `last` positions, at most this many per row.
    """
    width = case.width
    inner = case.layers - 1  # layers that compute all positions
    key_value = case.layers * shape.tokens * 2 * width**2
    others = (inner * shape.tokens + last) * (2 * width**2 + 2 * width * case.inner)
    attention = 2 * shape.rows * (inner * shape.length + most) * shape.length * width  # with padding: whole rows
    vocabulary = shape.predicted * (width**2 + width * case.vocabulary)  # at predicted positions only
    pooled = shape.rows * (width**2 + 2 * width)
    return 2 * (key_value + others + attention + vocabulary + pooled)


class Product:
    """torch's float32 product of two square matrices, a few at a time between our steps: as slow a machine for both."""

    def __init__(self, count: int) -> None:
        import torch

        self.count = count
        self.seconds: list[float] = []
        self.factors = torch.randn(2, PRODUCT_SIDE, PRODUCT_SIDE)
        self.out = torch.mm(*self.factors)

    def take(self) -> None:
        import torch

        started = time.perf_counter()
        for _ in range(self.count):
            torch.mm(*self.factors, out=self.out)
        self.seconds.append(time.perf_counter() - started)

    @property
    def rate(self) -> float:
        """Billions of operations per second."""
        return len(self.seconds) * self.count * 2 * PRODUCT_SIDE**3 / sum(self.seconds) / 1e9


def padding(shapes: list[Shape]) -> float:
    return 1 - sum(shape.tokens for shape in shapes) / sum(shape.rows * shape.length for shape in shapes)


# --- theirs


def make_theirs(case: Case) -> Callable[[], Told]:
    import torch
    from transformers import BertConfig, BertForPreTraining, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(case.tokenizer)
    rows = their_rows(case)
    collate = counting_collator(tokenizer)
    torch.manual_seed(case.seed)
    config = BertConfig(
        vocab_size=case.vocabulary, hidden_size=case.width, num_hidden_layers=case.layers,
        num_attention_heads=case.heads, intermediate_size=case.inner, hidden_dropout_prob=case.dropout,
        attention_probs_dropout_prob=case.dropout, pad_token_id=tokenizer.pad_token_id,
        hidden_act="gelu",  # as ours, and their default
    )  # fmt: skip
    model = BertForPreTraining(config)

    def one_round() -> Told:
        collate.shapes.clear()
        seconds = their_seconds(model, rows, case, case.their_steps, collate)
        shapes = collate.shapes[WARM_STEPS : WARM_STEPS + case.their_steps]  # one more may have been fetched ahead
        return {
            "tokens_per_second": sum(shape.tokens for shape in shapes) / seconds,
            "padding": padding(shapes),
            "parameters": parameters_of(model),
        }

    return one_round


def their_rows(case: Case) -> Any:
    """The very rows that ours are made from, not yet hidden, as a dataset."""
    from datasets import Dataset

    from plmkit.data.rows import fill

    samples = samples_of(case, ())
    plan, order = samples.plan(0, case.length)
    filled = fill(samples.store, plan, order[:4_000], samples.vocabulary, case.length)
    assert filled.random_next is not None
    special = np.isin(filled.tokens, (samples.vocabulary.cls, samples.vocabulary.sep))
    lengths = filled.visible.sum(axis=1).tolist()

    def cut(array: np.ndarray) -> list[list[int]]:
        return [row[:length].tolist() for row, length in zip(array, lengths, strict=True)]

    columns = {
        "input_ids": cut(filled.tokens),
        "token_type_ids": cut(filled.segments),
        "special_tokens_mask": cut(special.astype(int)),  # spares the collator from finding them each time
        "next_sentence_label": filled.random_next.tolist(),
    }
    return Dataset.from_dict(columns)


def counting_collator(tokenizer: Any) -> Any:
    from transformers import DataCollatorForLanguageModeling

    class Counting(DataCollatorForLanguageModeling):
        """Their collator, which also remembers the shapes of its batches."""

        shapes: ClassVar[list[Shape]] = []

        def __call__(self, features: Any, return_tensors: Any = None) -> Any:
            batch = super().__call__(features, return_tensors)
            rows, length = batch["input_ids"].shape
            tokens = int(batch["attention_mask"].sum())
            self.shapes.append(Shape(rows=rows, length=length, tokens=tokens, predicted=0, most=0))
            return batch

    return Counting(tokenizer=tokenizer, mlm=True, mlm_probability=0.15)
