"""Continuing a text at batch 1 by greedy decoding: our generation compared with Hugging Face's `generate`."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.shared import ENGLISH, Line, Options, one_thread, say, take_turns, text_files

TITLE = "Generating, tokens per second, one text: plmkit against transformers' generate, time of one thread, in turns"
VOCABULARY, PROMPT = 50_257, 32
ROWS, LENGTH = 4, 32  # of a training step: few tokens, so that there are hundreds of steps in a minute or two


@dataclass(frozen=True)
class Case:
    """A GPT-2, and how long it is trained before it writes."""

    name: str
    layers: int
    width: int
    target: float
    tokens: int
    train_seconds: float = 0.0
    drafts: bool = False


CASES = (
    Case("4 × 256, random weights", 4, 256, 3.0, 256),
    Case("4 × 256, trained", 4, 256, 3.0, 256, train_seconds=90),
    Case("4 × 256, trained, with drafts", 4, 256, 3.0, 256, train_seconds=90, drafts=True),
    Case("12 × 768, random weights", 12, 768, 1.7, 64),
    Case("12 × 768, random weights, with drafts", 12, 768, 1.7, 64, drafts=True),
)
QUICK = (
    Case("2 × 32, trained", 2, 32, 3.0, 40, train_seconds=0.5),
    Case("2 × 32, trained, with drafts", 2, 32, 3.0, 40, train_seconds=0.5, drafts=True),
)


@dataclass
class Counted:
    """A text of which only the tokens matter: it ends when it is long enough."""

    prompt: list[int]
    max_tokens: int
    tokens: list[int] = field(default_factory=list)
    ended: str | None = None

    def add(self, token: int) -> str:
        self.tokens.append(token)
        self.ended = "length" if len(self.tokens) == self.max_tokens else None
        return ""


def run(options: Options) -> list[Line]:
    """By the processor's time, which other programs disturb less than the clock's."""
    with one_thread():
        return [line for case in (QUICK if options.quick else CASES) for line in lines_of(case, options)]


def lines_of(case: Case, options: Options) -> Iterator[Line]:
    import torch

    say(f"generation: {case.name}")
    tokens = text_tokens(options)
    folder = options.folder / f"gpt2-{case.layers}-{case.width}-{case.train_seconds:g}"
    theirs = their_model(case, folder, tokens, options.seed)
    prompt = tokens[-PROMPT:]
    a, b = take_turns(make_ours(case, folder, prompt), make_theirs(case, theirs, prompt), options.rounds + 1)
    a, b = a[1:], b[1:]  # the first round warms up
    if a[0][1] != b[0][1]:
        raise RuntimeError(f"The two sides write different texts: {a[0][1]} and {b[0][1]}.")
    say(f"  both sides wrote the same {case.tokens} tokens, {len(set(a[0][1]))} different ones")
    speeds = [case.tokens / seconds for seconds, _ in a]
    others = [case.tokens / seconds for seconds, _ in b]
    yield Line(case=case.name, unit="tokens/s", ours=speeds, theirs=others, target=case.target)
    if case.width >= 768:
        read = sum(weight.numel() for name, weight in theirs.named_parameters() if "wpe" not in name) * 4
        rates = [bandwidth(torch) / read for _ in speeds]
        yield Line(
            case=f"{case.name}, against reading all weights once per token",
            unit="tokens/s", ours=speeds, theirs=rates, target=0.75,
        )  # fmt: skip


def bandwidth(torch: Any) -> float:
    """Bytes per second at which memory is read, the best of five."""
    numbers = torch.ones(1 << 26)
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        numbers.sum()
        best = min(best, time.process_time() - started)
    return numbers.numel() * 4 / best


def text_tokens(options: Options) -> list[int]:
    """English text as numbers; byte-level BPE trained on it."""
    from plmkit.tokenizers.byte_bpe import ByteBPE

    path = next(iter(text_files(options, 0.1 if options.quick else 2, [ENGLISH]).values()))
    lines = path.read_text(encoding="utf-8")[:2_000_000].splitlines()
    made = ByteBPE(size=400 if options.quick else 8_000).train(lines)
    return made.encode_many(lines)[0].tolist()


def their_model(case: Case, folder: Path, tokens: list[int], seed: int) -> Any:
    """A GPT-2 of transformers, trained if the case says so, and written to the folder from which ours is read."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    if folder.exists():
        return GPT2LMHeadModel.from_pretrained(folder).eval()
    torch.manual_seed(seed)
    config = GPT2Config(
        n_layer=case.layers, n_head=max(1, case.width // 64), n_embd=case.width,
        vocab_size=512 if case.width < 256 else VOCABULARY, n_positions=1024, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    if case.train_seconds:
        train(model, torch.tensor(tokens), case.train_seconds, torch)
    model.eval().save_pretrained(folder)
    return model


def train(model: Any, tokens: Any, seconds: float, torch: Any) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    started, steps = time.process_time(), 0
    while time.process_time() - started < seconds:
        starts = torch.randint(len(tokens) - LENGTH - 1, (ROWS,))
        rows = torch.stack([tokens[start : start + LENGTH] for start in starts.tolist()])
        loss = model(rows, labels=rows).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    say(f"  trained for {steps} steps, loss {loss.item():.2f}")


def make_ours(case: Case, folder: Path, prompt: list[int]) -> Callable[[], tuple[float, list[int]]]:
    import torch

    from plmkit.data.vocabulary import unnamed
    from plmkit.generation.decoding import decode_with_lookup
    from plmkit.generation.engine import decode_batch
    from plmkit.generation.language_model import LanguageModel
    from plmkit.generation.options import GenerationOptions
    from plmkit.interop.huggingface import our_weights, read_config
    from plmkit.interop.weights import read_safetensors
    from plmkit.objectives.causal_lm import CausalLM

    config, family = read_config(folder)
    architecture = family.architecture(config, folder)
    weights = our_weights(read_safetensors(folder), folder, family, architecture)
    size = len(weights["model.embed.tokens.weight"])
    model = architecture.build(unnamed(size)).eval()
    model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in weights.items()})
    lm = LanguageModel(model, CausalLM().build(model).vocabulary, size, [], torch.device("cpu"))
    options = GenerationOptions(tokens=case.tokens, temperature=0)

    @torch.inference_mode()
    def one_round() -> tuple[float, list[int]]:
        row: Any = Counted(prompt, case.tokens)
        started = time.process_time()
        for _ in decode_with_lookup(lm, row) if case.drafts else decode_batch(lm, [row], options):
            pass
        return time.process_time() - started, row.tokens

    return one_round


def make_theirs(case: Case, model: Any, prompt: list[int]) -> Callable[[], tuple[float, list[int]]]:
    import torch

    read = torch.tensor([prompt])
    asked = {"do_sample": False, "max_new_tokens": case.tokens, "eos_token_id": None, "pad_token_id": 0}

    def one_round() -> tuple[float, list[int]]:
        started = time.process_time()
        found = model.generate(read, attention_mask=torch.ones_like(read), **asked)
        return time.process_time() - started, found[0, len(prompt) :].tolist()

    return one_round
