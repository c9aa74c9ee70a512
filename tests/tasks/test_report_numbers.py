"""Intervals, calibration and temperature of a report, beside scikit-learn, scipy and sums by hand."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import average_precision_score, f1_score, matthews_corrcoef

from plmkit.tasks.report.bootstrap import mean_intervals
from plmkit.tasks.report.calibration import calibration, fitted_temperature, reliability
from plmkit.tasks.report.classes import counted, scores_of
from plmkit.tasks.report.numbers import average_precision, number_scores


@pytest.fixture
def drawn() -> np.ndarray:
    """How often each of 40 rows occurs in a resample."""
    return np.random.default_rng(0).multinomial(40, np.full(40, 1 / 40)).astype(float)


def test_scores_of_classes_in_a_resample_are_those_of_its_rows(drawn):
    random = np.random.default_rng(1)
    gold, found = random.integers(4, size=40), random.integers(3, size=40)
    made = scores_of(*(drawn[None] @ one for one in counted(gold, found, 4)))
    rows = np.repeat(np.arange(40), drawn.astype(int))
    assert made["accuracy"][0] == pytest.approx((gold[rows] == found[rows]).mean())
    assert made["macro_f1"][0] == pytest.approx(f1_score(gold[rows], found[rows], average="macro", zero_division=0))
    assert made["mcc"][0] == pytest.approx(matthews_corrcoef(gold[rows], found[rows]))


def test_scores_of_numbers_in_a_resample_are_those_of_its_rows(drawn):
    random = np.random.default_rng(2)
    gold, found = random.integers(5, size=40).astype(float), random.normal(size=40).round(1)
    made = number_scores(np.stack([found, gold], axis=1), drawn[None])
    rows = np.repeat(np.arange(40), drawn.astype(int))
    assert made["pearson"][0] == pytest.approx(pearsonr(found[rows], gold[rows])[0])
    assert made["spearman"][0] == pytest.approx(spearmanr(found[rows], gold[rows])[0])
    assert made["mse"][0] == pytest.approx(((found - gold)[rows] ** 2).mean())
    precision = average_precision(found, gold > 2, drawn[None])[0]
    assert precision == pytest.approx(average_precision_score(gold[rows] > 2, found[rows]))


def test_the_interval_of_a_share_is_that_of_its_binomial_distribution():
    found = mean_intervals({"accuracy": np.array([1.0] * 80 + [0.0] * 20)})["accuracy"]
    wide = 1.96 * np.sqrt(0.8 * 0.2 / 100)
    assert (found.low, found.high) == pytest.approx((0.8 - wide, 0.8 + wide), abs=0.015)


def test_the_calibration_error_by_hand():
    found = reliability(np.array([0.9, 0.9, 0.9, 0.9, 0.55]), np.array([True, True, True, False, True]))
    assert found.ece == pytest.approx((abs(3 - 3.6) + abs(1 - 0.55)) / 5)
    assert [(one.rows, one.right) for one in found.bins if one.rows] == [(1, 1), (4, 3)]


def test_the_temperature_makes_the_mean_probability_the_share_that_is_right():
    logits = np.log(np.tile([0.9, 0.1], (8000, 1)))
    gold = np.array([0, 0, 0, 1] * 2000)
    temperature = fitted_temperature(logits, gold)
    assert temperature == pytest.approx(2.0, abs=5e-3)  # 0.9 : 0.1 is 9, and 0.75 : 0.25 its root
    scaled = logits / temperature
    found = calibration(scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True), gold, temperature)
    assert (found.scaled.ece, found.unscaled.ece) == pytest.approx((0.0, 0.15), abs=1e-3)
    assert fitted_temperature(logits, np.zeros(8000, dtype=int)) == 1.0  # none is wrong


def likelihoods(rows: int, true: float) -> tuple[float, float]:
    """The mean negative log-likelihood of new rows, above that of their true temperature: with 1, and as it is fitted.

    A mean over 60 sets of rows.
    """
    random, found = np.random.default_rng(0), []

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        logits = 2 * random.standard_normal((count, 3))
        return true * logits, np.argmax(logits + random.gumbel(size=logits.shape), axis=1)

    def missed(logits: np.ndarray, gold: np.ndarray) -> float:
        return float(np.mean(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(gold)), gold]))

    for _ in range(60):
        temperature = fitted_temperature(*drawn(rows))
        logits, gold = drawn(2000)
        found.append([missed(logits / each, gold) - missed(logits / true, gold) for each in (1.0, temperature)])
    kept, fitted = np.mean(found, axis=0)
    return float(kept), float(fitted)


def test_a_temperature_fitted_on_few_rows_does_little_harm_and_on_many_it_is_the_true_one():
    """By likelihood alone, 10 rows would cost 0.10 where the probabilities are right as they are."""
    assert likelihoods(10, 1.0)[1] < 0.03
    assert likelihoods(20, 1.0)[1] < 0.02
    kept, fitted = likelihoods(20, 2.5)
    assert fitted < kept / 2
    assert likelihoods(1000, 2.5)[1] < 0.002
