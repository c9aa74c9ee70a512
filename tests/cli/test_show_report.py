"""What `plm evaluate` prints of a report."""

from pathlib import Path

from plmkit.cli.show_report import WIDTH, both_ends, report
from plmkit.tasks.report.report import Confused, Mistake, Mistakes, Report


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
