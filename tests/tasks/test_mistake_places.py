"""Where a mistake is in its file: its line, or its id or number where a line has several rows."""

import json
from pathlib import Path

import pytest

from plmkit.cli.show_report import report
from plmkit.data.reading.columns import Search, ignore
from plmkit.tasks.answering.search import Answer
from plmkit.tasks.kinds.qa import QA
from plmkit.tasks.kinds.slots import Slots
from plmkit.tasks.kinds.tag import Tag
from plmkit.tasks.rows import read_labelled
from plmkit.tasks.tagging.predictions import SlotsPrediction, TagPrediction

TEXTS = ("Bonn is old", "Rome is old", "Oslo is old")


def annotated(*, ids: bool) -> str:
    """A Label Studio export on one line; the word at the beginning of each text is a place."""
    span = {"type": "labels", "value": {"start": 0, "end": 4, "labels": ["LOC"]}}
    records = [{"data": {"text": text}, "annotations": [{"result": [span]}]} for text in TEXTS]
    return json.dumps([({"id": 70 + number} if ids else {}) | one for number, one in enumerate(records)])


def questions(*names: str) -> str:
    """SQuAD's form on one line."""
    asked = [{"id": name, "question": "who?", "answers": [{"text": "Ann", "answer_start": 0}]} for name in names]
    return json.dumps({"data": [{"paragraphs": [{"context": "Ann met Bob.", "qas": asked}]}]})


def places(task, path: Path, text: str, answers, capsys) -> list[str]:
    """What is printed above the text of each mistake, before the colon."""
    path.write_text(text, encoding="utf-8")
    rows = read_labelled(path, task, Search(), ignore).rows
    found = task.report(answers(rows), rows)
    report(found, path)
    shown = [line for line in capsys.readouterr().out.splitlines() if ": predicted " in line]
    assert len(shown) == found.mistakes.count
    return [line.split(": predicted ")[0] for line in shown]


def no_tags(rows):
    return [TagPrediction(**none(row)) for row in rows]


def none(row):
    tags = ("O",) * len(row.label)
    return {"label": tags, "tags": tags, "tag_probabilities": (0.5,) * len(tags)}


def test_a_document_on_one_line_names_its_rows_by_id_or_else_by_number(tmp_path, capsys):
    task = Tag(classes=("O", "B-LOC", "I-LOC"), scheme="bio")
    assert places(task, tmp_path / "a.json", annotated(ids=True), no_tags, capsys) == [
        f"a.json, id {number}" for number in (70, 71, 72)
    ]
    assert places(task, tmp_path / "b.json", annotated(ids=False), no_tags, capsys) == [
        f"b.json, row {number}" for number in (1, 2, 3)
    ]


def test_questions_on_one_line_are_named_by_their_ids_and_the_numbers_count_rows_left_out(tmp_path, capsys):
    def wrong(rows):
        return [Answer(label="Bob", probability=0.9 - place / 10) for place, _ in enumerate(rows)]

    assert places(QA(), tmp_path / "a.json", questions("q1", "q2"), wrong, capsys) == ["a.json, id q1", "a.json, id q2"]
    text = questions("", "", "").replace("who?", " ", 1)
    assert places(QA(), tmp_path / "a.json", text, wrong, capsys) == ["a.json, row 2", "a.json, row 3"]


def test_rows_with_lines_of_their_own_are_named_by_them(tmp_path, capsys):
    task = Tag(classes=("O", "B-LOC"), scheme="bio")
    lines = [{"id": 7, "tokens": ["Bonn", "is"], "tags": ["B-LOC", "O"]}] * 2
    text = "".join(json.dumps(one) + "\n" for one in lines)
    assert places(task, tmp_path / "a.jsonl", text, no_tags, capsys) == ["a.jsonl, line 1", "a.jsonl, line 2"]


def test_each_utterance_of_a_document_on_one_line_has_its_own_slots(tmp_path):
    task = Slots(classes=("O", "B-X", "B-Y"), intents=("a", "b"), scheme="bio")
    records = [
        {"tokens": ["one"], "tags": [tag], "intent": intent} for tag, intent in (("B-X", "a"), ("B-Y", "b"))
    ]  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(records), encoding="utf-8")
    rows = read_labelled(tmp_path / "a.json", task, Search(), ignore).rows
    predictions = [SlotsPrediction(**none(row), intent="a", probability=0.9) for row in rows]
    found = {one.number: (one.label, one.prediction) for one in task.report(predictions, rows).mistakes.hardest}
    assert found == {1: ("a · X: one", "a"), 2: ("b · Y: one", "a")}


@pytest.mark.parametrize(("language", "said"), [("en", ("row {row}", "id {id}")), ("zh", ("第 {row} 条", "编号 {id}"))])
def test_the_page_names_rows_as_the_terminal_does(language, said, monkeypatch):
    from plmkit.insight.report_page import words

    monkeypatch.setenv("PLM_LANG", language)
    assert (words()["row"], words()["id"]) == said
