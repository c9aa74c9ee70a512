"""A trained model, ready to use: fill blanks, embed, predict, generate, score."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import MASK
from plmkit.errors import InputError, PlmError, SettingError, TruncationWarning
from plmkit.generation.engine import Engine, engine_for
from plmkit.generation.likelihood import likelihood
from plmkit.generation.options import options_from
from plmkit.generation.sequence import GeneratedText
from plmkit.inference.arguments import count, one_text, text_or_pair
from plmkit.inference.given import given, given_rows, given_texts
from plmkit.interop.pooling import MEAN, Pooling
from plmkit.language import tr
from plmkit.network import Network
from plmkit.tasks.batches import predictions_of
from plmkit.tasks.contract import Prediction, Row, Task
from plmkit.tasks.framing import Framed, Padded, Texts, batch_of, by_length, frame, frame_all
from plmkit.terminal.screen import Screen
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.training.threads import look

Text = str | tuple[str, str] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to fill a blank."""

    token: str
    probability: float
    text: str  # the whole text with this blank filled


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How many texts were truncated."""

    cut: int
    texts: int
    length: int

    def __str__(self) -> str:
        return tr(
            "{cut:,} of {texts:,} texts are longer than {length} tokens and were truncated (of a pair, the longer "
            "text first).",
            cut=self.cut,
            texts=self.texts,
            length=self.length,
        )

    def warn(self) -> None:
        """Warn callers from Python; the command line prints a line instead."""
        if self.cut:
            warnings.warn(str(self), TruncationWarning, stacklevel=3)


@dataclass(frozen=True, kw_only=True)
class Score:
    """Pseudo-log-likelihood of a text, each token masked in turn."""

    tokens: int
    pseudo_log_probability: float
    pseudo_perplexity: float


class Model:
    """A trained network with its tokenizer; `plmkit.load(DIR)` makes one.

    `fill`, `embed`, `predict`, `score` and `generate` take one text and return one answer, or take a list of texts (an
    array, a Series, or a DataFrame with a text column) and return a list of answers in the same order. Texts above the
    maximum length are truncated, with a `TruncationWarning` that says how many.

    Attributes:
        folder: Where it was loaded from.
        architecture: The settings of the network, such as `layers` and `width`.
        tokenizer: Text to tokens and back.
        tasks: The tasks of `predict` by name; empty if the model was not fine-tuned.
        classes: The classes of `predict`; empty if it predicts numbers, or nothing.
        max_length: Maximum length in tokens, special tokens included.
        device: The device it computes on.
    """

    def __init__(
        self, *, network: Network, architecture: Any, tokenizer: Tokenizer, folder: Path,
        tasks: Sequence[Task] = (), device: torch.device | None = None,
        max_length: int | None = None, pooling: Pooling = MEAN,
    ) -> None:  # fmt: skip
        self.device = device or torch.device("cpu")
        self.network = network.to(self.device).eval()
        self.architecture, self.tokenizer, self.folder = architecture, tokenizer, folder
        self.tasks, self.pooling = {task.name: task for task in tasks}, pooling
        self.max_length = max_length or architecture.max_length  # tokens per row
        self.generator: Model | None = None  # of ELECTRA: fills blanks, which a discriminator cannot

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.network.parameters())
        shape = tr("{layers} layers of width {width}", layers=self.architecture.layers, width=self.architecture.width)
        task = "; ".join(f"{name}: {task.answers}" for name, task in self.tasks.items()) or tr("pretrained")
        return tr(
            "<Model {folder}: {type}, {shape}, {size:,} parameters, vocabulary of {tokens:,} tokens, {task}>",
            folder=self.folder,
            type=type(self.architecture).__name__,
            shape=shape,
            size=size,
            tokens=len(self.tokenizer.vocabulary),
            task=task,
        )

    def fill(self, text: Any, top: int = 5) -> Any:
        """Fill the blanks of a text.

        Args:
            text: A text with one or more [MASK] (or the tokenizer's own mask token), or a list of such texts.
            top: Number of candidates per blank.

        Returns:
            For each blank a list of `Candidate`, most likely first: `token`, `probability`, and `text`, the whole text
            with this blank filled. For a list of texts, a list of these.
        """
        count(top, "top")
        texts = given_texts(text)
        return texts.answer([self.filled_blanks(one, top) for one in texts.rows])

    @torch.inference_mode()
    def filled_blanks(self, text: str, top: int) -> list[list[Candidate]]:
        if self.generator is not None:
            return self.generator.filled_blanks(text, top)
        head = self.needs("masked_lm", tr("fill blanks"))
        vocabulary = self.tokenizer.vocabulary
        row = self.whole_row(text.replace(MASK, vocabulary.tokens[vocabulary.mask]))
        blanks = np.flatnonzero(row.tokens == vocabulary.mask)
        if not len(blanks):
            raise InputError(tr("The text has no [MASK]. Write one where a word is to be filled in."))
        states, _ = self.states([row], needed=self.blanks)
        logits = head.vocabulary(states.hidden[0, torch.from_numpy(blanks)])
        logits = logits[:, : len(vocabulary)]  # the embedding may be padded
        logits[:, list(vocabulary.special)] = -torch.inf
        probabilities = logits.float().softmax(-1)
        best = probabilities.topk(min(top, len(vocabulary) - len(vocabulary.special)), dim=-1)
        return [
            [
                Candidate(
                    token=self.tokenizer.readable(token),
                    probability=value,
                    text=self.filled(row.tokens, place, token),
                )
                for value, token in zip(values.tolist(), tokens.tolist(), strict=True)
            ]
            for place, values, tokens in zip(blanks.tolist(), best.values, best.indices, strict=True)
        ]

    def filled(self, tokens: np.ndarray, place: int, token: int) -> str:
        changed = tokens.copy()
        changed[place] = token
        return self.tokenizer.decode(changed[1:-1].tolist()).strip()

    def embed(
        self, texts: Any, level: str = "sentence", *, batch_size: int | None = None, progress: bool = False
    ) -> Any:
        """Turn texts into vectors.

        Args:
            texts: A text, a pair of texts as a dict with `text_a` and `text_b`, or a list of texts and pairs.
            level: "sentence" for one vector per text, as sentence-transformers computes it: with the folder's own
                pooling (`modules.json`), otherwise the mean over all tokens, special tokens included. "token" for one
                vector per token, without special tokens.
            batch_size: Texts per batch. Default: batches of up to 4,096 tokens.
            progress: Show a progress bar on stderr.

        Returns:
            An array of (N, width), or of (width,) for one text; with level="token", (tokens, width) for each text.
        """
        if level not in ("sentence", "token"):
            raise SettingError(tr("level must be 'sentence' or 'token'; found '{level}'.", level=level))
        asked = given(texts)
        vectors, cut = self.vectors(asked.rows, level, batch_size, Screen() if progress else None)
        cut.warn()
        if level == "sentence" and not asked.alone:
            return np.stack(vectors) if vectors else np.zeros((0, self.width), dtype=np.float32)
        return asked.answer(vectors)

    def vectors(
        self, texts: Sequence[Text], level: str, batch_size: int | None = None, screen: Screen | None = None
    ) -> tuple[list[np.ndarray], Cut]:
        """The vector of each text, or the vectors of its tokens."""
        by_token, max_length = level == "token", self.max_length
        if not by_token:
            self.check_pooling()
            max_length = min(max_length, self.pooling.max_length or max_length)
        pairs = [text_or_pair(text, number) for number, text in enumerate(texts, start=1)]
        prompt = "" if by_token else self.pooling.prompt
        rows, cut = self.framed([(prompt + text, other) for text, other in pairs], max_length)
        vectors: list[np.ndarray] = [np.zeros(0)] * len(rows)
        for numbers in self.batches(rows, batch_size, screen, tr("embedding")):
            states, batch = self.states([rows[number] for number in numbers])
            found = self.by_token(states, batch) if by_token else self.by_row(states, batch)
            for number, vector in zip(numbers.tolist(), found, strict=True):
                vectors[number] = vector.cpu().numpy()
        return vectors, cut

    @torch.inference_mode()
    def by_row(self, states: States, batch: Batch) -> Tensor:
        """(B, width): one vector per row."""
        return self.pooling(states.hidden, batch.source.visible)

    def by_token(self, states: States, batch: Batch) -> list[Tensor]:
        """The token vectors of each row; of an empty row, that of its first special token."""
        framing = [number for part in self.tokenizer.vocabulary.frame(2) for number in part]
        special = torch.tensor(framing, dtype=torch.long, device=self.device)
        words = batch.source.visible & ~torch.isin(batch.source.tokens, special)
        return [
            hidden[mine if mine.any() else shown.nonzero()[:1, 0]].float()
            for hidden, mine, shown in zip(states.hidden, words, batch.source.visible, strict=True)
        ]

    @property
    def width(self) -> int:
        """Size of a sentence vector."""
        return self.pooling.outputs(self.architecture.width)

    def check_pooling(self) -> None:
        if self.pooling.unknown:
            raise PlmError(
                tr(
                    "{folder} pools its vectors with {unknown}, which plmkit does not support.\n"
                    "Embed with sentence-transformers, or compute token vectors: --level token.",
                    folder=self.folder,
                    unknown=", ".join(self.pooling.unknown),
                )
            )

    def predict(
        self, texts: Any, task: str | None = None, *, batch_size: int | None = None, progress: bool = False
    ) -> Any:
        """Predict the class of texts with probabilities, or a number.

        Args:
            texts: A text, a row of a table as a dict (`text`; `text_a` and `text_b`; `text` and `choices`), or a list
                of these and of pairs of texts; or a DataFrame with such columns.
            task: Name of the task, if the model was fine-tuned on several.
            batch_size: Texts per batch. Default: batches of up to 4,096 tokens.
            progress: Show a progress bar on stderr.

        Returns:
            A `Prediction` (`label`, `probability`, `probabilities`), or a list of them; a blank text has the label
            None.
        """
        chosen = self.task_named(task, tr("predict"))
        asked = given_rows(texts, chosen, self.folder)
        found, cut = self.predictions(asked.rows, chosen, batch_size, Screen() if progress else None)
        cut.warn()
        return asked.answer(found)

    def predictions(
        self, rows: Sequence[Row], task: Task, batch_size: int | None = None, screen: Screen | None = None
    ) -> tuple[list[Prediction], Cut]:
        """The prediction of the task for each row; rows without text get the label None."""
        filled = [number for number, row in enumerate(rows) if not row.blank]
        examples = task.frame([rows[number] for number in filled], self.tokenizer, task.length)
        groups = self.batches(examples, batch_size, screen, tr("predicting"))
        found = predictions_of(self.network, task, examples, self.tokenizer.vocabulary, self.device, groups)
        predictions = [Prediction(label=None)] * len(rows)
        for number, prediction in zip(filled, found, strict=True):
            predictions[number] = prediction
        cut = sum(example.cut > 0 for example in examples)
        return predictions, Cut(cut=cut, texts=len(rows), length=task.length)

    def task_named(self, name: str | None, verb: str) -> Task:
        """The task of that name, or the only one."""
        if not self.tasks:
            raise PlmError(
                tr(
                    "{folder} was not fine-tuned on a task, so it cannot {verb}.\n"
                    "Fine-tune it first: plm finetune {folder} --task classify --train FILE --out DIR",
                    folder=self.folder,
                    verb=verb,
                )
            )
        if name is None and len(self.tasks) == 1:
            return next(iter(self.tasks.values()))
        if name is None or name not in self.tasks:
            found = (
                tr("{folder} has no task '{name}'.", name=name, folder=self.folder)
                if name
                else tr("{folder} has several tasks.", folder=self.folder)
            )
            raise SettingError(tr("{found} Choose one of {tasks}.", found=found, tasks=", ".join(self.tasks)))
        return self.tasks[name]

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of `predict`, if there is one task and it has classes."""
        return next(iter(self.tasks.values())).classes if len(self.tasks) == 1 else ()

    def generate(self, prompts: Any, **asked: Any) -> Any:
        """Continue texts.

        Args:
            prompts: A prompt, or a list of prompts.
            tokens: Maximum number of new tokens. Default: 100.
            temperature: 0 for greedy decoding, above 1 for more random text. Default: 0.8.
            top_k: Sample from this many of the most likely tokens.
            top_p: Nucleus sampling: the most likely tokens with this total probability. Default: 0.95.
            beams: Beam search with this many beams.
            length_penalty: For beam search: 0 favours short texts, 1 long ones. Default: 0.6.
            stop: One or several strings; the text ends before the first of them.
            n: Texts per prompt. Default: 1.
            seed: Random seed; the same seed gives the same texts. Default: 0.

        Returns:
            A `GeneratedText` (`prompt`, `text`, `tokens`, `ended`, `score`); with n above 1, a list of n. For a list
            of prompts, a list with n texts for each, in order.
        """
        options, texts = options_from(asked), given_texts(prompts)
        found: list[GeneratedText] = self.engine.generate(texts.rows, options)
        return found if options.n > 1 else texts.answer(found)

    def stream(self, prompt: str, **asked: Any) -> Iterator[str]:
        """Continue one text, in pieces as they are generated.

        Args:
            prompt: The prompt.
            **asked: Options of `generate`, except n.

        Returns:
            An iterator over the pieces.
        """
        options = options_from(asked)
        if options.n != 1:
            raise SettingError(tr("model.stream generates one text; found n={n}. Use model.generate.", n=options.n))
        pieces = self.engine.stream([one_text(prompt, "model.stream")], options)
        return (piece for piece in pieces if isinstance(piece, str))

    @cached_property
    def engine(self) -> Engine:
        """Generates text; a model that cannot is refused with a message that says what it can do."""
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

    def score(self, text: Any, *, progress: bool = False) -> Any:
        """Score a text by its log-probability.

        Args:
            text: A text, or a list of texts.
            progress: Show a progress bar on stderr.

        Returns:
            For a causal model a `Likelihood` (`tokens`, `log_probability`, `perplexity`). For a masked model a `Score`
            (`tokens`, `pseudo_log_probability`, `pseudo_perplexity`), with each token masked in turn. For a list of
            texts, a list of these.
        """
        texts = given_texts(text)
        found: list[Any] = []
        cut = 0
        with Screen(quiet=not progress).counting(tr("scoring"), len(texts.rows)) as advance:
            for one in texts.rows:
                if self.architecture.generates != "no":
                    found.append(likelihood(self.engine, one))
                else:
                    score, was_cut = self.pseudo_score(one)
                    found.append(score)
                    cut += was_cut
                advance(1)
        Cut(cut=cut, texts=len(found), length=self.max_length).warn()
        return texts.answer(found)

    @torch.inference_mode()
    def pseudo_score(self, text: str) -> tuple[Score, bool]:
        """Mask and predict each token in turn (Salazar et al., 2020); and whether the text was truncated."""
        if self.generator is not None:
            return self.generator.pseudo_score(text)
        head = self.needs("masked_lm", tr("score a text"))
        row = self.rows([text])[0]
        places = np.arange(1, len(row.tokens) - 1)
        if not len(places):
            raise InputError(tr("The text has no tokens to score."))
        total = 0.0
        for start in range(0, len(places), 32):
            some = places[start : start + 32]
            tokens = np.tile(row.tokens, (len(some), 1))
            tokens[np.arange(len(some)), some] = self.tokenizer.vocabulary.mask
            masked = [Framed(tokens=line, second=len(line), cut=0) for line in tokens]
            states, _ = self.states(masked, needed=self.blanks)
            chosen = states.hidden[torch.arange(len(some)), torch.from_numpy(some)]
            logs = head.vocabulary(chosen).float().log_softmax(-1)
            total += float(logs[torch.arange(len(some)), torch.from_numpy(row.tokens[some])].sum())
        score = Score(
            tokens=len(places),
            pseudo_log_probability=total,
            pseudo_perplexity=float(np.exp(-total / len(places))),
        )
        return score, row.cut > 0

    def rows(self, texts: Sequence[Text]) -> list[Framed]:
        """Texts as token ids."""
        return self.framed([text_or_pair(row, number) for number, row in enumerate(texts, start=1)], self.max_length)[0]

    def framed(self, texts: Sequence[Texts], max_length: int) -> tuple[list[Framed], Cut]:
        """Texts as token ids, and how many of them were truncated."""
        framed = frame_all(texts, self.tokenizer, max_length)
        return framed, Cut(cut=sum(row.cut > 0 for row in framed), texts=len(framed), length=max_length)

    def batches(
        self, rows: Sequence[Padded], batch_size: int | None, screen: Screen | None, what: str
    ) -> Iterator[np.ndarray]:
        """Indices of the rows of each batch; the screen shows the progress."""
        if batch_size is not None:
            count(batch_size, "batch_size")
        groups = by_length(rows, batch_size)
        if screen is None:
            for numbers in groups:
                look()
                yield numbers
            return
        with screen.counting(what, len(rows)) as advance:
            for numbers in groups:
                look()
                yield numbers
                advance(len(numbers))

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

    @torch.inference_mode()
    def states(
        self, rows: Sequence[Framed], length: int | None = None, needed: Callable[[Batch], Tensor | None] | None = None
    ) -> tuple[States, Batch]:
        """The hidden states of rows; with `needed`, of these positions only."""
        look()
        batch = batch_of(rows, self.tokenizer.vocabulary, length).to(self.device)
        return self.network.model(replace(batch, needed=needed(batch) if needed else None)), batch

    def blanks(self, batch: Batch) -> Tensor:
        return batch.source.tokens == self.tokenizer.vocabulary.mask

    def needs(self, name: str, verb: str) -> Any:
        """The head of that name."""
        if name in self.network.heads:
            return self.network.heads[name]
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
                "{folder} has no masked-LM head, so it cannot {verb}. Use a pretrained model.",
                folder=self.folder,
                verb=verb,
            )
        )
