"""How far probabilities can be trusted, and the temperature that makes them more trustworthy (Guo et al., 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

BINS = 15
BOUNDS = 0.1, 10.0  # of the temperature
CERTAINTY = 4.0  # precision of its logarithm before dev is seen, around 0: few rows leave a temperature near 1
LEAST = np.log(np.finfo(np.float32).tiny)  # of the logarithm of a probability that was rounded to 0
GROUPS = 10  # of predicted numbers


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Rows whose answers have similar probabilities."""

    low: float
    high: float
    rows: int
    right: int
    confidence: float  # mean probability of the answers

    @property
    def accuracy(self) -> float:
        return self.right / self.rows if self.rows else 0.0


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """The probabilities of the answers against how often they are right."""

    ece: float  # expected calibration error
    bins: tuple[Bin, ...]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The reliability of probabilities as `plm predict` gives them, and of those before temperature scaling."""

    bins: int = BINS
    temperature: float | None = None  # None: the kind has none
    scaled: Reliability
    unscaled: Reliability | None = None  # None if it is the same


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Rows with similar predicted numbers, a tenth of all: their mean prediction and mean label."""

    rows: int
    low: float  # predictions
    high: float
    prediction: float
    label: float


def reliability(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """The expected calibration error in bins of equal width, of which each has its upper edge (Naeini, 2015)."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    places = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, BINS - 1)
    rows = np.bincount(places, minlength=BINS)
    correct = np.bincount(places, weights=right, minlength=BINS)
    trusted = np.bincount(places, weights=confidence, minlength=BINS)
    bins = tuple(
        Bin(
            low=float(edges[number]), high=float(edges[number + 1]), rows=int(rows[number]),
            right=int(correct[number]), confidence=float(trusted[number] / max(1, rows[number])),
        )
        for number in range(BINS)
    )  # fmt: skip
    return Reliability(ece=float(np.abs(correct - trusted).sum() / len(confidence)), bins=bins)


def calibration(logs: np.ndarray, gold: np.ndarray, temperature: float) -> Calibration:
    """Of log-probabilities, (rows, answers), that were made with a temperature."""
    scaled = reliability_of(logs, gold)
    unscaled = None if temperature == 1 else reliability_of(logs * temperature, gold)
    return Calibration(temperature=temperature, scaled=scaled, unscaled=unscaled)


def reliability_of(logits: np.ndarray, gold: np.ndarray) -> Reliability:
    best = logits.argmax(1)
    confidence = np.exp(logits.max(1) - logsumexp(logits, axis=1))
    return reliability(confidence, best == gold)


def fitted_temperature(logits: np.ndarray, gold: np.ndarray) -> float:
    """The likeliest temperature, near 1 for few rows; 1 where no answer is wrong, which would want 0."""
    from scipy.optimize import minimize_scalar

    if (logits.argmax(1) == gold).all():
        return 1.0

    def loss(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        missed = float(np.sum(logsumexp(scaled, axis=1) - scaled[np.arange(len(gold)), gold]))
        return missed + CERTAINTY / 2 * log_temperature**2

    found = minimize_scalar(loss, bounds=tuple(np.log(BOUNDS)), method="bounded", options={"xatol": 1e-4})
    return round(float(np.exp(found.x)), 4)


def log_probabilities(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """(rows, most answers) logits but for a constant; -inf where a row has fewer answers than others."""
    found = np.full((len(rows), max(map(len, rows))), -np.inf)
    for own, row in zip(found, rows, strict=True):
        with np.errstate(divide="ignore"):
            own[: len(row)] = np.maximum(np.log(row), LEAST)
    return found


def agreement(predicted: np.ndarray, gold: np.ndarray) -> tuple[Agreement, ...]:
    """The rows in tenths by their prediction."""
    order = np.argsort(predicted, kind="stable")
    return tuple(
        Agreement(
            rows=len(some), low=float(predicted[some].min()), high=float(predicted[some].max()),
            prediction=float(predicted[some].mean()), label=float(gold[some].mean()),
        )
        for some in np.array_split(order, min(GROUPS, len(order)))
    )  # fmt: skip
