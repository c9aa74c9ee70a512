"""How well a causal language model predicts a plain text: perplexity, and bits per character and per byte."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plmkit.data.corpus import open_corpus
from plmkit.data.reading.columns import Columns, Say, ignore
from plmkit.data.text import split_sentences
from plmkit.errors import InputError, SettingError
from plmkit.generation.likelihood import Advance, token_log_probabilities
from plmkit.inference.model import Model
from plmkit.language import tr
from plmkit.tokenizers.tokenizer import Tokenizer, spaced

MAX_MEMORY = 1_000_000  # tokens


@dataclass(frozen=True, kw_only=True)
class EncodedText:
    """The tokens of a text, with an end token before it and after each document."""

    tokens: np.ndarray  # (T + 1,) the first is context only and not scored
    characters: int  # of the text, plus one per end token
    bytes: int
    lossless: bool  # whether the tokens decode to the text, white space aside


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """The loss of a model on a text, in nats per token, and the measures derived from it."""

    tokens: int
    characters: int
    bytes: int
    unknown_share: float
    loss: float
    perplexity: float
    bits_per_character: float
    bits_per_byte: float
    comparable: bool  # with other tokenizers: a model need not predict what its tokenizer drops
    reading: str  # the context of each token


@dataclass(frozen=True, kw_only=True)
class Context:
    """How a long text is read: in windows of `size` tokens, or with the model's state or recurrent memory."""

    size: int | None = None
    stride: int | None = None
    context_length: int | None = None
    clamp: int | None = None
    description: str

    def log_probabilities(self, model: Model, tokens: np.ndarray, advance: Advance | None = None) -> np.ndarray:
        """The log-probability of every token but the first."""
        engine = model.engine
        if self.size is None:
            engine = engine.with_cache(self.context_length, self.clamp)
        (logs,) = token_log_probabilities(engine, [tokens], size=self.size, stride=self.stride, advance=advance)
        return logs


def evaluate_text(
    model: Model, file: Path, *, stride: int | None = None, memory: int | None = None, clamp: int | None = None,
    advance: Advance | None = None, columns: Columns = Columns(), say: Say = ignore,
) -> TextScore:  # fmt: skip
    """Score every token of the file, given up to a full context of the tokens before it."""
    context = context_of(model, stride, memory, clamp)  # checks options before a long text is read
    text = read_text(model.tokenizer, file, columns, say)
    logs = context.log_probabilities(model, text.tokens, advance)
    total, tokens = -float(logs.sum()), len(logs)
    return TextScore(
        tokens=tokens,
        characters=text.characters,
        bytes=text.bytes,
        unknown_share=model.tokenizer.vocabulary.unknown_share(text.tokens[1:]),
        loss=total / tokens,
        perplexity=math.exp(min(700.0, total / tokens)),
        bits_per_character=total / math.log(2) / text.characters,
        bits_per_byte=total / math.log(2) / text.bytes,
        comparable=text.lossless,
        reading=context.description,
    )


def can_evaluate_text(model: Model) -> bool:
    """Whether it is a pretrained causal language model."""
    return not model.tasks and model.network.head_that_generates is not None


def can_translate(model: Model) -> bool:
    """Whether it is a pretrained encoder–decoder."""
    return not model.tasks and model.network.head_that_translates is not None


def read_text(tokenizer: Tokenizer, file: Path, columns: Columns = Columns(), say: Say = ignore) -> EncodedText:
    """Documents as in training: sentences with a space between them, and an end token after each document."""
    parts, characters, size, ends, lossless = [np.array([tokenizer.vocabulary.end])], 0, 0, 1, True
    corpus = open_corpus([file], column=columns.text, header=columns.header)
    for note in corpus.notes:
        say(note)
    for document in corpus.documents():
        sentences: list[str] = []
        for paragraph in document.paragraphs:
            sentences += spaced(split_sentences(paragraph), first=not sentences)
        own = sentences if tokenizer.kind.spaced else [sentence.lstrip() for sentence in sentences]
        tokens = tokenizer.encode_many(own)[0].astype(np.int64)
        lossless = lossless and without_spaces(tokenizer.decode(tokens.tolist())) == without_spaces("".join(sentences))
        parts += [tokens, np.array([tokenizer.vocabulary.end])]
        ends += 1
        characters += sum(map(len, sentences)) + 1
        size += sum(len(sentence.encode("utf-8", "replace")) for sentence in sentences) + 1
    tokens = np.concatenate(parts)
    if len(tokens) == ends:
        raise InputError(tr("{file} has no text.", file=file))
    return EncodedText(tokens=tokens, characters=characters, bytes=size, lossless=lossless)


def without_spaces(text: str) -> str:
    return "".join(text.split())


def context_of(model: Model, stride: int | None, memory: int | None, clamp: int | None) -> Context:
    """How the model reads a long text."""
    settings = model.architecture
    if memory is not None:
        if settings.memory_length is None:
            raise SettingError(
                tr("{folder} has no recurrent memory, so --memory has no effect. Leave it out.", folder=model.folder)
            )
        if not 1 <= memory <= MAX_MEMORY:
            raise SettingError(
                tr(
                    "--memory must be from 1 to {max_memory:,} tokens; found {memory}.",
                    max_memory=MAX_MEMORY,
                    memory=memory,
                )
            )
        settings = replace(settings, memory=memory)
    if clamp is not None:
        if not settings.limits_distances:
            raise SettingError(
                tr("{folder} has no relative positions, so --clamp has no effect. Leave it out.", folder=model.folder)
            )
        if clamp < 1:
            raise SettingError(tr("--clamp must be 1 or more; found {clamp}.", clamp=clamp))
        settings = replace(settings, clamp=clamp)
    if settings.bounded or (settings.generates == "permuted" and not settings.memory_length):
        step = max(1, model.max_length // 2) if stride is None else stride
        if not 1 <= step <= model.max_length:
            raise SettingError(
                tr(
                    "--stride must be from 1 to {max_length}, the context length of this model; found {stride}.",
                    max_length=model.max_length,
                    stride=stride,
                )
            )
        windows = tr("windows of {max_length} tokens that advance by {step}", max_length=model.max_length, step=step)
        return Context(size=model.max_length, stride=step, description=windows)
    if stride is not None:
        raise SettingError(
            tr(
                "{folder} reads a text without windows, so --stride has no effect. Leave it out.",
                folder=model.folder,
            )
        )
    clamp = settings.clamp if settings.limits_distances else None
    return Context(context_length=settings.context_length, clamp=clamp, description=described(settings, clamp))


def described(settings: Any, clamp: int | None) -> str:
    """The context of a model that reads a text without windows."""
    if settings.memory_length is None:
        return tr("recurrent state over all previous tokens")
    more = (
        tr(" before the last {max_length}", max_length=settings.max_length)
        if settings.context_length > settings.memory_length > 0
        else ""
    )
    clamped = "" if clamp is None else tr(", distances clamped at {clamp}", clamp=clamp)
    return tr(
        "recurrent memory of {memory_length} tokens{more}{clamped}",
        memory_length=settings.memory_length or settings.context_length,
        more=more,
        clamped=clamped,
    )
