"""What `plm evaluate` prints of a report."""

from pathlib import Path

import numpy as np

from plmkit.cli.show_report import WIDTH, both_ends, report
from plmkit.tasks.report.calibration import Calibration, reliability
from plmkit.tasks.report.report import ClassScore, Confused, Mistake, Mistakes, Report


def test_a_long_text_shows_its_beginning_and_its_end(capsys):
    text = "once upon a time " + "and then " * 40 + "who came to the sea?"
    wrong = Mistake(line=3, text=text, label="a dog", prediction="a cat", size=0.5)
    report(Report(scores={"accuracy": 0.5}, mistakes=Mistakes.of([wrong])), Path("quiz.jsonl"))
    shown = capsys.readouterr().out.splitlines()[-1].strip()
    assert shown.startswith("once upon a time and") and shown.endswith("and then who came to the sea?") and "…" in shown


def test_a_text_is_cut_by_the_cells_it_takes_and_a_short_one_is_not_cut():
    assert both_ends("一" * 50, WIDTH) == "一" * 50
    assert both_ends("一" * 60 + "二" * 60, WIDTH) == "一" * 24 + "… " + "二" * 24
    assert both_ends("a\n b", WIDTH) == "a b"


def test_confusions_are_listed_where_there_is_no_matrix(capsys):
    report(Report(scores={}, confused=(Confused(label="Stop", prediction="Play", rows=2, share=0.5),)), Path("a.jsonl"))
    assert ["Stop", "Play", "2", "50.0%"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_slots_and_intents_have_tables_of_their_own_and_the_calibration_is_of_the_intent(capsys):
    slot, intent = (ClassScore(name=name, precision=0.5, recall=0.25, f1=1 / 3, support=7) for name in ("City", "Play"))
    calibration = Calibration(scaled=reliability(np.array([0.9]), np.array([1.0])))
    report(Report(scores={}, per_class=(slot,), per_intent=(intent,), calibration=calibration), Path("a.jsonl"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    of_slots, of_intents = lines.index(["By", "slot"]), lines.index(["By", "intent"])
    row = ["0.500", "0.250", "0.333", "7"]
    assert (lines[of_slots + 2], lines[of_intents + 2]) == (["City", *row], ["Play", *row])
    assert " ".join(lines[-1]).startswith("Calibration of the intent: expected calibration error 0.1000 (")
    report(Report(scores={}, per_class=(slot,), calibration=calibration), Path("a.jsonl"))
    shown = capsys.readouterr().out
    assert "By class" in shown and "\nCalibration: expected" in shown


def test_thresholds_are_one_line(capsys):
    report(Report(scores={}, thresholds={"a": 0.35, "b": 0.35}), Path("a.jsonl"))
    said = "Threshold of the probabilities, chosen for the best F1: "
    assert capsys.readouterr().out.splitlines()[-1] == said + "0.35."
    report(Report(scores={}, thresholds={"a": 0.35, "b": 0.5}), Path("a.jsonl"))
    assert capsys.readouterr().out.splitlines()[-1] == said + "a 0.35, b 0.5."
