"""What a fine-tuning reports: its rows before, its epochs while it runs, the best one afterwards."""

import re
from dataclasses import replace

import numpy as np
import pytest

from plmkit.tasks.contract import Baseline, Example, Row
from plmkit.tasks.framing import Framed
from plmkit.tasks.registry import find_kind
from plmkit.tasks.remarks import lengths_report
from plmkit.terminal.screen import duration


def rows_of(*labels) -> list[Row]:
    return [Row(text="a", label=label, line=number) for number, label in enumerate(labels, start=2)]


def test_classes_are_reported_with_their_counts_and_shares_the_most_frequent_first():
    assert find_kind("classify")().describe(rows_of("bad", "good", "good", "good")) == (
        "2 classes: good: 3 (75.0%), bad: 1 (25.0%)"
    )


def test_of_many_classes_the_six_most_frequent_and_the_rarest_are_reported():
    labels = [name for name, count in zip("abcdefgh", (9, 8, 7, 6, 5, 4, 3, 2), strict=True) for _ in range(count)]
    assert find_kind("classify")().describe(rows_of(*labels)) == (
        "8 classes: a: 9 (20.5%), b: 8 (18.2%), c: 7 (15.9%), d: 6 (13.6%), e: 5 (11.4%), f: 4 (9.1%), 2 more, "
        "the rarest h: 2"
    )


def test_numbers_are_reported_by_range_and_mean_and_choices_by_their_number():
    assert find_kind("regress")().describe(rows_of(1.0, 2.5, -3.0)) == "numbers from -3 to 2.5, mean 0.1667"
    rows = [Row(text="a", label="x", line=1, choices=("x", "y")), Row(text="a", label="x", line=2, choices=("x",) * 4)]
    assert find_kind("choose")().describe(rows) == "2 to 4 choices each"
    assert find_kind("choose")().describe(rows[:1]) == "2 choices each"


def framed(length: int, cut: int = 0) -> Example:
    made = Framed(tokens=np.zeros(length, dtype=np.int64), second=length, cut=cut)
    return Example(row=Row(text="a", line=1), inputs=(made,))


def test_lengths_are_reported_before_truncation_with_the_number_of_truncated_rows():
    report = lengths_report([framed(number) for number in range(1, 101)], 128)
    assert report == "Tokens per row: median 50, 95th percentile 95, at most 100; none is truncated (limit: 128)."
    report = lengths_report([framed(10), framed(16, cut=984), framed(16)], 16)
    assert report == (
        "Tokens per row: median 16, 95th percentile 902, at most 1,000; 1 of 3 rows are longer than 16 tokens and "
        "are truncated (of a pair, the longer text first)."
    )


def test_a_baseline_does_not_read_the_text():
    train, dev = rows_of("b", "a", "b"), rows_of("a", "b", "a", "a")
    assert str(find_kind("classify")().baseline(train, dev)) == "the most frequent label, b: accuracy 0.250"
    numbers = find_kind("regress")().baseline(rows_of(1.0, 3.0), rows_of(2.0, 5.0))
    assert str(numbers) == "the mean label: mse 4.500"
    rows = [
        Row(text="a", label="x", line=1, choices=("x", "y")),
        Row(text="a", label="x", line=2, choices=tuple("xyzw")),
    ]
    assert str(find_kind("choose")().baseline(rows, rows)) == "a random choice: accuracy 0.375"


def test_a_baseline_is_kept_in_english_and_shown_in_the_language_of_the_reader(monkeypatch):
    monkeypatch.setenv("PLM_LANG", "zh")
    kept = find_kind("classify")().baseline(rows_of("b", "a", "b"), rows_of("a", "b"))
    assert vars(kept) == {"answer": "the most frequent label", "label": "b", "measure": "accuracy", "score": 0.5}
    assert kept.shown == "最常见的标签 b"
    assert Baseline(answer="the most frequent label, b", measure="accuracy", score=0.5).shown == (
        "the most frequent label, b"  # as older versions wrote it
    )
    for kind, shown in {"regress": "the mean label", "choose": "a random choice"}.items():
        rows = [Row(text="a", label=1.0, line=1, choices=("x", "y"))]
        baseline = find_kind(kind)().baseline(rows, rows)
        assert (baseline.answer, baseline.label) == (shown, None)
        assert baseline.shown != shown


@pytest.fixture(scope="module")
def output(pretrained, rows_file, tmp_path_factory):
    """What a fine-tuning of two seeds writes where there is no terminal."""
    import io

    from rich.console import Console

    from plmkit.config.machine import Machine
    from plmkit.tasks.finetune import FinetuneRequest, finetune
    from plmkit.tasks.settings import TaskSettings
    from plmkit.terminal.screen import Screen

    text = io.StringIO()
    request = FinetuneRequest(
        model=pretrained, task=find_kind("classify")(), train=rows_file, dev=rows_file, test=None, seed=3, seeds=2,
        out=tmp_path_factory.mktemp("report") / "out", settings=TaskSettings(epochs=2, batch=16),
        machine=Machine(threads=1),
    )  # fmt: skip
    record = finetune(request, Screen(Console(file=text, width=200)))
    return text.getvalue().splitlines(), record, request.out


def test_rows_are_reported_before_training(output):
    lines, *_ = output
    report = [line for line in lines if line.startswith("48 rows")]
    assert len(report) == 1
    assert re.fullmatch(
        r"48 rows, 2 classes: (good|bad): \d+ \(\d\d\.\d%\), (good|bad): \d+ \(\d\d\.\d%\)\.", report[0]
    )
    assert any(
        re.fullmatch(r"Tokens per row: median \d+, .* none is truncated \(limit: 64\)\.", line) for line in lines
    )


def test_each_epoch_reports_the_baseline_next_to_the_model(output):
    lines, record, _ = output
    share = record.result["baseline"]["dev"]["score"]
    beside = re.escape(f"(the most frequent label, {record.result['baseline']['dev']['label']}: accuracy {share:.3f})")
    pattern = rf"Seed (\d), epoch (\d) of 2: train loss \d\.\d{{3}}, dev accuracy (0\.\d{{3}}|1\.000) {beside}\."
    found = [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]
    assert [(seed, epoch) for seed, epoch, _ in found] == [("3", "1"), ("3", "2"), ("4", "1"), ("4", "2")]
    best = {seed: max(float(score) for number, _, score in found if number == seed) for seed in ("3", "4")}
    assert [round(run["dev"]["accuracy"], 3) for run in record.result["seeds"]] == list(best.values())


def test_plain_lines_carry_seed_epoch_step_and_time_left(output):
    lines, *_ = output
    pattern = r" *\d+% seed (\d), epoch ([\d.]+) of 2, step (\d) loss \d\.\d{3} [\d,]+ tokens/s, \d+:\d\d left"
    found = [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]
    epochs = ["0.333", "0.667", "1", "1.33", "1.67", "2"]
    assert found == [(seed, epoch, str(step)) for seed in "34" for step, epoch in enumerate(epochs, start=1)]


def test_the_best_epoch_and_the_time_are_reported_at_the_end(output, capsys):
    from plmkit.cli import show

    _, record, out = output
    show.finetuned(out, record)
    report = capsys.readouterr().out
    assert f"Best on dev: epoch {record.result['epoch']:g} of 2. " in report
    assert f"{duration(record.seconds)} in total." in report
    show.finetuned(out, replace(record, seconds=90.0))
    assert "1.5 minutes in total." in capsys.readouterr().out
    assert record.result["step"] == 3 * record.result["epoch"]
    assert re.search(r"dev accuracy of the most frequent label, (good|bad) +0\.\d{4}", report)
