"""Scores of predictions against the labels of their rows, for every kind of task."""

import pytest

from plmkit.tasks.contract import Prediction, Row
from plmkit.tasks.registry import find_kind
from plmkit.tasks.scores import over_seeds


def scores_of(kind: str, said: list, wanted: list, classes: tuple[str, ...] = ()) -> dict:
    rows = [Row(text="t", label=label, line=number) for number, label in enumerate(wanted)]
    return find_kind(kind)(classes=classes).score([Prediction(label=label) for label in said], rows)


@pytest.mark.parametrize("kind", ["regress", "similarity"])
def test_numbers_are_compared_with_the_rows_own(kind):
    found = scores_of(kind, [1.0, 2.0, 6.0], [0.0, 2.0, 4.0])
    assert found == pytest.approx({"pearson": 0.944911, "spearman": 1.0, "mse": (1 + 0 + 4) / 3, "mae": 1.0}, abs=1e-6)


def test_class_scores_have_a_confusion_matrix():
    found = scores_of("classify", ["good", "bad", "bad", "bad"], ["good", "good", "bad", "bad"], ("bad", "good"))
    assert (found["accuracy"], found["rows"]) == (0.75, 4)
    assert found["confusion"] == [[2, 0], [1, 1]]
    assert found["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)


def test_choices_are_right_or_wrong():
    assert scores_of("choose", ["a", "b", "c"], ["a", "x", "c"]) == {"accuracy": 2 / 3, "rows": 3}


def test_scores_of_seeds_are_summarised_for_each_part():
    runs = [{"dev": {"accuracy": value, "rows": 4, "confusion": [[1]]}} for value in (0.5, 0.75)]
    assert over_seeds(runs) == {
        "dev": {"accuracy": {"mean": 0.625, "std": pytest.approx(0.176777, abs=1e-6), "min": 0.5, "max": 0.75}}
    }
