"""Utterances to an assistant: what is wanted, and with what."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.cells import listed, short, where
from plmkit.data.reading.columns import Columns, Say, Search, ignore
from plmkit.data.reading.whole import Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, nearest
from plmkit.language import message, several, tr
from plmkit.tasks.contract import SEQUENCE, TOKEN, Example, Prediction, Row, learned
from plmkit.tasks.heads import ClassHead, TaskHead
from plmkit.tasks.kinds.tag import Tag
from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.calibration import Calibration, reliability
from plmkit.tasks.report.classes import class_table, confusions
from plmkit.tasks.report.report import Mistake, Mistakes, Report
from plmkit.tasks.scores import confusion
from plmkit.tasks.tagging.checking import in_scheme
from plmkit.tasks.tagging.heads import SlotsHead
from plmkit.tasks.tagging.mistakes import wrong_sentences
from plmkit.tasks.tagging.predictions import DIGITS, SlotsPrediction, rendered
from plmkit.tasks.tagging.rows import WordRow, word_rows

INTENTS = ("intent", "intents", "意图")  # columns


@dataclass(frozen=True, kw_only=True)
class Slots(Tag):
    """The intent of an utterance and a tag for each of its words, trained together (Chen et al., 2019)."""

    kind: ClassVar[str] = "slots"
    reads: ClassVar[frozenset[str]] = frozenset({"hidden", "pooled"})
    best: ClassVar[str] = "exact_match"
    problem: ClassVar[str | None] = None
    levels: ClassVar[frozenset[str]] = frozenset({SEQUENCE, TOKEN})

    intents: tuple[str, ...] = learned(())

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        rows, columns = word_rows(table, search, say, labelled=labelled, units=self.units, intents=INTENTS)
        rows = in_scheme(rows, table.path, say) if labelled else rows
        return [replace(row, label=row.label if row.intent else None) for row in rows], columns

    def head(self, architecture: Architecture, dropout: float = 0.1) -> TaskHead:
        intent = ClassHead(
            width=architecture.width, outputs=len(self.intents), pooling=self.pooling, dropout=dropout,
            length=self.length, bias=architecture.head_bias, initialiser=architecture.initialiser,
        )  # fmt: skip
        return SlotsHead(intent, self.tag_head(architecture, dropout))

    def strata(self, rows: Sequence[Row]) -> list[str]:
        return [intent_of(row) for row in rows]

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(examples, 1 + W): the intent, then the tags."""
        intents = [self.intents.index(intent_of(example.row)) for example in examples]
        return torch.cat([torch.tensor(intents)[:, None], super().labels(examples, vocabulary, width)], dim=1)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        found: list[Prediction] = []
        for made, example in zip(answers, examples, strict=True):
            shares = dict(zip(self.intents, made[0, : len(self.intents)].softmax(0).tolist(), strict=True))
            intent = max(shares, key=shares.__getitem__)
            found.append(
                SlotsPrediction(
                    **self.decided(made[1:], cast(WordRow, example.row)),
                    intent=intent,
                    probability=shares[intent],
                    probabilities=shares,
                )
            )
        return found

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """Intents, slots, and the share of utterances whose intent and tags are all right."""
        scores = super().score(predictions, rows)
        whole = {name: float(values.mean()) for name, values in judged(predictions, rows).items()}
        slots = {f"slot_{name}": value for name, value in scores.items() if isinstance(value, float)}
        others = {name: value for name, value in scores.items() if not isinstance(value, float)}
        return {"intent_accuracy": whole["intent_accuracy"], **slots, "exact_match": whole["exact_match"], **others}

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        """By utterance; a mistake is one whose intent or slots are wrong."""
        of_slots, right = super().report(predictions, rows), judged(predictions, rows)
        slots = {f"slot_{name}": interval for name, interval in of_slots.intervals.items()}
        confidence = np.array([found.probability for found in predictions])
        per_intent, intent_means = class_table(*self.numbered_intents(predictions, rows), self.intents)
        return replace(
            of_slots,
            scores=self.score(predictions, rows),
            intervals=mean_intervals(right) | slots,
            per_intent=per_intent,
            intent_means=intent_means,
            confused=confusions(confusion(*self.numbered_intents(predictions, rows), self.intents), self.intents),
            calibration=Calibration(scaled=reliability(confidence, right["intent_accuracy"])),
            mistakes=Mistakes.of(wrong_utterances(predictions, rows, self.scheme), "wrong"),
        )

    def numbered_intents(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> tuple[list[int], list[int]]:
        """The predicted and the true ones."""
        found = [self.intents.index(cast(SlotsPrediction, one).intent or "") for one in predictions]
        return found, [self.intents.index(intent_of(row)) for row in rows]

    @property
    def measure(self) -> str:
        return self.best

    def render(self, prediction: Prediction) -> dict[str, Any]:
        found = prediction if isinstance(prediction, SlotsPrediction) else SlotsPrediction(label=None)
        probability = None if found.probability is None else round(found.probability, DIGITS)
        intent = {"predicted_intent": found.intent, "intent_probability": probability}
        return intent | rendered(prediction, self.scheme)

    def nothing(self) -> Prediction:
        return SlotsPrediction(label=None)

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        intents = sorted({intent_of(row) for row in rows})
        if len(intents) < 2:
            raise InputError(
                tr(
                    "Training needs at least two intents; all {rows} of {path} have '{intent}'. For tags alone, use "
                    "--task tag.",
                    rows=several(len(rows), "row"),
                    path=path,
                    intent=short(intents[0]),
                )
            )
        return replace(super().learn(rows, path), intents=tuple(intents))

    def check_pooling(self) -> None:
        """The intent is pooled."""

    def check(self, rows: Sequence[Row], path: Path, say: Say = ignore) -> None:
        super().check(rows, path, say)
        for row in rows:
            if intent_of(row) not in self.intents:
                raise InputError(
                    tr(
                        "{place}: intent '{intent}' does not occur in training.{hint}\nKnown intents: {known}.",
                        place=where(path, row.line),
                        intent=short(intent_of(row)),
                        hint=nearest(intent_of(row), self.intents),
                        known=listed(self.intents),
                    )
                )

    @property
    def usual_answer(self) -> str:
        return message("the most frequent intent, and the most frequent tag of each word")

    def usual(self, train: Sequence[Row]) -> Callable[[WordRow], Prediction]:
        """Predicts the most frequent intent too."""
        predict, intents = super().usual(train), Counter(map(intent_of, train))
        intent = intents.most_common(1)[0][0]
        return lambda row: SlotsPrediction(label=predict(row).label, intent=intent)

    def describe(self, rows: Sequence[Row]) -> str:
        return tr("{intents:,} intents, {tags}", intents=len(self.intents), tags=super().describe(rows))

    @property
    def answers(self) -> str:
        return tr("an intent ({intents}) and {tags}", intents=listed(self.intents), tags=super().answers)


def judged(predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Whether each intent is right, and whether intent and tags are all right."""
    intents = [cast(SlotsPrediction, one).intent == intent_of(row) for one, row in zip(predictions, rows, strict=True)]
    tags = [one.label == row.label for one, row in zip(predictions, rows, strict=True)]
    return {"intent_accuracy": np.array(intents), "exact_match": np.array(intents) & np.array(tags)}


def wrong_utterances(predictions: Sequence[Prediction], rows: Sequence[Row], scheme: str) -> list[Mistake]:
    """A wrong intent counts as one more mistake than the slots have."""
    found = []
    for prediction, row in zip(predictions, rows, strict=True):
        said, true = cast(SlotsPrediction, prediction).intent or "", intent_of(row)
        own = next(iter(wrong_sentences([prediction], [row], scheme)), None)
        if own or said != true:
            label, predicted = (" · ".join(filter(None, pair)) for pair in
                                ((true, own.label if own else ""), (said, own.prediction if own else "")))  # fmt: skip
            size = (own.size or 0.0 if own else 0.0) + (said != true)
            found.append(Mistake.of(row, label=label, prediction=predicted, size=size))
    return found


def intent_of(row: Row) -> str:
    return cast(WordRow, row).intent or ""
