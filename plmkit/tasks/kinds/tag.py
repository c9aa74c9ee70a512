"""A tag for every word: entities, parts of speech, word boundaries."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.batch import IGNORE
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.language import comma, message, tr
from plmkit.tasks.answers import LISTED
from plmkit.tasks.contract import TOKEN, Baseline, Example, Prediction, Row, Task, learned
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.report.calibration import Calibration, reliability
from plmkit.tasks.report.classes import table_of
from plmkit.tasks.report.report import Mistakes, Report
from plmkit.tasks.report.tags import tag_intervals
from plmkit.tasks.tagging.checking import check_tags, in_scheme
from plmkit.tasks.tagging.cutting import MARKS, WORDS, units_of
from plmkit.tasks.tagging.framing import framed
from plmkit.tasks.tagging.heads import CrfHead, TagHead
from plmkit.tasks.tagging.mistakes import wrong_sentences
from plmkit.tasks.tagging.predictions import TagPrediction, conll, prediction_of, rendered
from plmkit.tasks.tagging.rows import WordRow, given_row, word_rows
from plmkit.tasks.tagging.schemes import (
    BIO,
    OUTSIDE,
    PLAIN,
    canonical,
    classes_of,
    may_follow,
    scheme_in,
    scheme_of,
    spans_of,
    type_of,
)
from plmkit.tasks.tagging.scores import tag_scores
from plmkit.tasks.tagging.tables import open_words
from plmkit.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Tag(Task):
    """A tag for every word, predicted at its first token (Devlin et al., 2018, 5.3)."""

    kind: ClassVar[str] = "tag"
    best: ClassVar[str] = "f1"
    problem: ClassVar[str | None] = "tagging"
    levels: ClassVar[frozenset[str]] = frozenset({TOKEN})
    writes: ClassVar[tuple[str, ...]] = (".conll",)

    crf: bool = False  # predict the most likely sequence of tags with a CRF, instead of each tag alone
    scheme: str = learned(BIO)  # of the tags: BIO, BIOES or plain
    units: str = learned(WORDS)  # how a text without words is cut

    def blocks(
        self, path: str | Path, search: Search, say: Say, size: BlockSize | None = None
    ) -> Iterator[Table]:  # fmt: skip
        return open_words(path, search, say, self.classes, size)

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        rows, columns = word_rows(table, search, say, labelled=labelled, units=self.units)
        return [*(in_scheme(rows, table.path, say) if labelled else rows)], columns

    def input_row(self, given: Any, number: int, model: Path) -> WordRow:
        return given_row(given, number, self.units)

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        sentences = [cast(WordRow, row) for row in rows]
        return [
            Example(
                row=row,
                inputs=made.inputs,
                label=None if row.label is None else self.targets(row),
                words=made.words,
                windows=len(made.inputs),
            )
            for row, made in zip(sentences, framed(sentences, tokenizer, length), strict=True)
        ]

    def targets(self, row: WordRow) -> np.ndarray:
        """(W,) the numbers of the tags."""
        numbers = {tag: number for number, tag in enumerate(self.classes)}
        return np.array([numbers.get(tag, IGNORE) for tag in row.label], dtype=np.int64)

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples, W), IGNORE after the last word."""
        found = [cast(np.ndarray, example.label) for example in examples]
        padded = np.full((len(found), max(map(len, found))), IGNORE, dtype=np.int64)
        for row, own in zip(padded, found, strict=True):
            row[: len(own)] = own
        return torch.from_numpy(padded)

    def head(self, architecture: Architecture, dropout: float = 0.1) -> TaskHead:
        return self.tag_head(architecture, dropout)

    def tag_head(self, architecture: Architecture, dropout: float) -> TagHead:
        settings: dict[str, Any] = {
            "width": architecture.width,
            "tags": len(self.classes),
            "dropout": dropout,
            "initialiser": architecture.initialiser,
        }
        return CrfHead(may_follow=self.may_follow, **settings) if self.crf else TagHead(**settings)

    def may_follow(self, before: int | None, tag: int | None) -> bool:
        """Whether a tag is possible after another; None is the edge of the text."""
        first, second = (OUTSIDE if number is None else self.classes[number] for number in (before, tag))
        return may_follow(first, second, self.scheme)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        return [
            TagPrediction(**self.decided(row, cast(WordRow, example.row)))
            for row, example in zip(answers, examples, strict=True)
        ]

    def decided(self, answers: Tensor, row: WordRow) -> dict[str, Any]:
        """What the answers (W, ...) for the words of a text predict."""
        count = len(self.classes)
        some = answers[: len(row.spans)]
        shares = some[:, :count] if self.crf else some[:, :count].softmax(1)
        best = some[:, count].long() if self.crf else shares.argmax(1)
        tags = [self.classes[number] for number in best.tolist()]
        return prediction_of(row, tags, shares.gather(1, best[:, None]).squeeze(1).tolist(), self.scheme)

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        scores = tag_scores([found.label for found in predictions], [row.label for row in rows], self.scheme)
        return {**scores, "rows": len(rows)}

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        """By sentence; a mistake is a sentence with wrong spans, or wrong tags where these mark none."""
        scores = Tag.score(self, predictions, rows)
        per_class, means = table_of(scores["types"])
        found = [cast(TagPrediction, one) for one in predictions]
        confidence = np.array([probability for one in found for probability in one.tag_probabilities])
        right = [
            tag == true
            for one, row in zip(found, rows, strict=True)
            for tag, true in zip(one.tags, row.label, strict=True)
        ]
        return Report(
            scores=scores,
            intervals=tag_intervals([found.label for found in predictions], [row.label for row in rows], self.scheme),
            per_class=per_class,
            means=means,
            calibration=Calibration(scaled=reliability(confidence, np.array(right))) if right else None,  # of words
            mistakes=Mistakes.of(wrong_sentences(predictions, rows, self.scheme), "wrong"),
        )

    @property
    def measure(self) -> str:
        return "accuracy" if self.scheme == PLAIN else self.best

    def render(self, prediction: Prediction) -> dict[str, Any]:
        return rendered(prediction, self.scheme)

    def nothing(self) -> Prediction:
        return TagPrediction(label=None)

    def written(self, rows: Sequence[Row], predictions: Sequence[Prediction], ending: str) -> str:
        return conll([cast(WordRow, row) for row in rows], predictions)

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        self.check_pooling()
        sentences = [cast(WordRow, row) for row in rows]
        tags = {tag for row in sentences for tag in row.label}
        if len(tags) < 2:
            raise InputError(
                tr(
                    "Training needs at least two different tags; all words of {path} have the tag '{tag}'.",
                    path=path,
                    tag=next(iter(tags), ""),
                )
            )
        scheme = scheme_of([row.label for row in sentences])
        given = [row.words for row in sentences if row.given]
        units = units_of(given) if given else MARKS
        return replace(self, scheme=scheme, units=units, classes=classes_of(tags, scheme))

    def check_pooling(self) -> None:
        if self.pooling != "first":
            raise SettingError(
                tr(
                    "task.pooling={pooling} has no effect on --task {kind}, which predicts at each word. Leave it out.",
                    pooling=self.pooling,
                    kind=self.kind,
                )
            )

    @classmethod
    def of_classes(cls, classes: Sequence[str], **settings: Any) -> Self:
        """The task of a model whose training rows are unknown."""
        scheme = scheme_in(classes)
        names = classes if scheme == PLAIN else [canonical([tag])[0] for tag in classes]
        return cls(classes=tuple(names), scheme=scheme, **settings)

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        check_tags(rows, self.classes, path, say)

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        predict = self.usual(train)
        scores = self.score([predict(cast(WordRow, row)) for row in rows], rows)
        return Baseline(answer=self.usual_answer, measure=self.measure, score=scores[self.measure])

    @property
    def usual_answer(self) -> str:
        return message("the most frequent tag of each word")

    def usual(self, train: Sequence[Row]) -> Callable[[WordRow], Prediction]:
        """Predicts the most frequent tag of each word in training, and for a new word that of all words."""
        tags, other = usual_tags(train)
        return lambda row: Prediction(label=tuple(tags.get(word, other) for word in row.words))

    def describe(self, rows: Sequence[Row]) -> str:
        tags = [row.label for row in rows]
        words = sum(map(len, tags))
        if self.scheme == PLAIN:
            counted = Counter(tag for one in tags for tag in one)
            return tr("{words:,} words with plain tags: {named}", words=words, named=named(counted))
        counted = Counter(span.label for one in tags for span in spans_of(one))
        return tr("{words:,} words with {scheme} tags: {named}", words=words, scheme=self.scheme, named=named(counted))

    @property
    def answers(self) -> str:
        if self.scheme == PLAIN:
            return tr("a tag for every word")
        types = dict.fromkeys(type_of(tag) for tag in self.classes if tag != OUTSIDE)
        return tr("spans of {types}", types=comma().join(types))

    @property
    def refusal(self) -> str | None:
        return tr("transformers has no CRF; fine-tune without task.crf to export") if self.crf else None


def usual_tags(rows: Sequence[Row]) -> tuple[dict[str, str], str]:
    """The most frequent tag of each word, and of all words."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for word, tag in zip(cast(WordRow, row).words, row.label, strict=True):
            counts.setdefault(word, Counter())[tag] += 1
    total = Counter(tag for row in rows for tag in row.label)
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}, total.most_common(1)[0][0]


def named(counts: Counter[str]) -> str:
    """`LOC: 120, PER: 80 and 3 more`."""
    shown = comma().join(tr("{name}: {count:,}", name=name, count=count) for name, count in counts.most_common(LISTED))
    more = len(counts) - LISTED
    return shown + (tr(" and {count} more", count=more) if more > 0 else "")
