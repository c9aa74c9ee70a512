"""Texts from texts with an encoder–decoder: translations and summaries, by beam search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.text import WORD
from plmkit.data.vocabulary import MISSING
from plmkit.errors import PlmError
from plmkit.generation.beam_search import beam_search, search_of
from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import END, LENGTH
from plmkit.inference.reader import Reader, Unread
from plmkit.kernels.linear import with_bfloat16_products
from plmkit.language import tr
from plmkit.layers.recording import recording
from plmkit.terminal.screen import Screen
from plmkit.training.device import choose_dtype
from plmkit.training.threads import look

BEAMS = 4  # the default, with 50 tokens more than the source has (Vaswani et al., 2017, 6.1)
MORE_TOKENS = 50
ROWS, TOKENS = 256, 8192  # of a batch: beams of all its sentences, and the same times the length of the longest source


@dataclass(frozen=True, kw_only=True)
class Translation:
    """What a model made of a source."""

    source: str
    text: str
    tokens: int  # number of generated tokens
    ended: str  # by the model's "end" token, or at the maximum "length"
    score: float | None  # the log-probability with the length penalty; None: the source has no text


class Target:
    """The tokens of a translation so far."""

    __slots__ = ("end", "ended", "max_tokens", "tokens")

    def __init__(self, max_tokens: int, end: int, tokens: tuple[int, ...] = (), ended: str | None = None) -> None:
        self.max_tokens, self.end, self.tokens, self.ended = max_tokens, end, tokens, ended

    def extended(self, token: int) -> "Target":
        if token == self.end:
            return Target(self.max_tokens, self.end, self.tokens, END)
        tokens = (*self.tokens, token)
        return Target(self.max_tokens, self.end, tokens, LENGTH if len(tokens) == self.max_tokens else None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text to translate, and its tokens as the model reads them."""

    text: str
    tokens: list[int]  # special tokens included
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class UnreadSources(Unread):
    """What was lost in reading sources."""

    first: int  # number of the first source that was cut, from 1; 0: none

    def cut_remark(self) -> str:
        return tr(
            "{cut:,} of {texts:,} sources are longer than the model's {length} tokens and were cut at their end; the "
            "first is number {first:,}.",
            cut=self.cut,
            texts=self.texts,
            length=self.length,
            first=self.first,
        )


class Translator:
    """An encoder–decoder with its tokenizer: reads sources, and searches for their translations."""

    def __init__(self, reader: Reader) -> None:
        head = reader.network.head_that_translates
        if head is None:
            raise PlmError(
                tr(
                    "{folder} is not an encoder–decoder, so it cannot translate. Train one on pairs of texts: "
                    "plm pretrain transformer-mini PAIRS.tsv --out DIR",
                    folder=reader.folder,
                )
            )
        self.network, self.head, self.device = reader.network, head, reader.device
        self.tokenizer = reader.tokenizer
        self.vocabulary = reader.tokenizer.vocabulary
        self.max_length: int = reader.max_length

    @cached_property
    def dtype(self) -> torch.dtype:
        """The precision of products in beam search: bfloat16 on a processor that is faster in it."""
        if self.device.type != "cpu":
            return torch.float32
        return choose_dtype(self.device, width=self.network.model.settings.width)

    @cached_property
    def model(self) -> LanguageModel:
        model, output = self.network.model, self.head.output
        if self.dtype is torch.bfloat16:
            model, output = with_bfloat16_products(model), output.in_bfloat16()
        banned = sorted(self.vocabulary.special - {self.vocabulary.end, self.vocabulary.unknown})
        return LanguageModel(cast(Any, model), output, len(self.vocabulary), banned, self.device)

    def read(self, texts: Sequence[str]) -> list[Source]:
        """Sources as in training: those that are too long are cut at their end."""
        tokens, counts = self.tokenizer.encode_many([" ".join(text.split()) for text in texts])
        rows = np.split(tokens.astype(np.int64), np.cumsum(counts)[:-1]) if len(texts) else []
        room = self.max_length - len(self.vocabulary.source_row([]))
        return [
            Source(text=text, tokens=self.vocabulary.source_row(row[:room].tolist()), cut=len(row) > room)
            for text, row in zip(texts, rows, strict=True)
        ]

    def translate(
        self, texts: Sequence[str], options: GenerationOptions, screen: Screen | None = None
    ) -> tuple[list[list[Translation]], Unread]:
        """The best `n` translations of each text, best first, in the order of the texts."""
        assert options.beams is not None
        sources = self.read(texts)
        empty = len(self.vocabulary.source_row([]))
        found = [[Translation(source=text, text="", tokens=0, ended=END, score=None)] * options.n for text in texts]
        batches = by_length(
            [len(source.tokens) if len(source.tokens) > empty else 0 for source in sources], options.beams
        )
        with (screen or Screen(quiet=True)).counting(tr("translating"), sum(map(len, batches))) as advance:
            for numbers in batches:
                look()
                for number, best in zip(numbers, self.search([sources[n] for n in numbers], options), strict=True):
                    found[number] = best
                advance(len(numbers))
        return found, self.unread(sources)

    def unread(self, sources: Sequence[Source]) -> Unread:
        """What was lost in reading sources."""
        tokens = np.array([token for source in sources for token in source.tokens])
        unknown = self.vocabulary.unknown_share(tokens) if len(tokens) else 0.0
        cut = [number for number, source in enumerate(sources, start=1) if source.cut]
        return UnreadSources(
            cut=len(cut), texts=len(sources), length=self.max_length, unknown=unknown, first=cut[0] if cut else 0
        )

    @torch.inference_mode()
    def search(self, sources: Sequence[Source], options: GenerationOptions) -> list[list[Translation]]:
        side = self.side([source.tokens for source in sources])
        framing = len(self.vocabulary.source_row([]))
        limits = [min(len(source.tokens) - framing + MORE_TOKENS, self.max_length) for source in sources]
        searches = [search_of(Target(limit, self.vocabulary.end), options, exact=True) for limit in limits]
        cache = self.model.begin(len(sources), max(limits), side)
        last = self.model.extend([[self.vocabulary.start]] * len(sources), cache)[:, -1]
        beam_search(self.model, searches, cache, last)
        found = [(source, *best) for source, one in zip(sources, searches, strict=True) for best in one.best]
        texts = self.written([(source, target) for source, target, _ in found])
        written = iter(
            Translation(
                source=source.text, text=text, tokens=len(target.tokens), ended=target.ended or END, score=score
            )
            for (source, target, score), text in zip(found, texts, strict=True)
        )
        return [[next(written) for _ in one.best] for one in searches]

    def written(self, pairs: Sequence[tuple[Source, Target]]) -> Iterator[str]:
        """The text of each target; an unknown token becomes the word of the source that it attends to most."""
        unknown = self.vocabulary.unknown
        lacking = [pair for pair in pairs if unknown != MISSING and unknown in pair[1].tokens]
        aligned = iter(self.alignments(lacking))
        for source, target in pairs:
            text = self.tokenizer.decode(target.tokens).strip()
            if unknown != MISSING and unknown in target.tokens and (weights := next(aligned)) is not None:
                text = self.with_words(text, source, target, weights)
            yield text

    def with_words(self, text: str, source: Source, target: Target, weights: Tensor) -> str:
        """The text with a word of the source, by (queries, keys) weights, in the place of every unknown token."""
        clean = " ".join(source.text.split())
        before = len(self.vocabulary.source_row([])) - 1
        places = self.tokenizer.offsets_many([clean])[: len(source.tokens) - before - 1]
        own = weights[:, before : before + len(places)]  # without special tokens
        words = [
            word_at(clean, *places[int(own[query].argmax())].tolist())
            for query, token in enumerate(target.tokens)
            if token == self.vocabulary.unknown
        ]
        parts = text.split(self.vocabulary.tokens[self.vocabulary.unknown])
        return parts[0] + "".join(word + part for word, part in zip(words, parts[1:], strict=False))

    def alignments(self, pairs: Sequence[tuple[Source, Target]]) -> list[Tensor | None]:
        """(target, source) cross-attention weights of each pair, the mean of all layers and heads; None: no attention.

        The weights in row i are those with which token i of the target was predicted.
        """
        found: list[Tensor | None] = []
        for source, target in pairs:
            batch = self.pairs([source.tokens], [target.tokens])
            with recording() as records:
                self.network.model(batch)
            cross = [record.weights[0].mean(0) for record in records if record.kind == "cross"]
            found.append(torch.stack(cross).mean(0) if cross else None)
        return found

    @torch.inference_mode()
    def loss(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[float, int]:
        """The sum of the negative log-probabilities of all target tokens, ends included, and their number.

        Long targets are cut at their end, as in training, and do not predict it.
        """
        total, tokens = 0.0, 0
        read = self.read(sources)
        rows = [self.tokenizer.encode_plain(" ".join(text.split())) for text in targets]
        for numbers in by_length([len(source.tokens) for source in read], BEAMS):
            look()
            batch = self.pairs([read[number].tokens for number in numbers], [rows[number] for number in numbers])
            count = self.head.scored(batch)
            total += count * float(self.head(self.network.model(batch), batch))
            tokens += count
        return total, tokens

    def side(self, rows: Sequence[Sequence[int]]) -> Side:
        """Rows of tokens, padded on the right."""
        tokens = pad_sequence(
            [torch.tensor(row) for row in rows], batch_first=True, padding_value=self.vocabulary.filler
        )
        visible = torch.arange(tokens.shape[1]) < torch.tensor([[len(row)] for row in rows])
        return Side(tokens=tokens, visible=visible).each(lambda part: part.to(self.device))

    def pairs(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
        """Sources, and what the decoder reads to predict their targets and the end of each that is not cut."""
        rows = [[self.vocabulary.start, *target, self.vocabulary.end][: self.max_length + 1] for target in targets]
        read = self.side([row[:-1] for row in rows])
        predicted = self.side([row[1:] for row in rows]).tokens
        return Batch(source=self.side(sources), target=read, targets=predicted.masked_fill(~read.visible, IGNORE))


def word_at(text: str, begin: int, end: int) -> str:
    """The word around some characters of a text."""
    found = (word for word in WORD.finditer(text) if word.start() <= begin < word.end())
    return next((word.group() for word in found), text[begin:end])


def by_length(lengths: Sequence[int], beams: int) -> list[list[int]]:
    """Batches of the numbers of sources of like length, the longest first; those without tokens are left out."""
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if not lengths[number]:
            break
        size = len(batches[-1]) + 1 if batches else 1
        if not batches or size * beams > ROWS or size * beams * lengths[batches[-1][0]] > TOKENS:
            batches.append([])
        batches[-1].append(number)
    return batches
