"""How well a left-to-right model says a plain text: perplexity, and bits a character and a byte."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, Side
from plmkit.data.corpus import open_corpus
from plmkit.data.reading.columns import Columns, Say, ignore
from plmkit.data.sentences import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.generation.likelihood import logs_of
from plmkit.inference.model import Model
from plmkit.tokenizers.tokenizer import Tokenizer, spaced

HEADS = ("causal_lm", "permuted_lm")  # that say text from left to right
ROWS_AT_ONCE = 8  # windows
TOKENS_AT_ONCE = 256  # of a model that reads on
MOST_MEMORY = 1_000_000  # steps

Advance = Callable[[int], None]  # hears how many more tokens were read


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text as a model reads it: behind the end of another, and with an end behind each document."""

    tokens: np.ndarray  # (T + 1,) the first is only read, not asked for
    characters: int  # of the text, one for each end
    bytes: int
    whole: bool  # do the tokens say all that stands there, but for white space?


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """What a model makes of a text; the loss is in nats a token."""

    tokens: int
    characters: int
    bytes: int
    unknown_share: float
    loss: float
    perplexity: float
    bits_per_character: float
    bits_per_byte: float
    comparable: bool  # bits with those of other tokenizers: what a tokenizer drops, its model need not say
    reading: str  # how the model was told what came before


def evaluate_text(
    model: Model, file: Path, *, stride: int | None = None, memory: int | None = None, clamp: int | None = None,
    advance: Advance | None = None, columns: Columns = Columns(), say: Say = ignore,
) -> TextScore:  # fmt: skip
    """Every token of the file, given those before it, as many as the model can read."""
    score, reading = reader_of(model, stride, memory, clamp)  # refuses options before a long text is read
    text = read_text(model.tokenizer, file, columns, say)
    logs = score(torch.from_numpy(text.tokens).to(model.device), advance or (lambda count: None))
    total, tokens = float(logs.double().sum()), len(logs)
    return TextScore(
        tokens=tokens,
        characters=text.characters,
        bytes=text.bytes,
        unknown_share=model.tokenizer.vocabulary.unknown_share(text.tokens[1:]),
        loss=total / tokens,
        perplexity=math.exp(min(700.0, total / tokens)),
        bits_per_character=total / math.log(2) / text.characters,
        bits_per_byte=total / math.log(2) / text.bytes,
        comparable=text.whole,
        reading=reading,
    )


def can_be_read(model: Model) -> bool:
    """Does this model say text from left to right?"""
    return model.kind is None and any(name in model.network.heads for name in HEADS)


def read_text(tokenizer: Tokenizer, file: Path, columns: Columns = Columns(), say: Say = ignore) -> Text:
    """Documents as they are trained on: sentences with a space between them, and an end behind each document."""
    parts, characters, size, ends, whole = [np.array([tokenizer.vocabulary.end])], 0, 0, 1, True
    corpus = open_corpus([file], column=columns.text, header=columns.header)
    for note in corpus.notes:
        say(note)
    for document in corpus.documents():
        sentences: list[str] = []
        for paragraph in document.paragraphs:
            sentences += spaced(split_sentences(paragraph), first=not sentences)
        own = sentences if tokenizer.kind.spaced else [sentence.lstrip() for sentence in sentences]
        tokens = tokenizer.encode_many(own)[0].astype(np.int64)
        whole = whole and solid(tokenizer.decode(tokens.tolist())) == solid("".join(sentences))
        parts += [tokens, np.array([tokenizer.vocabulary.end])]
        ends += 1
        characters += sum(map(len, sentences)) + 1
        size += sum(len(sentence.encode("utf-8", "replace")) for sentence in sentences) + 1
    tokens = np.concatenate(parts)
    if len(tokens) == ends:
        raise InputError(f"{file} has no text to read.")
    return Text(tokens=tokens, characters=characters, bytes=size, whole=whole)


def solid(text: str) -> str:
    """Without white space."""
    return "".join(text.split())


def reader_of(
    model: Model, stride: int | None, memory: int | None, clamp: int | None
) -> tuple[Callable[[Tensor, Advance], Tensor], str]:
    """How the model reads a long text, as a function and in words."""
    settings = model.architecture
    if memory is not None:
        if settings.memory_length is None:
            raise SettingError(f"{model.folder} has no memory that --memory could set. Leave it out.")
        if not 1 <= memory <= MOST_MEMORY:
            raise SettingError(
                f"--memory is how many steps a Transformer-XL or an XLNet keeps, from 1 to {MOST_MEMORY:,}; "
                f"found {memory} for {model.folder}."
            )
        settings = replace(settings, memory=memory)
    if clamp is not None:
        if not settings.limits_distances:
            raise SettingError(f"{model.folder} has no distances that --clamp could limit. Leave it out.")
        if clamp < 1:
            raise SettingError(
                f"--clamp is the longest distance that is told apart, 1 or more; found {clamp} for {model.folder}."
            )
        settings = replace(settings, clamp=clamp)
    if settings.bounded or (settings.generates == "permuted" and not settings.memory_length):
        step = max(1, model.longest // 2) if stride is None else stride
        if not 1 <= step <= model.longest:
            raise SettingError(f"--stride lies from 1 to {model.longest}, the tokens this model reads; found {stride}.")
        told = f"windows of {model.longest} tokens, {step} further each time"
        return lambda tokens, advance: by_windows(model, tokens, step, advance), told
    if stride is not None:
        raise SettingError(
            f"{model.folder} remembers what it has read, so there are no windows and no --stride to set."
        )
    return lambda tokens, advance: reading_on(model, tokens, advance, settings), remembered(settings)


def clamp_of(settings: Any) -> int | None:
    """The longest distance that is told apart, where there is one."""
    return settings.clamp if settings.limits_distances else None


def remembered(settings: Any) -> str:
    """What a model that reads on knows of the text before."""
    if settings.memory_length is None:
        return "state of all tokens before"
    more = f" before the last {settings.longest}" if settings.context_length > settings.memory_length > 0 else ""
    clamp = clamp_of(settings)
    clamped = "" if clamp is None else f", distances beyond {clamp} read as {clamp}"
    return f"memory of {settings.memory_length or settings.context_length} steps{more}{clamped}"


@torch.inference_mode()
def reading_on(model: Model, tokens: Tensor, advance: Advance, settings: Any = None) -> Tensor:
    """(T,) minus the log-probability of each token but the first; each goes through the network once."""
    network: Any = model.network.model
    settings = settings or model.architecture
    cache = network.begin(1, len(tokens), context_length=settings.context_length, clamp=clamp_of(settings))
    found = []
    for given, asked in zip(tokens[:-1].split(TOKENS_AT_ONCE), tokens[1:].split(TOKENS_AT_ONCE), strict=True):
        found.append(-logs_of(model.author, network.extend(given[None], cache)[0], asked))
        advance(len(asked))
    return torch.cat(found)


@torch.inference_mode()
def by_windows(model: Model, tokens: Tensor, stride: int, advance: Advance) -> Tensor:
    """The same for a model that reads so many tokens and no more: each window is read anew, and its new end asked."""
    given, asked = tokens[:-1], tokens[1:]
    found = []
    for group in windows(len(given), min(model.longest, len(given)), stride):
        rows = torch.stack([given[begin:end] for begin, end, _ in group])
        hidden = left_to_right(model, rows)
        new = torch.cat([row[done - begin :] for row, (begin, _, done) in zip(hidden, group, strict=True)])
        targets = torch.cat([asked[done:end] for _, end, done in group])
        found.append(-logs_of(model.author, new, targets))
        advance(len(targets))
    return torch.cat(found)


def left_to_right(model: Model, rows: Tensor) -> Tensor:
    """(B, L, width) what each position says of the next; of a model that has orders, in that of the text."""
    network: Any = model.network.model
    if model.architecture.generates == "permuted":
        return network.extend(rows, network.begin(*rows.shape))
    batch = Batch(
        source=Side(tokens=rows, visible=torch.ones_like(rows, dtype=torch.bool), segments=torch.zeros_like(rows))
    )
    return network(batch).hidden  # nothing is kept, which is faster


def windows(length: int, size: int, stride: int) -> Iterator[list[tuple[int, int, int]]]:
    """Groups of windows over a text: begin, end, and the first place that no window before has asked for."""
    group, done = [], 0
    while done < length:
        end = size if not done else min(done + stride, length)
        group.append((end - size, end, done))
        done = end
        if len(group) == ROWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
