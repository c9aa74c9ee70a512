import math

import pytest

from plmkit.tasks.scores import class_scores, confusion, mean_and_std, number_scores

AB = ("a", "b")
ABC = ("a", "b", "c")


def test_binary_scores_by_hand():
    # gold b: 3 of 4 found; gold a: 1 of 2 found; so TP 3, TN 1, FP 1, FN 1
    scores = class_scores([1, 1, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0], AB)
    assert scores == {
        "accuracy": pytest.approx(4 / 6),
        "macro_f1": pytest.approx((0.75 + 0.5) / 2),  # b: 6 / 8, a: 2 / 4
        "mcc": pytest.approx((3 * 1 - 1 * 1) / math.sqrt(4 * 4 * 2 * 2)),
    }


def test_three_classes_by_hand():
    # F1 = 2 TP / (2 TP + FP + FN); a: 2 / 3, b: 4 / 5, c: 1
    # Matthews (Gorodkin, 2004): correct 4 of 5, called (1, 3, 1), gold (2, 2, 1)
    scores = class_scores([0, 1, 1, 1, 2], [0, 0, 1, 1, 2], ABC)
    assert scores == {
        "accuracy": 0.8,
        "macro_f1": pytest.approx((2 / 3 + 4 / 5 + 1) / 3),
        "mcc": pytest.approx((4 * 5 - (2 + 6 + 1)) / math.sqrt((25 - 11) * (25 - 9))),
    }


def test_macro_f1_counts_only_classes_that_occur():
    assert class_scores([0, 1], [0, 1], ABC)["macro_f1"] == 1.0
    assert class_scores([0, 2], [0, 1], ABC)["macro_f1"] == pytest.approx(1 / 3)


def test_perfect_and_opposite_predictions():
    assert class_scores([0, 1], [0, 1], AB) == {"accuracy": 1.0, "macro_f1": 1.0, "mcc": 1.0}
    assert class_scores([1, 0], [0, 1], AB) == {"accuracy": 0.0, "macro_f1": 0.0, "mcc": -1.0}


def test_a_constant_class_has_no_correlation_and_no_warning():
    assert class_scores([0, 0, 0, 0], [0, 1, 0, 1], AB) == {
        "accuracy": 0.5,
        "macro_f1": pytest.approx(1 / 3),  # a: 4 / 6, b: 0
        "mcc": 0.0,
    }
    assert class_scores([1, 1], [1, 1], AB) == {"accuracy": 1.0, "macro_f1": 1.0, "mcc": 0.0}


def test_confusion_has_a_row_for_each_gold_class():
    assert confusion([0, 1, 1, 1], [0, 0, 1, 1], ABC) == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]


def test_number_scores_by_hand():
    # deviations (-1, 0, 1) and (-2, -1, 3): covariance 5, variances 2 and 14; the order is the same
    assert number_scores([1, 2, 3], [1, 2, 6]) == {
        "pearson": pytest.approx(5 / math.sqrt(28)),
        "spearman": pytest.approx(1.0),
        "mse": 3.0,
        "mae": 1.0,
    }


def test_ties_share_a_rank():
    # ranks (1.5, 1.5, 3) and (1, 2, 3): covariance 1.5, variances 1.5 and 2
    assert number_scores([1, 1, 3], [1, 2, 3])["spearman"] == pytest.approx(1.5 / math.sqrt(3))


@pytest.mark.parametrize("predicted", [[0.1, 0.1, 0.1], [0.0, 0.0, 0.0], [0.3, 0.1 + 0.2, 0.3]])
def test_constant_predictions_have_no_correlation_and_no_warning(predicted):
    scores = number_scores(predicted, [1.0, 2.0, 3.0])
    assert (scores["pearson"], scores["spearman"]) == (0.0, 0.0)


def test_constant_gold_and_a_single_row_have_no_correlation():
    assert number_scores([1.0, 2.0], [3.0, 3.0]) == {"pearson": 0.0, "spearman": 0.0, "mse": 2.5, "mae": 1.5}
    assert number_scores([1.0], [3.0]) == {"pearson": 0.0, "spearman": 0.0, "mse": 4.0, "mae": 2.0}


def test_mean_and_standard_deviation_are_per_score_over_seeds():
    assert mean_and_std(
        [{"accuracy": 0.5, "mcc": 0.0}, {"accuracy": 0.75, "mcc": 0.0}, {"accuracy": 1.0, "mcc": 0.0}]
    ) == {
        "accuracy": {"mean": 0.75, "std": 0.25, "min": 0.5, "max": 1.0},
        "mcc": {"mean": 0.0, "std": 0.0, "min": 0.0, "max": 0.0},
    }


def test_one_seed_has_standard_deviation_0():
    assert mean_and_std([{"mse": 2.0}]) == {"mse": {"mean": 2.0, "std": 0.0, "min": 2.0, "max": 2.0}}


def test_scores_of_nothing_or_of_unequal_lengths_are_a_bug():
    for wrong in (lambda: class_scores([], [], AB), lambda: class_scores([0], [0, 1], AB)):
        with pytest.raises(AssertionError, match="one prediction for each"):
            wrong()
    for wrong in (lambda: confusion([2], [0], AB), lambda: confusion([-1], [0], AB)):
        with pytest.raises(AssertionError, match="indices of the classes"):
            wrong()
    with pytest.raises(AssertionError, match="one prediction for each"):
        number_scores([], [])
    with pytest.raises(AssertionError, match="the same scores"):
        mean_and_std([{"a": 1.0}, {"b": 1.0}])
