"""A trained network with its tokenizer: texts → rows of tokens → hidden states, in batches."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.batch import Batch, States
from plmkit.data.graph import Graph
from plmkit.data.vocabulary import MANY_UNKNOWN_INPUT
from plmkit.errors import InputError, PlmError, TruncationWarning, UnknownTokensWarning
from plmkit.generation.engine import Engine, engine_for
from plmkit.inference.arguments import count, text_or_pair
from plmkit.interop.pooling import MEAN, Pooling
from plmkit.language import tr
from plmkit.network import Network
from plmkit.tasks.contract import Task
from plmkit.tasks.framing import Framed, Padded, Texts, batch_of, by_length, frame, frame_all
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.threads import look

Change = Callable[[Batch], Batch]
Text = str | tuple[str, str] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """What was lost in reading texts: the ends of long ones, and tokens that the vocabulary does not have."""

    cut: int  # number of texts that were truncated
    texts: int
    length: int
    unknown: float = 0.0  # share of the tokens
    tokens: int = 0

    def plus(self, other: "Unread") -> "Unread":
        """This and what was lost in other texts."""
        tokens = self.tokens + other.tokens
        unknown = (self.unknown * self.tokens + other.unknown * other.tokens) / max(1, tokens)
        return replace(
            self, cut=self.cut + other.cut, texts=self.texts + other.texts, unknown=unknown, tokens=tokens
        )  # fmt: skip

    def remarks(self) -> Iterator[tuple[type[Warning], str]]:
        """The warnings that are worth giving, with their kinds."""
        if self.cut:
            yield TruncationWarning, self.cut_remark()
        if self.unknown > MANY_UNKNOWN_INPUT:
            yield (
                UnknownTokensWarning,
                tr(
                    "{share:.1%} of the tokens are unknown to the model's vocabulary: was it trained on text like "
                    "this?",
                    share=self.unknown,
                ),
            )

    def cut_remark(self) -> str:
        return tr(
            "{cut:,} of {texts:,} texts are longer than {length} tokens and were truncated (of a pair, the longer "
            "text first).",
            cut=self.cut,
            texts=self.texts,
            length=self.length,
        )

    def warn(self) -> None:
        """Warn callers from Python; the command line prints lines instead."""
        for kind, text in self.remarks():
            warnings.warn(text, kind, stacklevel=3)


def check_reads_text(architecture: Architecture, folder: Path, verb: str) -> None:
    """Refuse a model that describes images."""
    if architecture.describes_images:
        raise PlmError(
            tr(
                "{folder} describes images, so it cannot {verb}.\n"
                "Describe an image instead: plm caption {folder} photo.jpg",
                folder=folder,
                verb=verb,
            )
        )


def unchanged(batch: Batch) -> Batch:
    return batch


def ignored(done: float) -> None:
    """Progress that nobody watches."""


class Reader:
    """What a model folder holds, loaded: reads texts into hidden states. `Model` adds the verbs of users."""

    def __init__(
        self, *, network: Network, architecture: Any, tokenizer: Tokenizer, folder: Path,
        tasks: Sequence[Task] = (), device: torch.device | None = None,
        max_length: int | None = None, pooling: Pooling = MEAN, graph: Graph | None = None,
    ) -> None:  # fmt: skip
        self.device = device or torch.device("cpu")
        self.network = network.to(self.device).eval()
        self.architecture, self.tokenizer, self.folder = architecture, tokenizer, folder
        self.tasks, self.pooling = {task.name: task for task in tasks}, pooling
        self.max_length = max_length or architecture.max_length  # tokens per row
        self.graph = graph  # that it was trained on
        self.generator: Reader | None = None  # of ELECTRA: fills blanks, which a discriminator cannot

    def rows(self, texts: Sequence[Text]) -> list[Framed]:
        """Texts as token ids."""
        return self.framed([text_or_pair(row, number) for number, row in enumerate(texts, start=1)], self.max_length)[0]

    def framed(self, texts: Sequence[Texts], max_length: int) -> tuple[list[Framed], Unread]:
        """Texts as token ids, and how many of them were truncated."""
        framed = frame_all(texts, self.tokenizer, max_length)
        return framed, Unread(cut=sum(row.cut > 0 for row in framed), texts=len(framed), length=max_length)

    def whole_row(self, text: str) -> Framed:
        """A text that may contain special tokens and must not be truncated."""
        tokens = np.array(self.tokenizer.encode(text), dtype=np.int64)
        row = frame(tokens, None, self.tokenizer.vocabulary, self.max_length)
        if row.cut:
            raise InputError(
                tr(
                    "The text has {tokens} tokens; this model reads at most {max_length}.",
                    tokens=len(tokens),
                    max_length=self.max_length - 2,
                )
            )
        return row

    def batches(
        self, rows: Sequence[Padded], batch_size: int | None, screen: Screen | None, what: str
    ) -> Iterator[np.ndarray]:
        """Indices of the rows of each batch; the screen shows the progress."""
        if screen is None:
            yield from self.groups(rows, batch_size)
            return
        with screen.counting(what, len(rows), unit=tr("rows")) as advance:
            yield from self.groups(rows, batch_size, advance)

    def groups(
        self, rows: Sequence[Padded], batch_size: int | None, advance: Callable[[int], None] = ignored
    ) -> Iterator[np.ndarray]:
        """The same; `advance` gets the number of rows of each batch when it is done."""
        if batch_size is not None:
            count(batch_size, "batch_size")
        for numbers in by_length(rows, batch_size):
            look()
            yield numbers
            advance(len(numbers))

    @torch.inference_mode()
    def states(
        self, rows: Sequence[Framed], length: int | None = None, needed: Callable[[Batch], Tensor | None] | None = None,
        *, all_layers: bool = False, change: Change = unchanged,
    ) -> tuple[States, Batch]:  # fmt: skip
        """The hidden states of rows, of the last layer or of all; with `needed`, of these positions only.

        `change` may add an image to the batch.
        """
        look()
        batch = change(batch_of(rows, self.tokenizer.vocabulary, length)).to(self.device)
        return self.network.model(
            replace(batch, needed=needed(batch) if needed else None, all_layers=all_layers)
        ), batch

    def head(self, name: str, verb: str) -> Any:
        """The head of that name; without it, a model is refused with a message that says what it can do."""
        if name in self.network.heads:
            return self.network.heads[name]
        if not self.network.model.has_layers:
            raise PlmError(
                tr(
                    "{folder} is a compressed model, so it cannot {verb}. Use the model that it was made from.",
                    folder=self.folder,
                    verb=verb,
                )
            )
        if self.architecture.translates:
            raise self.only_translates(verb)
        check_reads_text(self.architecture, self.folder, verb)
        if self.architecture.generates != "no":
            raise PlmError(
                tr(
                    "{folder} is a causal language model, so it cannot {verb}.\n"
                    'Continue a text instead: plm generate {folder} "the beginning of a text"',
                    folder=self.folder,
                    verb=verb,
                )
            )
        raise PlmError(
            tr(
                "{folder} has no masked-LM head, so it cannot {verb}. Use a pretrained masked language model.",
                folder=self.folder,
                verb=verb,
            )
        )

    def only_translates(self, verb: str) -> PlmError:
        return PlmError(
            tr(
                "{folder} is an encoder–decoder, so it cannot {verb}.\n"
                'Translate a text instead: plm translate {folder} "a text"',
                folder=self.folder,
                verb=verb,
            )
        )

    @cached_property
    def engine(self) -> Engine:
        """Generates text; a model that cannot is refused in the same way."""
        if self.architecture.translates:
            raise self.only_translates(tr("generate text"))
        check_reads_text(self.architecture, self.folder, tr("generate text"))
        if self.architecture.reads_characters:
            raise PlmError(
                tr(
                    "{folder} is a pair of language models, one per direction, for word vectors, and cannot generate "
                    "text.\n"
                    "Pretrain a causal language model: plm pretrain gpt2-mini CORPUS --out DIR",
                    folder=self.folder,
                )
            )
        if self.architecture.generates == "no":
            raise PlmError(
                tr(
                    "{folder} is a masked (bidirectional) language model and cannot generate text.\n"
                    'Use it to fill blanks (plm fill {folder} "a text with a [MASK]"), or pretrain a causal '
                    "language model: plm pretrain gpt2-mini CORPUS --out DIR",
                    folder=self.folder,
                )
            )
        head = self.network.head_that_generates
        if head is None:
            raise PlmError(
                tr(
                    "{folder} has no LM head, so it cannot generate text. Use a pretrained model.",
                    folder=self.folder,
                )
            )
        bounded = self.architecture.bounded
        return engine_for(
            cast(Any, self.network.model), head.output, self.tokenizer,
            self.architecture.max_length if bounded else None, self.device, causal=bounded,
        )  # fmt: skip
