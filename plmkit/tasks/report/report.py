"""A report on predictions: scores with intervals, and what is behind them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self

from plmkit.tasks.report.bootstrap import LEVEL, RESAMPLES, Interval
from plmkit.tasks.report.calibration import Agreement, Calibration

KEPT = 500  # mistakes that a report keeps, the hardest first


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """How well one class is told from the others; as a mean, over all classes."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int  # rows, words or spans that are of this class


@dataclass(frozen=True, kw_only=True)
class Confused:
    """Rows of one class that were predicted as another."""

    label: str
    prediction: str
    rows: int
    share: float  # of the rows of the class


class Found(Protocol):
    """The row of a file, as `Row` has it."""

    @property
    def text(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def number(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A row with a wrong prediction."""

    line: int  # in the file, as `Row.line`
    id: str = ""  # as `Row.id`
    number: int | None = None  # as `Row.number`
    text: str
    other: str | None = None  # second text of a pair, or the text that a question is about
    label: str
    prediction: str
    size: float | None  # how bad it is, by the measure of the report

    @classmethod
    def of(cls, row: Found, *, label: str, prediction: str, size: float | None, other: str | None = None) -> Self:
        return cls(
            line=row.line, id=row.id, number=row.number, text=row.text, other=other, label=label,
            prediction=prediction, size=size,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Mistakes:
    """The hardest mistakes, and how many there are."""

    measure: str = "probability"  # what `size` is: the larger, the harder
    count: int = 0
    hardest: tuple[Mistake, ...] = ()

    @classmethod
    def of(cls, found: Sequence[Mistake], measure: str = "probability") -> "Mistakes":
        """The hardest first; of equal ones, the first in the file."""
        order = sorted(found, key=lambda one: -(one.size or 0.0))
        return cls(measure=measure, count=len(found), hardest=tuple(order[:KEPT]))


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a task reports on its predictions; a part that the kind has no use for is empty."""

    scores: dict[str, Any]  # as the task gives them
    intervals: dict[str, Interval] = field(default_factory=dict)  # of scores, by name
    per_class: tuple[ClassScore, ...] = ()
    means: tuple[ClassScore, ...] = ()  # over the classes
    per_intent: tuple[ClassScore, ...] = ()  # where rows have an intent beside their slots, which are the classes
    intent_means: tuple[ClassScore, ...] = ()
    thresholds: dict[str, float] = field(default_factory=dict)  # of probabilities, by class, chosen on dev
    confused: tuple[Confused, ...] = ()  # the most frequent first
    calibration: Calibration | None = None
    agreement: tuple[Agreement, ...] = ()  # of predicted numbers with the labels
    mistakes: Mistakes = Mistakes()

    def as_json(self) -> dict[str, Any]:
        """As `plm evaluate --json` prints it: the scores by name, then everything else."""
        rest = {name: value for name, value in asdict(self).items() if value and name != "scores"}
        return {**self.scores, **rest, "bootstrap": {"level": LEVEL, "resamples": RESAMPLES}}
