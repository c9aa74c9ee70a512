"""Questions whose answer is a part of a text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.reading.columns import Columns, Say, Search
from plmkit.data.reading.whole import BlockSize, Table
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import InputError, SettingError
from plmkit.inference.arguments import kind_of
from plmkit.language import message, several, tr
from plmkit.tasks.answering.baseline import sentence_answer
from plmkit.tasks.answering.files import open_questions
from plmkit.tasks.answering.heads import ConditionalSpanHead, SpanHead
from plmkit.tasks.answering.rows import ROLES, Question, check_context, check_question, read_questions
from plmkit.tasks.answering.scores import Judged, best_threshold, is_chinese, judged_cmrc, judged_v1, judged_v2
from plmkit.tasks.answering.search import Answer, answer_of, decided, naive_answer
from plmkit.tasks.answering.windows import Windows, windows_of
from plmkit.tasks.contract import TOKEN, Baseline, Example, Prediction, Row, Task, learned
from plmkit.tasks.framing import place_in
from plmkit.tasks.heads import TaskHead
from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.calibration import Calibration, reliability
from plmkit.tasks.report.report import Mistake, Mistakes, Report
from plmkit.tokenizers.tokenizer import Tokenizer

LANGUAGES = {"english": False, "chinese": True}  # scored by SQuAD's script and by CMRC's


@dataclass(frozen=True, kw_only=True)
class QA(Task):
    """A question and a context; the answer is a part of the context, or there is none (Devlin et al., 2018, 4.2)."""

    kind: ClassVar[str] = "qa"
    best: ClassVar[str] = "f1"
    problem: ClassVar[str | None] = "span"
    levels: ClassVar[frozenset[str]] = frozenset({TOKEN})
    apart: ClassVar[bool] = True
    usual_length: ClassVar[int | None] = 384
    asks: ClassVar[bool] = True
    together: ClassVar[tuple[str, ...]] = ("other",)  # the text

    stride: int = 128  # tokens by which a window of a long context advances
    question_length: int = 64  # tokens of a question; the rest is cut off
    max_answer: int = 30  # tokens of an answer
    n_best: int = 20  # starts and ends that are combined, and answers that are kept
    conditional: bool | None = None  # the end depends on the start, as in XLNet and ELECTRA; none: the paper's head
    beams: int = 5  # with a conditional end: starts, and ends of each, that are combined
    naive: bool = False  # for comparison: best start and best end, each on its own; no answer if the end comes first
    threshold: float | None = learned(None)  # of the null score, above which there is no answer; None: there is one

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("stride", "question_length", "max_answer", "n_best", "beams"):
            if getattr(self, name) < 1:
                raise SettingError(
                    tr("task.{name} must be at least 1; found {value}.", name=name, value=getattr(self, name))
                )

    def blocks(
        self, path: str | Path, search: Search, say: Say, size: BlockSize | None = None
    ) -> Iterator[Table]:  # fmt: skip
        return open_questions(path, search, say, size)

    def read(self, table: Table, search: Search, say: Say, *, labelled: bool = True) -> tuple[list[Row], Columns]:
        return read_questions(table, search, say, labelled=labelled)

    def input_row(self, given: Any, number: int, model: Path) -> Question:
        """A dict with `question` and `context`, or a pair of them."""
        if isinstance(given, Mapping):
            question, context = (
                next((given[name] for name in ROLES[role] if name in given), None) for role in ("text_a", "text_b")
            )
        else:
            question, context = given if isinstance(given, tuple | list) and len(given) == 2 else (None, None)
        if not isinstance(question, str) or not isinstance(context, str):
            raise InputError(
                tr(
                    "{model} answers questions: row {number} must have `question` and `context`; found {kind}.",
                    model=model,
                    number=number,
                    kind=kind_of(given),
                )
            )
        check_question(question, tr("Row {number}", number=number))
        check_context(context, tr("Row {number}", number=number))
        return Question(text=question, other=context, line=number)

    def frame(self, rows: Sequence[Row], tokenizer: Tokenizer, length: int) -> list[Example]:
        questions = [row for row in rows if isinstance(row, Question)]
        assert len(questions) == len(rows), "rows that `read` or `input_row` made"
        return [*windows_of(questions, tokenizer, length, stride=self.stride, question_length=self.question_length)]

    def labels(self, examples: Sequence[Example], vocabulary: Vocabulary, width: int) -> Tensor:
        """(windows, 2) first and last token, each window on its own."""
        made = []
        for example in examples:
            shift = [place_in(width, len(window.tokens), vocabulary).start for window in example.inputs]
            made.append(np.asarray(example.label) + np.array(shift)[:, None])
        return torch.from_numpy(np.concatenate(made))

    def head(self, architecture: Architecture, dropout: float = 0.1) -> TaskHead:
        conditional = architecture.conditional_spans if self.conditional is None else self.conditional
        width, initialiser = architecture.width, architecture.initialiser
        if conditional:
            return ConditionalSpanHead(width=width, beams=self.beams, initialiser=initialiser)
        return SpanHead(width=width, n_best=self.n_best, initialiser=initialiser)

    def decide(self, answers: Tensor, examples: Sequence[Example]) -> list[Prediction]:
        found, start, made = answers.numpy(), 0, []
        for example in examples:
            assert isinstance(example, Windows)
            own = found[start : start + len(example.inputs)]
            start += len(example.inputs)
            made.append(
                naive_answer(own, example)
                if self.naive
                else answer_of(
                    own, example, n_best=self.n_best, max_answer=self.max_answer, threshold=self.threshold
                )
            )  # fmt: skip
        return [*made]

    def learn(self, rows: Sequence[Row], path: Path) -> Self:
        if self.pooling != "first":
            raise SettingError(
                tr("task.pooling is for answers about whole rows, and has no effect on --task qa. Leave it out.")
            )
        answerable = [isinstance(row, Question) and row.answerable for row in rows]
        if not any(answerable):
            raise InputError(tr("{path}: no question has an answer, so there is nothing to learn.", path=path))
        return replace(self, threshold=None if all(answerable) else 0.0)

    def tuned(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Self:
        """With the threshold that gives the best F1."""
        if self.threshold is None or self.naive or all(row.answerable for row in questions_of(rows)):
            return self
        return replace(self, threshold=best_of(predictions, questions_of(rows), "f1")[1])

    def revised(self, prediction: Prediction) -> Prediction:
        if not isinstance(prediction, Answer) or prediction.null_difference is None:
            return prediction
        return decided(prediction, self.threshold)

    def score(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> dict[str, Any]:
        """Exact match and F1: of all questions, with and without an answer, and by language if there are two."""
        questions = questions_of(rows)
        judged = judged_all(predictions, questions)
        scores: dict[str, Any] = {}
        for prefix, counted in parts_of(questions).items():
            scores |= means(prefix, [one for one, counts in zip(judged, counted, strict=True) if counts])
        if not all(row.answerable for row in questions):
            scores |= self.best_scores(predictions, questions)
        return {**scores, "rows": len(rows)}

    def report(self, predictions: Sequence[Prediction], rows: Sequence[Row]) -> Report:
        """By question; a mistake is an answer that no reference answer equals, the most confident first."""
        questions = questions_of(rows)
        judged = judged_all(predictions, questions)
        exact, f1 = (np.array([vars(one)[name] for one in judged]) for name in ("exact", "f1"))
        columns = {
            f"{prefix}{name}": np.where(counted, values, np.nan)
            for prefix, counted in parts_of(questions).items()
            for name, values in (("exact", exact), ("f1", f1))
        }
        confidence = [found.probability for found in predictions if found.probability is not None]
        whole = len(confidence) == len(rows)
        mistakes = [
            Mistake.of(
                row, other=row.other, label=" | ".join(dict.fromkeys(row.answers)),
                prediction=str(found.label or ""), size=found.probability,
            )
            for found, row, right in zip(predictions, questions, exact, strict=True)
            if not right
        ]  # fmt: skip
        return Report(
            scores=self.score(predictions, rows),
            intervals=mean_intervals(columns),
            calibration=Calibration(scaled=reliability(np.array(confidence), exact)) if whole else None,
            mistakes=Mistakes.of(mistakes),
        )

    def best_scores(self, predictions: Sequence[Prediction], questions: Sequence[Question]) -> dict[str, float]:
        """The threshold in use, and what the best threshold for these very questions would give."""
        if self.threshold is None or self.naive:
            return {}
        best = {f"best_{name}": best_of(predictions, questions, name)[0] / 100 for name in ("exact", "f1")}
        return {"threshold": self.threshold, **best}

    def render(self, prediction: Prediction) -> dict[str, Any]:
        found = prediction if isinstance(prediction, Answer) else Answer(label=None)
        return {
            "answer": found.label,
            "probability": rounded(found.probability),
            "start": found.start,
            "end": found.end,
            "null_probability": rounded(found.null_probability),
        }

    def baseline(self, train: Sequence[Row], rows: Sequence[Row]) -> Baseline:
        """The sentence with the most words of the question, or no answer at all, whichever is better."""
        questions = questions_of(rows)
        open_ended = not all(row.answerable for row in questions)
        sentences = [judge(sentence_answer(row), row, open_ended=open_ended) for row in questions]
        best = means("", sentences)["f1"]
        without = sum(not row.answerable for row in questions) / len(questions)
        if without > best:
            return Baseline(answer=message("no answer to any question"), measure="f1", score=without)
        return Baseline(answer=message("the sentence with the most words of the question"), measure="f1", score=best)

    def describe(self, rows: Sequence[Row]) -> str:
        questions = questions_of(rows)
        counts = Counter(row.answerable for row in questions)
        texts = several(len({row.other for row in questions}), "text")
        if not counts[False]:
            return tr("all with an answer in their text, of {texts}", texts=texts)
        return tr(
            "{answerable:,} with an answer in their text, {unanswerable:,} without, of {texts}",
            answerable=counts[True],
            unanswerable=counts[False],
            texts=texts,
        )

    @property
    def windows(self) -> bool:
        return True

    @property
    def answers(self) -> str:
        return tr("a part of the text")


def questions_of(rows: Sequence[Row]) -> list[Question]:
    return [row for row in rows if isinstance(row, Question)]


def parts_of(questions: Sequence[Question]) -> dict[str, np.ndarray]:
    """The questions that are scored by themselves, by the prefix of their scores: all, and parts that differ."""
    answerable = np.array([row.answerable for row in questions])
    chinese = np.array([is_chinese(row.text) for row in questions])
    parts = {"": np.ones(len(questions), dtype=bool)}
    if not answerable.all():
        parts |= {"answerable_": answerable, "unanswerable_": ~answerable}
    if chinese.any() and not chinese.all():
        parts |= {f"{name}_": chinese == wanted for name, wanted in LANGUAGES.items()}
    return {prefix: counted for prefix, counted in parts.items() if counted.any()}


def judged_all(predictions: Sequence[Prediction], questions: Sequence[Question]) -> list[Judged]:
    open_ended = not all(row.answerable for row in questions)
    return [
        judge(str(found.label or ""), row, open_ended=open_ended)
        for found, row in zip(predictions, questions, strict=True)
    ]


def best_of(predictions: Sequence[Prediction], questions: Sequence[Question], measure: str) -> tuple[float, float]:
    """The best score of any threshold, in percent, and the threshold."""
    found = [prediction if isinstance(prediction, Answer) else Answer(label="") for prediction in predictions]
    texts = [answer.n_best[0].text if answer.n_best else "" for answer in found]
    judged = [judge(text, row, open_ended=True) for text, row in zip(texts, questions, strict=True)]
    differences = [answer.null_difference or 0.0 for answer in found]
    return best_threshold(judged, differences, [bool(text) for text in texts], measure)


def judge(answer: str, row: Question, *, open_ended: bool) -> Judged:
    """By the official script of the question's language; `open_ended`: some questions have no answer."""
    if is_chinese(row.text):
        return judged_cmrc(answer, row.answers)
    return judged_v2(answer, row.answers) if open_ended else judged_v1(answer, row.answers)


def means(prefix: str, judged: Sequence[Judged]) -> dict[str, float]:
    if not judged:
        return {}
    return {
        f"{prefix}exact": sum(one.exact for one in judged) / len(judged),
        f"{prefix}f1": sum(one.f1 for one in judged) / len(judged),
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
