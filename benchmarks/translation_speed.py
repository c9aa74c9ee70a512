"""Translating a file with four beams, and training on pairs: our Transformer compared with Hugging Face's Marian."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.loops import RATE, WARM_STEPS, their_seconds
from benchmarks.shared import Line, Options, one_thread, say, take_turns

TITLE = (
    "Translating and training on pairs: plmkit against transformers' Marian of the same weights, one thread, in turns"
)
BEAMS, BATCH = 4, 32  # sentences of a batch of theirs; ours chooses its own
WORDS = 200  # that occur in the text, of all in the vocabulary
PAD, END = 0, 1  # of a vocabulary of words: the unknown token, and the end of a text, which also starts a target


@dataclass(frozen=True)
class Case:
    """A shape, how long it is trained to copy its source, and how many sentences it translates."""

    name: str
    layers: int
    width: int
    vocabulary: int
    train_steps: int
    sentences: int
    pairs: int  # of a training batch that is timed
    steps: int


CASES = (Case("4 + 4 × 256, vocabulary of 8,000", 4, 256, 8_000, 600, 256, 64, 8),)
QUICK = (Case("1 + 1 × 32, vocabulary of 300", 1, 32, 300, 10, 16, 8, 1),)


def run(options: Options) -> list[Line]:
    """By the processor's time, which other programs disturb less than the clock's."""
    with one_thread():
        return [line for case in (QUICK if options.quick else CASES) for line in lines_of(case, options)]


def lines_of(case: Case, options: Options) -> Iterator[Line]:
    say(f"translation: {case.name}")
    model = our_model(case, options.seed)
    say(f"  trained to copy for {case.train_steps} steps, loss {train_to_copy(model, case, options.seed):.2f}")
    theirs = their_model(case, model)
    sources = sentences(case.sentences, np.random.default_rng([options.seed, 2]))
    for name, sort, target in (("theirs in the order of the file", False, 3.0), ("both sorted by length", True, 1.0)):
        a, b = take_turns(translate_ours(model, sources), translate_theirs(theirs, sources, sort), options.rounds + 1)
        same = sum(one == other for one, other in zip(a[0][1], b[0][1], strict=True)) / len(sources)
        say(f"  {name}: {same:.0%} of the translations are the same")
        tokens = sum(map(len, sources))
        speeds, others = ([tokens / seconds for seconds, _ in side[1:]] for side in (a, b))  # the first round warms up
        yield Line(
            case=f"{BEAMS} beams, {name}, {case.name}",
            unit="source tokens/s",
            ours=speeds,
            theirs=others,
            target=target,
        )
    yield training_line(case, model, theirs, options)


def sentences(count: int, rng: np.random.Generator) -> list[list[int]]:
    """Random words, as many as sentences have: half of them between 10 and 26."""
    lengths = np.clip(rng.lognormal(2.8, 0.6, size=count), 3, 60).astype(int).tolist()
    return [rng.integers(END + 1, END + 1 + WORDS, size=length).tolist() for length in lengths]


def our_model(case: Case, seed: int) -> Any:
    import torch

    from plmkit.architectures.encoder_decoder import EncoderDecoder
    from plmkit.inference.model import Model
    from plmkit.network import Network
    from plmkit.objectives.translation_lm import TranslationLM
    from plmkit.tokenizers.counted import Words

    torch.manual_seed(seed)
    made = Words().train([" ".join(f"w{number:05d}" for number in range(case.vocabulary - END - 1))])
    shape = EncoderDecoder(
        layers=case.layers, heads=max(1, case.width // 64), width=case.width, inner=4 * case.width, max_length=128,
        dropout=0.0, attention_bias=True, epsilon=1e-5, positions="halves",
    )  # fmt: skip
    model = shape.build(made.vocabulary)
    network = Network(model, {"translation_lm": TranslationLM(smoothing=0.0).build(model)}, {"translation_lm": 1.0})
    return Model(network=network, architecture=shape, tokenizer=made, folder=Path("benchmark"))


def train_to_copy(model: Any, case: Case, seed: int) -> float:
    """So that translations end where sentences do, and beams differ as they do in a trained model."""
    import torch

    rng = np.random.default_rng([seed, 1])
    network, translator = model.network.train(), model.translator
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    found = 0.0
    for step in range(case.train_steps):
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1, (step + 1) / 50)
        rows = sorted(sentences(4 * 32, rng), key=len)[(step % 4) * 32 :][:32]
        batch = translator.pairs([[*row, END] for row in rows], rows)
        loss = network.heads["translation_lm"](network.model(batch), batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found = float(loss.detach())
    network.eval()
    return found


def their_model(case: Case, ours: Any) -> Any:
    """A Marian with our weights."""
    from transformers import MarianConfig, MarianMTModel

    shape = {
        f"{stack}_{name}": value
        for stack in ("encoder", "decoder")
        for name, value in (
            ("layers", case.layers), ("attention_heads", max(1, case.width // 64)), ("ffn_dim", 4 * case.width)
        )
    }  # fmt: skip
    config = MarianConfig(
        vocab_size=case.vocabulary, d_model=case.width, max_position_embeddings=128, activation_function="relu",
        dropout=0.0, scale_embedding=True, pad_token_id=PAD, decoder_start_token_id=END, eos_token_id=END,
        forced_eos_token_id=None, **shape,
    )  # fmt: skip
    theirs = MarianMTModel(config).eval()
    missing = theirs.load_state_dict(marian_weights(ours.network.model.state_dict(), case.layers), strict=False)
    assert not [name for name in missing.missing_keys if "positions" not in name and "bias" not in name]
    theirs.tie_weights()
    return theirs


def marian_weights(own: dict[str, Any], layers: int) -> dict[str, Any]:
    """Our weights under Marian's names."""
    table = own["embed.tokens.weight"]
    names = ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    found = {f"model.{name}.weight": table for name in names} | {"lm_head.weight": table}
    for stack, blocks in (("encoder", "blocks"), ("decoder", "decoder")):
        for layer in range(layers):
            here, there = f"{blocks}.{layer}.", f"model.{stack}.layers.{layer}."
            for kind in ("weight", "bias"):
                parts = own[f"{here}attention.query_key_value.{kind}"].chunk(3)
                found |= {f"{there}self_attn.{name}_proj.{kind}": part for name, part in zip("qkv", parts, strict=True)}
                pairs = {
                    "self_attn.out_proj": "attention.output",
                    "self_attn_layer_norm": "attention_norm",
                    "fc1": "feed_forward.expand",
                    "fc2": "feed_forward.contract",
                    "final_layer_norm": "feed_forward_norm",
                }
                if stack == "decoder":
                    keys, values = own[f"{here}cross_attention.key_value.{kind}"].chunk(2)
                    found |= {f"{there}encoder_attn.k_proj.{kind}": keys, f"{there}encoder_attn.v_proj.{kind}": values}
                    pairs |= {
                        "encoder_attn.q_proj": "cross_attention.query",
                        "encoder_attn.out_proj": "cross_attention.output",
                        "encoder_attn_layer_norm": "cross_norm",
                    }
                found |= {f"{there}{their}.{kind}": own[f"{here}{our}.{kind}"] for their, our in pairs.items()}
    return found


Turn = Callable[[], tuple[float, Any]]


def translate_ours(model: Any, sources: Sequence[Sequence[int]]) -> Turn:
    from plmkit.generation.options import GenerationOptions

    texts = [model.tokenizer.decode(row) for row in sources]
    options = GenerationOptions(beams=BEAMS, length_penalty=0.0)

    def one_round() -> tuple[float, Any]:
        started = time.process_time()
        found, _ = model.translator.translate(texts, options)
        return time.process_time() - started, [best[0].text for best in found]

    return one_round


def translate_theirs(model: Any, sources: Sequence[Sequence[int]], sort: bool) -> Turn:
    """Batches in the order of the file, or sorted by length, which `generate` leaves to its user.

    The time of a tokenizer is not counted.
    """
    import torch

    order = list(range(len(sources)))
    if sort:
        order.sort(key=lambda number: -len(sources[number]))
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]

    def one_round() -> tuple[float, Any]:
        found: list[str] = [""] * len(sources)
        started = time.process_time()
        for numbers in batches:
            rows = [[*sources[number], END] for number in numbers]
            longest = max(map(len, rows))
            tokens = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])
            visible = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
            asked = {"num_beams": BEAMS, "length_penalty": 0.0, "max_new_tokens": longest + 49, "do_sample": False}
            made = model.generate(tokens, attention_mask=visible, **asked).tolist()
            for number, row in zip(numbers, made, strict=True):
                ended = row.index(END, 1) if END in row[1:] else len(row)
                found[number] = " ".join(f"w{token - END - 1:05d}" for token in row[1:ended])
        return time.process_time() - started, found

    return one_round


def training_line(case: Case, ours: Any, theirs: Any, options: Options) -> Line:
    """Source and target tokens per second, padding not counted; both sides have batches of pairs of like length."""
    rows = sentences(case.pairs * (case.steps + WARM_STEPS), np.random.default_rng([options.seed, 3]))
    a, b = take_turns(
        train_ours(ours, rows, case), train_theirs(theirs, rows, case, options), options.rounds
    )  # fmt: skip
    return Line(case=f"training, {case.name}", unit="tokens/s", ours=a, theirs=b, target=1.3)


def tokens_of(rows: Sequence[Sequence[int]]) -> int:
    """Of all sources and targets, with their ends."""
    return sum(2 * len(row) + 2 for row in rows)


def train_ours(model: Any, rows: Sequence[Sequence[int]], case: Case) -> Callable[[], float]:
    from plmkit.schedules.optimizers import AdamW
    from plmkit.training.step import Step

    step = Step(model.network, AdamW().build(model.network.named_parameters(), RATE), clip=1.0)
    order = sorted(rows, key=len)
    batches = [order[start : start + case.pairs] for start in range(0, len(order), case.pairs)]

    def one_round() -> float:
        model.network.train()
        started = time.perf_counter()
        for some in batches:
            step.gradients(model.translator.pairs([[*row, END] for row in some], some))
            step.clipped()
            step.update(1.0)
        return tokens_of(rows) / (time.perf_counter() - started)

    return one_round


def train_theirs(model: Any, rows: Sequence[Sequence[int]], case: Case, options: Options) -> Callable[[], float]:
    import torch

    examples = [{"input_ids": [*row, END]} for row in rows]
    asked: Any = SimpleNamespace(cache=options.folder, batch=case.pairs, seed=options.seed)

    def collate(some: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
        longest = max(len(one["input_ids"]) for one in some)
        tokens = torch.tensor([one["input_ids"] + [PAD] * (longest - len(one["input_ids"])) for one in some])
        labels = tokens.masked_fill(tokens == PAD, -100)
        return {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "labels": labels}

    def one_round() -> float:
        seconds = their_seconds(model.train(), examples, asked, case.steps, collate, grouped=True)
        return tokens_of(rows) * case.steps / (case.steps + WARM_STEPS) / seconds

    return one_round
