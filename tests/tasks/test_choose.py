"""The temperature of a multiple-choice task."""

import pytest

from plmkit.tasks.contract import Prediction, Row
from plmkit.tasks.kinds.choose import Choose


def test_equal_choices_share_a_probability_and_the_label_is_counted_among_different_ones():
    rows = [
        Row(text="x", choices=("a", "a", "b"), label=label, line=number)
        for number, label in enumerate(("b", "b", "b", "a") * 2000, start=1)
    ]
    found = [Prediction(label="b", probability=0.9, probabilities={"a": 0.1, "b": 0.9}) for _ in rows]
    assert Choose().targets(rows[:4]).tolist() == [1, 1, 1, 0]
    assert Choose().tuned(found, rows).temperature == pytest.approx(2.0, abs=5e-3)  # 0.75 : 0.25 are 3, the root of 9
