"""The report on tasks with several labels per row, or an intent and tags."""

import pytest

from plmkit.tasks.contract import Prediction, Row
from plmkit.tasks.kinds.multilabel import MultiLabel
from plmkit.tasks.kinds.slots import Slots
from plmkit.tasks.tagging.predictions import SlotsPrediction
from plmkit.tasks.tagging.rows import WordRow


def test_every_class_has_its_scores_and_the_surest_mistake_comes_first():
    task = MultiLabel(classes=("a", "b"), chosen=(0.5, 0.5))
    given = [(("a",), 0.9, 0.1), (("a", "b"), 0.8, 0.3), ((), 0.95, 0.2)]  # labels, probabilities of a and b
    rows = [Row(text=f"text {number}", label=labels, line=number) for number, (labels, *_) in enumerate(given)]
    predictions = [
        task.revised(Prediction(label=(), probabilities={"a": first, "b": second})) for _, first, second in given
    ]
    report = task.report(predictions, rows)
    assert report.scores["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert [(one.name, one.precision, one.recall, one.support) for one in report.per_class] == [
        ("a", pytest.approx(2 / 3), 1.0, 2),
        ("b", 0.0, 0.0, 1),
    ]
    assert [(one.line, one.label, one.prediction, one.size) for one in report.mistakes.hardest] == [
        (2, "", "a", 0.95),
        (1, "a, b", "a", pytest.approx(0.7)),
    ]
    for name in ("micro_f1", "macro_f1", "exact_match"):
        assert report.intervals[name].low <= report.scores[name] <= report.intervals[name].high


def test_a_report_on_slots_says_which_intents_were_confused():
    task = Slots(classes=("O",), intents=("play", "stop"), scheme="plain")
    rows = [
        WordRow(text="now", spans=((0, 3),), label=("O",), intent=intent, line=number)
        for number, intent in enumerate(("play", "play", "play", "stop"), start=1)
    ]
    predictions = [
        SlotsPrediction(
            label=("O",), words=("now",), tags=("O",), tag_probabilities=(0.9,), intent=intent, probability=0.9
        )
        for intent in ("play", "stop", "stop", "stop")
    ]
    report = task.report(predictions, rows)
    assert [(one.name, one.precision, one.recall, one.support) for one in report.per_intent] == [
        ("play", 1.0, pytest.approx(1 / 3), 3),
        ("stop", pytest.approx(1 / 3), 1.0, 1),
    ]
    assert [one.f1 for one in report.per_intent] == pytest.approx([0.5, 0.5])
    assert [(one.name, one.recall, one.support) for one in report.intent_means] == [
        ("macro", pytest.approx(2 / 3), 4),
        ("weighted", pytest.approx(0.5), 4),
    ]
    assert [one.name for one in report.per_class] == ["O"]  # the slots
    (found,) = report.confused
    assert (found.label, found.prediction, found.rows, found.share) == ("play", "stop", 2, pytest.approx(2 / 3))
