"""A trained model, ready to use: fill blanks, embed, predict, generate, score."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.arguments import count, many_texts, one_text, text_or_pair
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import MASK
from plmkit.errors import InputError, PlmError, SettingError
from plmkit.generation.author import Author, author_of
from plmkit.generation.likelihood import Likelihood, likelihood
from plmkit.generation.row import Text as Written
from plmkit.generation.writing import writing_of
from plmkit.network import Network
from plmkit.tasks.framing import Framed, Reading, batch_of, by_length, frame, frame_readings, readings_of
from plmkit.tasks.kinds import Kind
from plmkit.tokenizers.tokenizer import Tokenizer

Text = str | tuple[str, str] | Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to fill a blank."""

    token: str
    probability: float
    text: str  # the whole text with this blank filled


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A class with its probability and those of all classes, or a number."""

    label: str | float
    probability: float | None = None
    probabilities: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Score:
    """How likely a masked model finds a text, each token hidden in turn."""

    tokens: int
    pseudo_log_probability: float
    pseudo_perplexity: float


class Model:
    """A network with its tokenizer; `plmkit.load(DIR)` makes one."""

    def __init__(
        self, *, network: Network, architecture: Any, tokenizer: Tokenizer, folder: Path,
        kind: Kind | None = None, classes: tuple[str, ...] = (), device: torch.device | None = None,
        longest: int | None = None,
    ) -> None:  # fmt: skip
        self.device = device or torch.device("cpu")
        self.network = network.to(self.device).eval()
        self.architecture, self.tokenizer, self.folder = architecture, tokenizer, folder
        self.kind, self.classes = kind, classes
        self.longest = longest or architecture.longest  # tokens in a row
        self.generator: Model | None = None  # fills blanks in its place, where it was trained to detect
        self.cut = 0  # texts of the latest call that were longer than the model

    @torch.inference_mode()
    def fill(self, text: str, top: int = 5) -> list[list[Candidate]]:
        """For each [MASK] in the text, the likeliest tokens, best first; the tokenizer's own mask will do too."""
        one_text(text, "model.fill")
        count(top, "top", "how many ways to fill a blank")
        if self.generator is not None:
            return self.generator.fill(text, top)
        head = self.needs("masked_lm", "fill blanks")
        vocabulary = self.tokenizer.vocabulary
        row = self.whole_row(text.replace(MASK, vocabulary.tokens[vocabulary.mask]))
        blanks = np.flatnonzero(row.tokens == vocabulary.mask)
        if not len(blanks):
            raise InputError("There is no [MASK] in the text. Write one where a word is to be filled in.")
        states, _ = self.states([row], wants=self.blanks)
        logits = head.vocabulary(states.hidden[0, torch.from_numpy(blanks)])
        logits = logits[:, : len(vocabulary)]  # a table may have more rows than there are tokens
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

    def embed(self, texts: Sequence[Text], level: str = "sentence") -> Any:
        """One vector a text, the mean over its tokens, (N, width); or level="token": a list of (tokens, width)."""
        if level not in ("sentence", "token"):
            raise SettingError(f"level is 'sentence' or 'token'; found '{level}'.")
        rows = self.rows(texts)
        vectors: list[np.ndarray] = [np.zeros(0)] * len(rows)
        for numbers in by_length(rows):
            states, batch = self.states([rows[number] for number in numbers])
            framing = [number for part in self.tokenizer.vocabulary.frame(2) for number in part]
            special = torch.tensor(framing, dtype=torch.long)
            words = batch.visible & ~torch.isin(batch.tokens, special.to(self.device))
            for number, hidden, mine in zip(numbers.tolist(), states.hidden, words, strict=True):
                chosen = hidden[mine if mine.any() else slice(0, 1)].float().cpu()
                vectors[number] = (chosen if level == "token" else chosen.mean(0)).numpy()
        if level == "token":
            return vectors
        return np.stack(vectors) if vectors else np.zeros((0, self.architecture.width), dtype=np.float32)

    def predict(self, rows: Sequence[Text]) -> list[Prediction]:
        """A class with probabilities, or a number, for each text or pair of texts."""
        head = self.needs("label", "predict")
        assert self.kind is not None
        asked = [self.asked(row, number) for number, row in enumerate(many_texts(rows), start=1)]
        framed = self.framed(asked, choosing=self.kind.readings == "each")
        self.check_pairs(framed)
        answers: list[Tensor] = [torch.zeros(0)] * len(framed)
        length = self.longest if head.pooling == "concat" else None
        for numbers in by_length(framed):
            states, batch = self.states([framed[number] for number in numbers], length, head.wants)
            with torch.inference_mode():
                found = head.answers(states, batch).float()
                found = found if self.kind.numeric else found.softmax(-1)
            for number, answer in zip(numbers.tolist(), found.cpu(), strict=True):
                answers[number] = answer
        if self.kind.readings == "each":
            return [
                chosen([str(choice) for _, choice in row], answer.tolist())
                for row, answer in zip(asked, answers, strict=True)
            ]
        return [self.prediction(answer.tolist()) for answer in answers]

    def asked(self, row: Text, number: int) -> list[Reading]:
        """How the model's task reads a row."""
        assert self.kind is not None
        choices = row.get("choices") if isinstance(row, Mapping) else None
        if (self.kind.readings == "each") != isinstance(choices, list | tuple):
            raise InputError(
                f"{self.folder} chooses: row {number} needs `text` and `choices`, a list."
                if self.kind.readings == "each"
                else f"{self.folder} does not choose, but row {number} has choices."
            )
        return readings_of(*text_or_pair(row, number), tuple(choices or ()), self.kind)

    def check_pairs(self, rows: Sequence[Framed]) -> None:
        """A model that learnt from pairs is asked about pairs, and one that did not is not."""
        assert self.kind is not None
        for number, row in enumerate(rows, start=1):
            if self.kind.paired not in (None, row.second < len(row.tokens)):
                wanted, found = ("two texts", "one") if self.kind.paired else ("one text", "two")
                raise InputError(f"{self.folder} reads {wanted} a row; row {number} has {found}.")

    def prediction(self, answer: list[float]) -> Prediction:
        assert self.kind is not None
        if self.kind.numeric:
            return Prediction(label=answer[0])
        probabilities = dict(zip(self.classes, answer, strict=True))
        best = max(probabilities, key=probabilities.__getitem__)
        return Prediction(label=best, probability=probabilities[best], probabilities=probabilities)

    def generate(self, prompts: str | Sequence[str], **asked: Any) -> list[Written]:
        """`n` texts for each prompt: tokens, temperature, top_k, top_p, beams, length_penalty, stop, n and seed."""
        texts = [prompts] if isinstance(prompts, str) else many_texts(prompts)
        return self.author.generate([one_text(text, "model.generate") for text in texts], writing_of(asked))

    def stream(self, prompt: str, **asked: Any) -> Iterator[str]:
        """One text in pieces, each as soon as it can be said; takes what `generate` takes, but for n."""
        writing = writing_of(asked)
        if writing.n != 1:
            raise SettingError(f"A stream is one text; found n={writing.n}. Use model.generate.")
        pieces = self.author.told([one_text(prompt, "model.stream")], writing)
        return (piece for piece in pieces if isinstance(piece, str))

    @cached_property
    def author(self) -> Author:
        """What goes on with texts; a model that cannot is refused with a word on what can."""
        if not getattr(self.architecture, "left_to_right", False):
            raise PlmError(
                f"{self.folder} was trained to read both ways, not to go on with a text, so it cannot generate.\n"
                f'Let it fill blanks (plm fill {self.folder} "a text with a [MASK]"), or pretrain a model that reads '
                "from left to right: plm pretrain gpt2-mini CORPUS --out DIR"
            )
        head = next((head for head in self.network.heads.values() if hasattr(head, "vocabulary")), None)
        if head is None:
            raise PlmError(f"{self.folder} has no language-model head, so it cannot generate. Take a pretrained model.")
        longest = self.architecture.longest if getattr(self.architecture, "bounded", False) else None
        return author_of(self.network.model, cast(Any, head).vocabulary, self.tokenizer, longest, self.device)

    @torch.inference_mode()
    def score(self, text: str) -> Score | Likelihood:
        """The log-probability of a text; of a masked model the pseudo-likelihood, each token hidden in turn."""
        one_text(text, "model.score")
        if getattr(self.architecture, "left_to_right", False):
            return likelihood(self.author, text)
        return self.pseudo_score(text)

    @torch.inference_mode()
    def pseudo_score(self, text: str) -> Score:
        """Hide each token in turn and ask for it (Salazar et al., 2020)."""
        if self.generator is not None:
            return self.generator.pseudo_score(text)
        head = self.needs("masked_lm", "score a text")
        row = self.rows([text])[0]
        places = np.arange(1, len(row.tokens) - 1)
        if not len(places):
            raise InputError("The text has no tokens to score.")
        total = 0.0
        for start in range(0, len(places), 32):
            some = places[start : start + 32]
            tokens = np.tile(row.tokens, (len(some), 1))
            tokens[np.arange(len(some)), some] = self.tokenizer.vocabulary.mask
            hidden = [Framed(tokens=line, second=len(line), cut=0) for line in tokens]
            states, _ = self.states(hidden, wants=self.blanks)
            chosen = states.hidden[torch.arange(len(some)), torch.from_numpy(some)]
            logs = head.vocabulary(chosen).float().log_softmax(-1)
            total += float(logs[torch.arange(len(some)), torch.from_numpy(row.tokens[some])].sum())
        return Score(
            tokens=len(places),
            pseudo_log_probability=total,
            pseudo_perplexity=float(np.exp(-total / len(places))),
        )

    def rows(self, texts: Sequence[Text]) -> list[Framed]:
        """Texts as rows; how many did not fit is kept in `cut`."""
        return self.framed([[text_or_pair(row, number)] for number, row in enumerate(many_texts(texts), start=1)])

    def framed(self, asked: Sequence[Sequence[Reading]], choosing: bool = False) -> list[Framed]:
        framed = frame_readings(asked, self.tokenizer, self.longest, choosing)
        self.cut = sum(row.cut > 0 for row in framed)
        return framed

    def whole_row(self, text: str) -> Framed:
        """A text that may name special tokens, and must fit."""
        tokens = np.array(self.tokenizer.encode(text), dtype=np.int64)
        row = frame(tokens, None, self.tokenizer.vocabulary, self.longest)
        if row.cut:
            raise InputError(f"The text has {len(tokens)} tokens; this model reads {self.longest - 2} at most.")
        return row

    @torch.inference_mode()
    def states(
        self, rows: Sequence[Framed], length: int | None = None, wants: Callable[[Batch], Tensor | None] | None = None
    ) -> tuple[States, Batch]:
        """What the network makes of rows; with `wants`, of the positions that it names."""
        batch = batch_of(rows, self.tokenizer.vocabulary, length).to(self.device)
        read = batch.readings()
        return self.network.model(replace(read, wanted=wants(read) if wants else None)), batch

    def blanks(self, batch: Batch) -> Tensor:
        return batch.tokens == self.tokenizer.vocabulary.mask

    def needs(self, name: str, verb: str) -> Any:
        """The head of that name."""
        if name in self.network.heads:
            return self.network.heads[name]
        if name == "label":
            raise PlmError(
                f"{self.folder} has no head that labels texts, so it cannot {verb}.\n"
                f"Fine-tune it first: plm finetune {self.folder} --task classify --train FILE --out DIR"
            )
        if getattr(self.architecture, "left_to_right", False):
            raise PlmError(
                f"{self.folder} was trained to go on with text, not to fill blanks, so it cannot {verb}.\n"
                f'Let it go on with a text instead: plm generate {self.folder} "how a text begins"'
            )
        raise PlmError(
            f"{self.folder} has no masked-language-model head, so it cannot {verb}. Take a pretrained model."
        )


def chosen(choices: Sequence[str], answer: Sequence[float]) -> Prediction:
    """One of the row's own choices."""
    probabilities = dict(zip(choices, answer, strict=False))  # a row may have fewer than the batch
    best = max(probabilities, key=probabilities.__getitem__)
    return Prediction(label=best, probability=probabilities[best], probabilities=probabilities)
