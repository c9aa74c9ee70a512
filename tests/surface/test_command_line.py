"""The contract of `plm`: its verbs, their options, what goes to stdout and what to stderr, and exit codes."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import plmkit
from plmkit.run import Machine
from plmkit.tasks.kinds import KINDS
from plmkit.tasks.settings import TaskSettings

# verb: arguments and options that later work keeps
CONTRACT = {
    "recipes": ["[NAME]", "--json"],
    "doctor": ["CORPUS...", "--recipe", "--json"],
    "pretrain": [
        "RECIPE", "[CORPUS...]", "--out", "--minutes", "--steps", "--tokens", "--from", "--tokenizer", "--valid",
        "--seed", "--set", "--json",
    ],
    "finetune": [
        "MODEL", "--task", "--train", "--dev", "--test", "--out", "--epochs", "--seed", "--seeds", "--set", "--json",
    ],
    "evaluate": ["MODEL", "FILE", "--json"],
    "predict": ["MODEL", "FILE", "--out", "--json"],
    "fill": ["MODEL", "TEXT", "--top", "--json"],
    "embed": ["MODEL", "FILE", "--out", "--level", "--json"],
    "export": ["MODEL", "DIR", "--format", "--json"],
    "demo": ["--out", "--json"],
}  # fmt: skip
PROGRAM = Path(sys.executable).parent / "plm"


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("verb", CONTRACT)
def test_every_verb_has_its_arguments_and_options_and_an_example(verb, plm):
    ran = plm(verb, "--help")
    assert ran.code == 0
    assert ran.err == ""
    for name in CONTRACT[verb]:
        assert name in ran.out, f"{verb} has no {name}"
    assert f"Example: plm {verb}" in ran.out


def test_the_help_of_fine_tuning_names_every_task_and_every_setting(plm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    shown = plm("finetune", "--help").out
    for name, kind in KINDS.items():
        assert f"{name}: {kind.summary}" in shown
    for field in fields(TaskSettings):
        assert field.name in shown


def test_without_arguments_plm_shows_every_verb_and_where_to_start(plm):
    ran = plm()
    assert (ran.code, ran.err) == (0, "")
    for verb in CONTRACT:
        assert f" {verb} " in ran.out
    assert "Start with: plm demo" in ran.out


def test_the_version_is_told(plm):
    assert plm("--version").out == f"plmkit {plmkit.__version__}\n"


# One JSON object on stdout, and nothing else there


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("the cat sees a house.\n我的狗很可爱。\na bird hears the moon.\n", encoding="utf-8")
    return path


def only_object(ran) -> dict:
    """The one JSON object that stdout holds."""
    assert ran.code == 0, ran.err
    assert ran.out.count("\n") == 1
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def test_recipes_as_json(plm):
    found = only_object(plm("recipes", "--json"))
    assert {recipe["name"]: recipe["parameters"] for recipe in found["recipes"]}["bert-base"] == 110_106_428
    assert {recipe["name"]: recipe["parameters"] for recipe in found["recipes"]}["bert-mini"] == 5_479_746
    one = only_object(plm("recipes", "bert-base", "--json"))
    assert (one["name"], one["parameters"], one["architecture"]["layers"]) == ("bert-base", 110_106_428, 12)
    mini = only_object(plm("recipes", "bert-mini", "--json"))
    assert (mini["parameters"], mini["tokenizer_size"]) == (5_479_746, mini["tokenizer"]["size"]) == (5_479_746, 8_000)
    assert (mini["paper_parameters"], mini["paper_vocabulary"]) == (11_267_900, 30_522)


def test_doctor_as_json(plm, mixed_corpus):
    assert only_object(plm("doctor", mixed_corpus, "--json"))["documents"] == 60


def test_pretrain_as_json_and_again_and_extended(plm, corpus, tmp_path, tiny_settings):
    command = ("pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", *tiny_settings, "--json")
    first = only_object(plm(*command, "--steps", 3))
    assert (first["out"], first["steps"]) == (str(tmp_path / "run"), 3)
    assert "valid/masked_lm" in first
    again = plm(*command, "--steps", 3)
    assert only_object(again) == first
    assert "holds a finished run" in again.err
    assert only_object(plm(*command, "--steps", 2, "--extend"))["steps"] == 5


def test_evaluate_as_json(plm, finetuned, rows_file):
    found = only_object(plm("evaluate", finetuned, rows_file, "--json"))
    assert found["rows"] == 48
    assert found["classes"] == ["bad", "good"]
    scores = json.loads((finetuned / "scores.json").read_text())["dev"]
    assert {name: found[name] for name in scores} == scores


def test_predict_as_json(plm, finetuned, texts, tmp_path):
    found = only_object(plm("predict", finetuned, texts, "--json"))["predictions"]
    assert len(found) == 3
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)
    both = only_object(plm("predict", finetuned, texts, "--json", "--out", tmp_path / "answers.csv"))
    assert both["predictions"] == found
    assert (tmp_path / "answers.csv").is_file()


def test_fill_as_json(plm, pretrained):
    found = only_object(plm("fill", pretrained, "潮水[MASK]了，the [MASK].", "--top", 2, "--json"))
    assert [[candidate.keys() for candidate in blank] for blank in found["blanks"]] == [
        [{"token", "probability", "text"}] * 2
    ] * 2


def test_embed_as_json(plm, pretrained, texts, tmp_path):
    found = only_object(plm("embed", pretrained, texts, "--out", tmp_path / "v.npy", "--json"))
    assert found == {"out": str(tmp_path / "v.npy"), "rows": 3, "width": 32}


# What is printed and written for people


def test_recipes_lists_all_names_in_full_even_on_a_narrow_terminal(plm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = plm("recipes")
    assert "bert-base-chinese" in ran.out
    assert "102,882,442" in ran.out
    assert "transformer-xl-enwik8-large" in ran.out


def test_one_recipe_shows_its_five_choices_its_paper_and_every_setting(plm):
    out = plm("recipes", "bert-mini").out
    for axis in ("tokenizer", "corruption", "architecture", "objectives", "schedule"):
        assert f"\n{axis}: " in out
    assert "arXiv:1908.08962" in out
    assert "\n5,479,746 parameters with a vocabulary of 8,000, as tokenizer.size says, 5,404,928 of them in" in out
    assert "\nWith the paper's vocabulary of 30,522: 11,267,900 parameters, 11,170,560 of them in the encoder." in out
    assert "\n88 MB while they are trained" in out  # 16 bytes for each that is trained
    assert "set for minutes" in out
    assert "architecture.layers=4" in out
    assert "corruption.token_masking.rate=" in out
    for field in fields(Machine):
        assert f"\n  run.{field.name}=" in out


def test_evaluate_shows_scores_and_who_was_taken_for_whom(plm, finetuned, rows_file):
    ran = plm("evaluate", finetuned, rows_file)
    assert ran.code == 0
    for name in ("accuracy", "macro_f1", "mcc", "true \\ predicted", "bad", "good"):
        assert name in ran.out


def test_fill_shows_a_table_for_each_blank(plm, pretrained):
    ran = plm("fill", pretrained, "the [MASK] sees the [MASK].", "--top", 3)
    assert ran.code == 0
    assert "blank 1" in ran.out
    assert "blank 2" in ran.out


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", None])
def test_predictions_keep_the_columns_and_rows_that_were_there(suffix, plm, finetuned, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('id,text,note\n7,"the cat, the dog",x\n8,a bird hears the moon.,\n', encoding="utf-8")
    out = tmp_path / f"answers{suffix}"
    ran = plm("predict", finetuned, file, *(["--out", out] if suffix else []))
    assert ran.code == 0
    text = out.read_text(encoding="utf-8") if suffix else ran.out
    assert (ran.out == "") == bool(suffix)
    if suffix == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(text), delimiter="," if suffix == ".csv" else "\t"))
    assert list(rows[0]) == ["id", "text", "note", "prediction", "probability:bad", "probability:good"]
    assert [row["id"] for row in rows] == ["7", "8"]
    assert rows[0]["text"] == "the cat, the dog"
    for row in rows:
        shares = {name: float(row[f"probability:{name}"]) for name in ("bad", "good")}
        assert sum(shares.values()) == pytest.approx(1, abs=2e-6)
        assert row["prediction"] == max(shares, key=shares.get)


def test_predictions_for_missing_values_and_odd_characters_stay_one_row_each(plm, finetuned, tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [{"text": "tab\tand\nbreak", "extra": None}, {"text": "the cat", "extra": 3}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    lines = plm("predict", finetuned, file).out.splitlines()
    assert len(lines) == 3
    assert lines[1].split("\t")[:2] == ["tab and break", ""]


def test_vectors_are_written_by_text_and_by_token(plm, pretrained, texts, tmp_path):
    assert plm("embed", pretrained, texts, "--out", tmp_path / "v.npy").code == 0
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    np.testing.assert_allclose(vectors, plmkit.load(pretrained).embed(texts.read_text().splitlines()), atol=1e-6)
    assert plm("embed", pretrained, texts, "--out", tmp_path / "t.npy", "--level", "token").code == 0
    tokens = np.load(tmp_path / "t.npy", allow_pickle=False)
    index = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert index[1]["tokens"] == [*"我的狗很可爱。"]
    assert len(tokens) == sum(len(row["tokens"]) for row in index)
    for row, vector in zip(index, vectors, strict=True):
        mine = tokens[row["begin"] : row["begin"] + len(row["tokens"])]
        np.testing.assert_allclose(mine.mean(0), vector, atol=1e-5)


def test_the_index_of_token_vectors_is_named_and_may_be_written_again(plm, pretrained, texts, tmp_path):
    out, index = tmp_path / "t.npy", tmp_path / "t.jsonl"
    told = plm("embed", pretrained, texts, "--out", out, "--level", "token", "--json")
    assert told.json["index"] == str(index)
    assert f"written to {out}, and the tokens that they belong to, to {index}.\n" in told.err
    before = index.read_text(encoding="utf-8")
    assert plm("embed", pretrained, texts, "--out", out, "--level", "token").code == 0
    assert index.read_text(encoding="utf-8") == before
    index.write_text("mine", encoding="utf-8")
    ran = plm("embed", pretrained, texts, "--out", out, "--json")
    assert (ran.code, "index" in ran.json, index.read_text()) == (0, False, "mine")  # of sentences there is none
    assert ".jsonl" in " ".join(plm("embed", "--help").out.split())


def test_texts_that_are_cut_are_said_and_still_predicted(plm, finetuned, tmp_path):
    file = tmp_path / "long.txt"
    file.write_text("the cat sees a house. " * 40 + "\nshort\n", encoding="utf-8")
    ran = plm("predict", finetuned, file)
    assert ran.code == 0
    assert "1 of 2 texts are longer than 64 tokens and lost their tail" in ran.err
    assert len(ran.out.splitlines()) == 3


def test_commands_that_are_shown_next_can_be_copied_whole(plm, corpus, tmp_path, tiny_settings, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    ran = plm("pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", *tiny_settings, "--steps", 2)
    line = next(line for line in ran.out.splitlines() if "plm finetune" in line)
    assert line.endswith(f"--out {tmp_path / 'run'}-task")


# Through a real process


def test_the_program_prints_errors_to_stderr_and_exits_with_2():
    ran = subprocess.run([PROGRAM, "fill", "nowhere", "a [MASK]"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "plm: There is no folder 'nowhere'. Give a run folder, a Hugging Face folder or a name on its hub, "
        "such as google-bert/bert-base-chinese.\n"
    )


def test_a_reader_that_goes_away_is_no_error():
    ran = subprocess.run(
        [f"{PROGRAM} recipes bert-base | head -n 1"], shell=True, capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("bert-base")
    assert ran.stderr == ""


def test_a_terminal_that_cannot_show_chinese_is_no_error(pretrained):
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ran = subprocess.run([PROGRAM, "fill", pretrained, "我的[MASK]很可爱。"], capture_output=True, env=plain)
    assert ran.returncode == 0, ran.stderr
    assert b"blank 1" in ran.stdout


def test_a_blank_line_of_plain_text_keeps_its_row_in_vectors_and_in_scores(plm, pretrained, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("the cat sees a house.\n\nthe dog likes the sea.\n", encoding="utf-8")
    assert plm("score", pretrained, file, "--json").json["rows"][1]["tokens"] == 0
    ran = plm("embed", pretrained, file, "--out", tmp_path / "v.npy", "--json")
    assert (ran.code, ran.json["rows"]) == (0, 3), ran.err
    vectors = np.load(tmp_path / "v.npy")
    wanted = plmkit.load(pretrained).embed(["the cat sees a house.", "the dog likes the sea."])
    np.testing.assert_allclose(vectors[[0, 2]], wanted, atol=1e-6)
    assert not vectors[1].any()
    ran = plm("embed", pretrained, file, "--out", tmp_path / "t.npy", "--level", "token", "--json")
    assert ran.code == 0, ran.err
    told = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert told[1] == {"begin": len(told[0]["tokens"]), "tokens": []}
    assert len(np.load(tmp_path / "t.npy")) == ran.json["tokens"] == sum(len(row["tokens"]) for row in told)


def test_a_file_of_blank_lines_has_nothing_to_embed(plm, pretrained, tmp_path):
    (tmp_path / "lines.txt").write_text("\n \n\n", encoding="utf-8")
    for verb in (("embed", "--out", tmp_path / "v.npy"), ("score",)):
        ran = plm(verb[0], pretrained, tmp_path / "lines.txt", *verb[1:])
        assert (ran.code, f"has no text to {verb[0]}." in ran.err) == (2, True), ran.err
    assert not (tmp_path / "v.npy").exists()
