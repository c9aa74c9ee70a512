"""The benchmark of ERNIE 2: eight rows, with all tasks and without each; resumable from its figures alone."""

import json
import random
import sys
from pathlib import Path

import pytest

from benchmarks import ernie2

SEVEN = ("knowledge", "capitals", "document", "order", "distance", "discourse", "relevance")


def keep_figures(folder: Path, names: tuple[str, ...], left_out: str = "") -> None:
    """What runs of every name came to, with an accuracy that tells the name."""
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        trained = {task: 8 for task in SEVEN if task != left_out}
        loss = {} if name == "without-knowledge" else {"valid/knowledge/masked_lm": 5 + number / 10}
        (folder / name / "pretrained.json").write_text(json.dumps({**loss, "trained": trained}))
        (folder / name / "set.json").write_text(json.dumps({"seeds": [{"test": {"accuracy": 0.5 + number / 100}}]}))


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> list[list[str]]:
    """The cells of the table that leaves tasks out."""
    rows = folder / "rows"
    rows.mkdir(exist_ok=True)
    for part in ("train", "dev", "test"):
        (rows / f"{part}.tsv").write_text("text\tlabel\na\t0\nb\t1\n")
    command = ["ernie2", "--corpus", "none.txt", "--task", f"set={rows}", "--out", str(folder)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(ernie2, "plm", lambda *_: pytest.fail("finished runs are not repeated"))
    ernie2.main()
    lines = capsys.readouterr().out.splitlines()
    begin = next(number for number, line in enumerate(lines) if "all tasks" in line)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin:] if line.startswith("|")]


def test_the_runner_prints_eight_rows(monkeypatch, capsys, tmp_path):
    runs = ("continual", "sequential", "joint", "random start", *(f"without-{task}" for task in SEVEN))
    keep_figures(tmp_path / "figures", runs)
    rows = printed(monkeypatch, capsys, tmp_path)
    assert [row[0] for row in rows] == ["all tasks", *(f"without {task}" for task in SEVEN)]
    assert rows[0] == ["all tasks", "5.000", "50.0"]
    assert rows[1] == ["without knowledge", "", "54.0"]
    assert rows[7] == ["without relevance", "6.000", "60.0"]


def test_a_task_that_the_text_does_not_allow_is_told(monkeypatch, capsys, tmp_path):
    runs = ("continual", "sequential", "joint", "random start", *(f"without-{task}" for task in SEVEN[:-1]))
    keep_figures(tmp_path / "figures", runs, left_out="relevance")
    rows = printed(monkeypatch, capsys, tmp_path)
    assert len(rows) == 8
    assert rows[7] == ["without relevance", "not built from this text", ""]


def test_titles_are_the_sentence_of_the_answer_and_another_of_its_paragraph(tmp_path):
    context = "Harbin is cold. Paris is warm. Rome is old."
    asked = {
        "id": "1",
        "question": "What is Paris\nlike?",
        "answers": [{"text": "warm", "start": context.index("warm")}],
    }
    (tmp_path / "q.jsonl").write_text(json.dumps({"title": "t", "context": context, "qas": [asked]}) + "\n")
    found = list(ernie2.titles_of(tmp_path / "q.jsonl", random.Random(0)))
    assert found[0] == ("What is Paris like?", "Paris is warm.", "0")
    assert found[1][1] in ("Harbin is cold.", "Rome is old.")
    assert [row[2] for row in found] == ["0", "1"]
