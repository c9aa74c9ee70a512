"""Tables as people have them, from file to predictions, by every verb that reads them."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from plmkit.catalogue import find

QUICK = ("--epochs", "1", "--set", "run.threads=1", "--set", "task.batch=16")


def tune(model: Path, train: Path, out: Path, *more: object) -> tuple:
    return ("finetune", model, "--task", "classify", "--train", train, "--out", out, *QUICK, *more)


def put(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(rows_file) -> list[tuple[str, str]]:
    """Texts and labels."""
    lines = rows_file.read_text().splitlines()[1:]
    return [(text, label) for text, label in (line.split("\t") for line in lines)]


def test_reviews_with_sentiments_from_file_to_predictions(plm, pretrained, rows, tmp_path):
    lines = [f"{number},{text},{label}" for number, (text, label) in enumerate(rows)]
    train = put(tmp_path / "train.csv", "title,review,sentiment", *lines[:40], "8, ,good", *lines[40:], "9,a cat,")
    ran = plm(*tune(pretrained, train, tmp_path / "out"))
    assert ran.code == 0
    assert ran.err.splitlines()[:3] == [
        f"{train}: reading column 'review' as text and column 'sentiment' as label. To read another: --text title.",
        f"! {train}: 1 row without text left out (line 42).",
        f"! {train}: 1 row without a label left out (line 51).",
    ]
    kept = json.loads((tmp_path / "out" / "run.json").read_text())["tasks"][0]["columns"]
    assert kept == {"kind": "Columns", "text": "review", "text_a": None, "text_b": None, "label": "sentiment",
                    "header": True}  # fmt: skip

    # the columns that were trained on are preferred to others
    new = put(
        tmp_path / "new.csv", "text,review,sentiment", f"x,{rows[0][0]},good", "y, ,bad", "", f"z,{rows[1][0]},bad"
    )
    ran = plm("predict", tmp_path / "out", new, "--out", tmp_path / "answers.jsonl")
    assert ran.err.splitlines()[:2] == [
        f"{new}: reading column 'review' as text.",
        f"! {new}: 2 rows without text, left without a prediction (lines 3 and 4).",
    ]
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [answer["text"] for answer in answers] == ["x", "y", "", "z"]
    assert [answer["prediction"] in ("good", "bad") for answer in answers] == [True, False, False, True]
    assert [answer["prediction"] for answer in answers[1:3]] == [None, None]
    assert [answer["probability:good"] for answer in answers[1:3]] == [None, None]
    found = plm("predict", tmp_path / "out", new, "--json").json["predictions"]
    blank = {"text": "y", "review": " ", "sentiment": "bad"}
    assert found[1] == {"row": blank, "label": None, "probability": None, "probabilities": None}
    assert found[3]["label"] == answers[3]["prediction"]
    ran = plm("evaluate", tmp_path / "out", new, "--json")
    assert ran.json["rows"] == 2
    assert f"! {new}: 2 rows without text left out (lines 3 and 4).\n" in ran.err
    assert plm("evaluate", tmp_path / "out", new, "--text", "text", "--label", "sentiment", "--json").json["rows"] == 3

    # the same command finds it finished, other columns are another fine-tuning
    assert "holds this fine-tuning, finished" in plm(*tune(pretrained, train, tmp_path / "out")).err
    ran = plm(*tune(pretrained, train, tmp_path / "out", "--text", "title"))
    assert ran.code == 2
    assert "holds another fine-tuning: tasks.columns.text was review, is title." in ran.err


def test_a_table_without_a_header_from_file_to_predictions(plm, pretrained, rows, tmp_path):
    train = put(tmp_path / "train.tsv", *(f"{label}\t{text}" for text, label in rows))
    ran = plm(*tune(pretrained, train, tmp_path / "out"))
    assert (ran.code, ran.out, (tmp_path / "out").exists()) == (2, "", False)
    advice = ran.err.splitlines()[-1]
    assert advice == "--no-header --text 2 --label 1"
    ran = plm(*tune(pretrained, train, tmp_path / "out", *advice.split()))
    assert ran.code == 0
    new = put(tmp_path / "new.tsv", f"good\t{rows[0][0]}", "", f"bad\t{rows[1][0]}")
    ran = plm("predict", tmp_path / "out", new)
    assert ran.err.splitlines()[:3] == [
        f"{new} is read without a header, like the rows that the model was trained on.",
        f"{new}: reading column '2' as text. To read another: --text COLUMN.",
        f"! {new}: 1 row without text, left without a prediction (line 2).",
    ]
    assert [line.split("\t")[:2] for line in ran.out.splitlines()] == [
        ["1", "2"], ["good", rows[0][0]], ["", ""], ["bad", rows[1][0]]
    ]  # fmt: skip
    alone = put(tmp_path / "alone.tsv", rows[0][0], rows[1][0])
    assert [line.split("\t")[0] for line in plm("predict", tmp_path / "out", alone).out.splitlines()] == [
        "1", rows[0][0], rows[1][0]
    ]  # fmt: skip
    assert plm("evaluate", tmp_path / "out", train, "--json").json["rows"] == len(rows)


def test_suspicious_rows_are_reported(plm, pretrained, rows, tmp_path):
    spelt = [(text, label.upper() if number % 2 else label) for number, (text, label) in enumerate(rows)]
    lines = [f"7\t{text}\t{label}" for text, label in spelt]
    train, dev = (put(tmp_path / name, "qid\ttext\tlabel", *lines) for name in ("train.tsv", "dev.tsv"))
    ran = plm(*tune(pretrained, train, tmp_path / "out", "--dev", dev))
    assert ran.code == 0
    reported = [line for line in ran.err.splitlines() if line.startswith("! ")]
    assert reported[0].startswith(
        f"! {train}: labels that differ only in case, width or spaces become separate classes: "
    )
    assert reported[1:] == [
        f"! {dev}: all {len(rows)} texts are also in {train}, so its score says less about new texts.",
        f"! {train}: column qid is not used: classify scores each row by itself. --task rank ranks the rows of each "
        "query.",
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([f"{n}.\tthe cat" for n in range(30)], "nearly every row would be a class of its own.\nTo predict numbers"),
        (["good\t\ufffd", "bad\t\ufffd\ufffd"], "the model's tokenizer finds no tokens in any of the 2 texts"),
    ],
)
def test_rows_unfit_for_training_are_refused(plm, pretrained, tmp_path, lines, message):
    ran = plm(*tune(pretrained, put(tmp_path / "train.tsv", "label\ttext", *lines), tmp_path / "out"))
    assert (ran.code, ran.out, (tmp_path / "out").exists()) == (2, "", False)
    assert message in ran.err


def test_a_blank_line_of_plain_text_has_no_prediction(plm, finetuned, tmp_path):
    new = put(tmp_path / "new.txt", "the cat sees a house.", " ", "a bird hears the moon.")
    ran = plm("predict", finetuned, new)
    lines = [line.split("\t") for line in ran.out.splitlines()]
    assert [line[0] for line in lines] == ["text", "the cat sees a house.", " ", "a bird hears the moon."]
    assert lines[2] == [" ", "", "", "", ""]
    assert ran.err == f"! {new}: 1 row without text, left without a prediction (line 2).\n"
    ran = plm("predict", finetuned, put(tmp_path / "blank.txt", " ", "", "\u200b"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("blank.txt has no text: every row is blank.\n")


def test_vectors_and_scores_are_of_the_named_column(plm, pretrained, tmp_path):
    table = put(tmp_path / "a.csv", "title;body", "the cat sees a house.;x", " ;x", "the sea;x")
    out = tmp_path / "v.npy"
    ran = plm("embed", pretrained, table, "--text", "title", "--out", out)
    assert ran.err.splitlines()[:2] == [
        f"{table} is separated by semicolons.",
        f"! {table}: 1 row without text, whose vectors are 0 (line 3).",
    ]
    assert np.abs(np.load(out)).sum(1).astype(bool).tolist() == [True, False, True]
    ran = plm("score", pretrained, table, "--text", "title", "--json")
    assert [row["tokens"] > 0 for row in ran.json["rows"]] == [True, False, True]


def recipe_of(options: list[str]) -> list[str]:
    """Without the settings of the run, which doctor does not read."""
    return [part for value in options[1::2] if not value.startswith("run.") for part in ("--set", value)]


@pytest.mark.parametrize("verb", [("doctor",), ("pretrain", "bert-tiny")])
def test_text_is_the_column_of_a_corpus(plm, tmp_path, verb, tiny_settings):
    table = put(tmp_path / "a.csv", "title,review", *[f'T{n},"The cat sees {n}. A dog runs."' for n in range(40)])
    options = [*recipe_of(tiny_settings), *(["--out", tmp_path / "out", "--steps", 1] if len(verb) == 2 else [])]
    ran = plm(*verb, table, *options, "--text", "title", "--set", "run.column=review")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "plm: --text title and run.column=review name different columns. Give one of them.\n"
    ran = plm(*verb, table, *options)
    assert ran.code == 0
    assert "The text of a.csv is read from column review. To read another: --text title.\n" in ran.out + ran.err
    if len(verb) == 1:
        named, set_ = (plm(*verb, table, *options, *way, "--json").json
                       for way in (("--text", "review"), ("--set", "run.column=review")))  # fmt: skip
        assert named == set_


def test_a_corpus_without_a_header(plm, tmp_path, tiny_settings):
    settings = recipe_of(tiny_settings)
    table = put(tmp_path / "a.tsv", *[f"{n}\tThe cat sees {n}. A dog runs." for n in range(40)])
    ran = plm("doctor", table, *settings)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == "--no-header --text 2"
    assert plm("doctor", table, *settings, "--no-header", "--text", "2", "--json").json["documents"] == 40


def test_options_that_a_model_of_plain_text_would_ignore(plm, tmp_path, monkeypatch):
    monkeypatch.setattr("plmkit.inference.loading.read_parts", lambda *given, **asked: None)
    model = SimpleNamespace(architecture=find("gpt2-tiny").architecture, tasks=(), graph=None)
    monkeypatch.setattr("plmkit.inference.loading.model_of", lambda parts: model)
    monkeypatch.setattr("plmkit.inference.evaluation.can_translate", lambda model: False)
    monkeypatch.setattr("plmkit.inference.evaluation.can_evaluate_text", lambda model: True)
    ran = plm("evaluate", "gpt", put(tmp_path / "a.csv", "text", "a"), "--label", "x")
    assert ran.err == (
        "plm: gpt is not fine-tuned: it is scored on plain text, and --label would be ignored. "
        "Leave it out, or fine-tune the model first.\n"
    )
    assert ran.code == 2
