"""The contract of `plm`: its verbs, their options, what goes to stdout and what to stderr, and exit codes."""

import csv
import errno
import io
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from safetensors.numpy import load_file
from typer.main import get_command

import plmkit
from plmkit.catalogue import CATALOGUE
from plmkit.cli import app
from plmkit.cli.options import recipe_names
from plmkit.config.explaining import explanation
from plmkit.config.machine import Machine
from plmkit.config.verbs import FINETUNING
from plmkit.data.reading.whole import read_table
from plmkit.errors import UnknownTokensWarning
from plmkit.tasks.registry import KINDS
from plmkit.tasks.settings import TaskSettings

# verb: arguments and options that later work keeps
CONTRACT = {
    "recipes": ["[NAME]", "--json"],
    "doctor": ["CORPUS", "--recipe", "--json"],
    "pretrain": [
        "RECIPE", "[CORPUS]...", "--out", "--minutes", "--steps", "--tokens", "--from", "--tokenizer", "--valid",
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


@pytest.mark.parametrize("width", range(78, 90))
def test_chinese_names_in_english_help_are_shown_whole(width, plm, monkeypatch):
    """A wide character before the space at the end of a line would be cut off."""
    monkeypatch.setenv("COLUMNS", str(width))
    shown = plm("finetune", "--help").out
    assert "…" not in shown
    for name in ("评论...", "句子1...", "标签..."):
        assert name in shown


def test_the_help_of_fine_tuning_names_every_task_and_every_setting(plm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    shown = plm("finetune", "--help").out
    for name, kind in KINDS.items():
        assert f"{name}: {kind.summary}" in shown
    for field in fields(TaskSettings):
        assert f"task.{field.name}: {explanation(TaskSettings, field.name)}" in shown
    for name in FINETUNING:
        assert f"{name}: {explanation(Machine, name.removeprefix('run.'))}" in shown


def test_no_part_of_a_help_text_is_taken_for_markup(plm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    shown = plm("finetune", "--help").out
    assert "a TOML file with a table for each, of kind, train, dev and test." in shown


def test_the_usage_names_each_argument_once(plm, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    usage = {
        verb: plm(verb, "--help").out.split("Usage: plm ")[1].split("\n")[0].strip() for verb in (*CONTRACT, "generate")
    }
    assert usage["pretrain"] == "pretrain [OPTIONS] {RECIPE} [CORPUS]..."
    assert usage["doctor"] == "doctor [OPTIONS] {CORPUS}..."
    assert usage["generate"] == "generate [OPTIONS] {MODEL} [PROMPT]..."
    assert not [line for line in usage.values() if "[[" in line or "...]" in line or "...}" in line]


def test_without_arguments_plm_shows_every_verb_and_where_to_start(plm):
    ran = plm()
    assert (ran.code, ran.err) == (0, "")
    for verb in CONTRACT:
        assert f" {verb} " in ran.out
    assert "Start with: plm demo" in ran.out


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["recipes", "--help"], ["finetune", "--help"]])
def test_help_and_version_come_without_the_libraries_that_take_seconds(arguments):
    code = (
        f"import sys; sys.argv[1:] = {arguments}\nfrom plmkit.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "slow = {'torch', 'numpy', 'pyarrow', 'sklearn', 'scipy', 'tokenizers', 'jieba', 'rjieba'}\n"
        "assert not slow & sys.modules.keys(), slow & sys.modules.keys()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_python_runs_the_package_as_the_program():
    ran = subprocess.run([sys.executable, "-m", "plmkit", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"plmkit {plmkit.__version__}\n"


def test_the_version_is_printed(plm):
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
    assert (one["tasks"], one["unsupported_tasks"]) == ([*KINDS], {})
    tasks = {recipe["name"]: recipe["tasks"] for recipe in found["recipes"]}
    assert (tasks["elmo-tiny"], tasks["caption-tiny"]) == ([*KINDS], [])
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


def test_recipes_say_which_continue_a_model(plm):
    ends = {
        line.split()[0]: line.rstrip().split("  ")[-1].strip()
        for line in plm("recipes").out.splitlines()
        if line.strip()
    }
    assert (ends["kg-stage"], ends["bert-base"], ends["bert-mini"]) == ("second stage", "the paper's", "for minutes")


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
    assert "\n5,479,746 parameters with a vocabulary of 8,000 (tokenizer.size), 5,404,928 of them in" in out
    assert "\nWith the paper's vocabulary of 30,522: 11,267,900 parameters, 11,170,560 of them in the encoder." in out
    assert "\n88 MB during training" in out  # 16 bytes for each that is trained
    assert "set for runs of minutes" in out
    assert f"\nTasks (plm finetune --task): {', '.join(KINDS)}." in out
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
    assert list(rows[0]) == ["id", "text", "note", "prediction", "probability", "probability:bad", "probability:good"]
    assert [row["id"] for row in rows] == ["7", "8"]
    assert rows[0]["text"] == "the cat, the dog"
    for row in rows:
        shares = {name: float(row[f"probability:{name}"]) for name in ("bad", "good")}
        assert sum(shares.values()) == pytest.approx(1, abs=2e-6)
        assert row["prediction"] == max(shares, key=shares.get)


ODD = ["tab\tand\nbreak", 'a "quoted" word', "the cat", "two\r\nlines, and a comma", '"', "'x"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_odd_texts_are_read_back_as_they_were_from_every_kind_of_file(suffix, plm, finetuned, tmp_path):
    file, out = tmp_path / "rows.jsonl", tmp_path / f"out{suffix}"
    rows = [{"id": number, "text": text, "gap": None} for number, text in enumerate(ODD)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert plm("predict", finetuned, file, "--out", out).code == 0
    table = read_table(out)
    assert table.columns == ("id", "text", "gap", "prediction", "probability", "probability:bad", "probability:good")
    assert [row[1] for row in table.rows] == ODD
    assert [str(row[0]) for row in table.rows] == ["0", "1", "2", "3", "4", "5"]
    assert {row[2] for row in table.rows} == ({""} if suffix in (".tsv", ".csv") else {None})
    if suffix == ".tsv":
        read = list(csv.reader(io.StringIO(out.read_bytes().decode(), newline=""), csv.excel_tab))
        assert [row[1] for row in read] == ["text", *ODD]
        printed = plm("predict", finetuned, file)
        assert printed.out == out.read_bytes().decode()
        assert plm("predict", finetuned, out, "--out", tmp_path / "again.tsv").code == 0
        assert [row[1] for row in read_table(tmp_path / "again.tsv").rows] == ODD


def test_a_plain_tsv_stays_without_quotes_and_stray_ones_are_text(plm, finetuned, tmp_path):
    file = tmp_path / "rows.tsv"
    file.write_text('text\tnote\nthe cat\tx\n"the dog\ty\n', encoding="utf-8")
    assert [row[0] for row in read_table(file).rows] == ["the cat", '"the dog']
    ran = plm("predict", finetuned, tmp_path / "rows.tsv")
    assert [row[0] for row in csv.reader(io.StringIO(ran.out), csv.excel_tab)] == ["text", "the cat", '"the dog']
    file.write_text("text\tnote\nthe cat\tx\n", encoding="utf-8")
    assert plm("predict", finetuned, file).out.startswith("text\tnote\tprediction\tprobability\tprobability:bad\t")


def test_a_parquet_that_cannot_hold_a_column_is_refused(plm, finetuned, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "id": 1}\n{"text": "b", "id": "x"}\n')
    ran = plm("predict", finetuned, tmp_path / "rows.jsonl", "--out", tmp_path / "out.parquet")
    assert (ran.code, ran.out) == (2, "")
    assert (
        "column 'id' contains values of several types.\nParquet does not support that: write .jsonl instead." in ran.err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_json_keeps_the_columns_of_each_row(plm, finetuned, pretrained, tmp_path):
    (tmp_path / "rows.csv").write_text("id,text,label\n7,the cat,?\n8,,?\n", encoding="utf-8")
    first, second = only_object(plm("predict", finetuned, tmp_path / "rows.csv", "--json"))["predictions"]
    assert first["row"] == {"id": "7", "text": "the cat", "label": "?"}
    assert first["label"] in ("bad", "good")
    scored = only_object(plm("score", pretrained, tmp_path / "rows.csv", "--json"))["rows"]
    assert [one["row"]["id"] for one in scored] == ["7", "8"]
    assert second == {
        "row": {"id": "8", "text": "", "label": "?"}, "label": None, "probability": None, "probabilities": None,
    }  # fmt: skip


# A text as it stands, and lines from stdin


def test_a_text_may_stand_in_the_place_of_a_file(plm, finetuned, pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "The cat sees/hears a house, e.g. 1.5 of it"
    found = only_object(plm("predict", finetuned, text, "--json"))["predictions"]
    with pytest.warns(UnknownTokensWarning):  # "/", "," and digits do not occur in its corpus
        wanted = plmkit.load(finetuned, device="cpu").predict(text)
    assert [(one["row"], one["label"]) for one in found] == [({"text": text}, wanted.label)]
    shown = plm("predict", finetuned, "潮水退了/就知道").out.splitlines()
    assert [line.split("\t")[0] for line in shown] == ["text", "潮水退了/就知道"]
    reported = only_object(plm("embed", pretrained, text))
    assert (reported["rows"], reported["width"]) == (1, 32)
    np.testing.assert_allclose(reported["vectors"], plmkit.load(pretrained, device="cpu").embed([text]), atol=1e-6)
    reported = only_object(plm("embed", pretrained, "the cat", "--level", "token"))
    assert (reported["tokens"], reported["names"], np.shape(reported["vectors"])) == (2, [["the", "cat"]], (1, 2, 32))
    assert only_object(plm("score", pretrained, "the cat", "--json"))["all"]["tokens"] == 2


@pytest.mark.parametrize("name", ["rows.tsv", "my rows.csv", "rows.xyz", "./rows"])
def test_a_file_that_is_not_there_is_not_taken_for_a_text(name, plm, finetuned, pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for ran in (plm("predict", finetuned, name), plm("embed", pretrained, name, "--out", "v.npy")):
        assert (ran.code, ran.out) == (2, "")
        assert f"There is no file {name.removeprefix('./')}" in ran.err
    assert list(tmp_path.iterdir()) == []


class Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_lines_are_read_from_stdin(plm, finetuned, pretrained, monkeypatch):
    content = "the cat\r\n\n我的狗很可爱。\n\n".encode()
    monkeypatch.setattr(sys, "stdin", Stdin(content))
    found = only_object(plm("predict", finetuned, "-", "--json"))["predictions"]
    assert [one["row"]["text"] for one in found] == ["the cat", "", "我的狗很可爱。"]
    assert [one["label"] is None for one in found] == [False, True, False]
    monkeypatch.setattr(sys, "stdin", Stdin(content))
    assert np.shape(only_object(plm("embed", pretrained, "-"))["vectors"]) == (3, 32)
    for content, reported in ((b" \n", "stdin has no text."), (b"a\n\xff", "Line 2 of stdin is not UTF-8 text.")):
        monkeypatch.setattr(sys, "stdin", Stdin(content))
        ran = plm("predict", finetuned, "-")
        assert (ran.code, ran.out) == (2, "")
        assert reported in ran.err


def test_blank_lines_keep_their_place_in_predictions_scores_and_vectors(plm, finetuned, pretrained, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("the cat sees a house.\n\n \nthe dog likes the sea.\n\n", encoding="utf-8")
    ran = plm("predict", finetuned, file, "--out", tmp_path / "out.tsv")
    assert ran.code == 0
    assert f"! {file}: 2 rows without text, left without a prediction (lines 2 and 3).\n" in ran.err
    rows = list(csv.reader(io.StringIO((tmp_path / "out.tsv").read_text()), csv.excel_tab))[1:]
    assert [row[0] for row in rows] == ["the cat sees a house.", "", " ", "the dog likes the sea."]
    assert [row[1:] for row in rows[1:3]] == [[""] * 4] * 2
    assert all(row[1] in ("bad", "good") for row in (rows[0], rows[3]))
    ran = plm("embed", pretrained, file, "--out", tmp_path / "v.npy")
    assert (ran.code, np.load(tmp_path / "v.npy").any(1).tolist()) == (0, [True, False, False, True])
    assert f"! {file}: 2 rows without text, whose vectors are 0 (lines 2 and 3).\n" in ran.err
    counts = [row["tokens"] > 0 for row in plm("score", pretrained, file, "--json").json["rows"]]
    assert counts == [True, False, False, True]


# Vectors


def test_vectors_are_written_as_parquet_with_their_rows(plm, pretrained, tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\n7,the cat\n8,a bird hears\n", encoding="utf-8")
    assert plm("embed", pretrained, tmp_path / "rows.csv", "--out", tmp_path / "v.parquet").code == 0
    found = parquet.read_table(tmp_path / "v.parquet")
    assert found.column_names == ["id", "text", "vector"]
    assert str(found.schema.field("vector").type) == "list<element: float>"
    model = plmkit.load(pretrained, device="cpu")
    np.testing.assert_allclose(found["vector"].to_pylist(), model.embed(["the cat", "a bird hears"]), atol=1e-6)
    out = tmp_path / "t.parquet"
    assert plm("embed", pretrained, tmp_path / "rows.csv", "--out", out, "--level", "token").code == 0
    found = parquet.read_table(out)
    assert str(found.schema.field("vectors").type) == "list<element: list<element: float>>"
    assert found["tokens"].to_pylist() == [["the", "cat"], ["a", "bird", "hears"]]
    np.testing.assert_allclose(found["vectors"][1].as_py(), model.embed("a bird hears", level="token"), atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "t.parquet", "v.parquet"]


def test_a_file_without_a_place_for_its_vectors_gets_a_name_to_write(plm, pretrained, texts):
    ran = plm("embed", pretrained, texts)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == ("plm: --out is missing: name a file for the vectors, as in --out vectors.npy, or add --json.\n")
    assert np.shape(only_object(plm("embed", pretrained, texts, "--json"))["vectors"]) == (3, 32)


def test_vectors_are_written_by_text_and_by_token(plm, pretrained, texts, tmp_path):
    assert plm("embed", pretrained, texts, "--out", tmp_path / "v.npy").code == 0
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    model, lines = plmkit.load(pretrained), texts.read_text(encoding="utf-8").splitlines()
    np.testing.assert_allclose(vectors, model.embed(lines), atol=1e-6)
    assert plm("embed", pretrained, texts, "--out", tmp_path / "t.npy", "--level", "token").code == 0
    tokens = np.load(tmp_path / "t.npy", allow_pickle=False)
    index = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert index[1]["tokens"] == [*"我的狗很可爱。"]
    assert len(tokens) == sum(len(row["tokens"]) for row in index)
    for row, text in zip(index, lines, strict=True):
        if "[UNK]" not in row["tokens"]:
            written = [text[begin:end].lower() for begin, end in row["offsets"]]
            assert written == [token.removeprefix("##") for token in row["tokens"]]
    for row, wanted in zip(index, model.embed(lines, level="token"), strict=True):
        np.testing.assert_allclose(tokens[row["begin"] : row["begin"] + len(row["tokens"])], wanted, atol=1e-5)


def test_the_index_of_token_vectors_is_named_and_may_be_written_again(plm, pretrained, texts, tmp_path):
    out, index = tmp_path / "t.npy", tmp_path / "t.jsonl"
    reported = plm("embed", pretrained, texts, "--out", out, "--level", "token", "--json")
    assert reported.json["index"] == str(index)
    assert f"written to {out}, with an index of their tokens in {index}.\n" in reported.err
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
    assert "1 of 2 texts are longer than 64 tokens and were truncated" in ran.err
    assert len(ran.out.splitlines()) == 3


def test_commands_that_are_shown_next_can_be_copied_whole(plm, corpus, tmp_path, tiny_settings, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    ran = plm("pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", *tiny_settings, "--steps", 2)
    line = next(line for line in ran.out.splitlines() if "plm finetune" in line)
    assert line.endswith(f"--out {tmp_path / 'run'}-task")


# Through a real process


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", [["--version"], ["--help"]])
def test_output_that_cannot_be_written_is_an_error(command):
    with open("/dev/full", "w") as full:
        ran = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True)
    reported = "plm: The output cannot be written: No space left on device. Free some space, or write elsewhere.\n"
    assert (ran.returncode, ran.stderr) == (2, reported)


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet", "npy"])
def test_a_full_disk_is_an_error_and_leaves_what_was_there(ending, plm, finetuned, tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / f"out.{ending}"
    out.write_text("before")
    monkeypatch.setattr("plmkit.storage.files.flush", full)
    ran = plm("embed" if ending == "npy" else "predict", finetuned, "the cat", "--out", out)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"plm: {tmp_path} cannot be written: No space left on device.\n")
    assert "written to" not in ran.err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(f"out.{ending}", "before")]


# Help for shells, and silence


def completed(*words: str) -> list[str]:
    """What bash offers for the last of these words."""
    asked = {"_PLM_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    ran = subprocess.run([PROGRAM], capture_output=True, text=True, env={**os.environ, **asked})
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


def test_the_shell_completes_verbs_recipes_and_tasks():
    assert completed("plm", "pre") == ["pretrain", "predict"]
    assert completed("plm", "pretrain", "bert-m") == ["bert-mini", "bert-medium"]
    assert completed("plm", "doctor", "x.txt", "--recipe", "ernie") == [
        "ernie-mini",
        "ernie-1.0",
        *(f"ernie2-{size}" for size in ("tiny", "mini", "base", "large")),
    ]
    assert completed("plm", "doctor", "x.txt", "--recipe", "ernie-") == ["ernie-mini", "ernie-1.0"]
    assert completed("plm", "finetune", "runs/x", "--task", "pa") == ["pair", "paraphrase"]


def test_the_names_to_complete_are_those_of_the_catalogue():
    assert recipe_names("") == [*CATALOGUE, "skipgram"]  # the only one without a network


def test_a_script_for_the_shell_is_shown(plm, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    ran = plm("--show-completion", "bash")
    assert ran.code == 0
    assert "complete -o default -F _plm_completion plm" in ran.out
    assert "--install-completion" in plm("--help").out


@pytest.mark.parametrize("verb", sorted(get_command(app).commands))
def test_every_verb_can_be_quiet(verb, plm):
    assert "--quiet" in plm(verb, "--help").out


def test_a_quiet_command_says_nothing_but_warnings(plm, finetuned, corpus, tmp_path, tiny_settings):
    train = ("pretrain", "bert-tiny", corpus, *tiny_settings, "--steps", 2)
    loud = plm(*train, "--out", tmp_path / "loud").err
    ran = plm(*train, "--out", tmp_path / "run", "--quiet")
    assert ran.code == 0
    assert "documents" in loud
    assert ran.err.splitlines() == [line for line in loud.splitlines() if line.startswith("!")]
    (tmp_path / "rows.txt").write_text("the cat\n" + "the cat sees a house. " * 40, encoding="utf-8")
    ran = plm("predict", finetuned, tmp_path / "rows.txt", "--out", tmp_path / "out.tsv", "-q")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == (
        "! 1 of 2 texts are longer than 64 tokens and were truncated (of a pair, the longer text first).\n"
    )


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--json"], ["recipes", "bert-tiny"]])
def test_every_verb_tells_a_full_device(command, plm, corpus, monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        ran = plm(*command, *([corpus] if command[0] == "doctor" else []))
    reported = "plm: The output cannot be written: No space left on device. Free some space, or write elsewhere.\n"
    assert (ran.code, ran.err) == (2, reported)


def test_a_terminal_that_cannot_show_chinese_is_no_error(pretrained):
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    plain |= {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
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
    reported = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert reported[1] == {"begin": len(reported[0]["tokens"]), "tokens": [], "offsets": []}
    assert len(np.load(tmp_path / "t.npy")) == ran.json["tokens"] == sum(len(row["tokens"]) for row in reported)


def test_a_file_of_blank_lines_cannot_be_embedded_scored_or_predicted(plm, pretrained, finetuned, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n \n\n", encoding="utf-8")
    for ran in (
        plm("embed", pretrained, file, "--out", tmp_path / "out.npy"),
        plm("score", pretrained, file, "--out", tmp_path / "out.tsv"),
        plm("predict", finetuned, file, "--out", tmp_path / "out.tsv"),
    ):
        assert (ran.code, ran.out, ran.err) == (2, "", f"plm: {file} has no text: every row is blank.\n")
    assert list(tmp_path.iterdir()) == [file]


def test_token_vectors_have_one_content_in_every_type_of_file(plm, pretrained, tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("text_a,text_b\nthe cat sees,a house\na bird,the sea\n", encoding="utf-8")
    for ending in ("npy", "safetensors", "jsonl", "parquet"):
        ran = plm("embed", pretrained, file, "--out", tmp_path / f"{ending}.{ending}", "--level", "token")
        assert ran.code == 0, ran.err
    vectors = np.load(tmp_path / "npy.npy", allow_pickle=False)
    assert (load_file(tmp_path / "safetensors.safetensors")["vectors"] == vectors).all()
    index = [json.loads(line) for line in (tmp_path / "npy.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [json.loads(line) for line in (tmp_path / "safetensors.jsonl").read_text().splitlines()] == index
    assert index[1] == {"begin": 5, "tokens": ["a", "bird", "the", "sea"], "offsets": [[0, 1], [2, 6], [0, 3], [4, 7]]}
    rows = [json.loads(line) for line in (tmp_path / "jsonl.jsonl").read_text(encoding="utf-8").splitlines()]
    tables = parquet.read_table(tmp_path / "parquet.parquet").to_pylist()
    for row, known, other in zip(rows, index, tables, strict=True):
        assert (row["tokens"], row["offsets"]) == (known["tokens"], known["offsets"])
        assert (other["tokens"], other["offsets"]) == (known["tokens"], known["offsets"])
        wanted = vectors[known["begin"] : known["begin"] + len(known["tokens"])]
        np.testing.assert_allclose(row["vectors"], wanted, rtol=1e-6)
        np.testing.assert_allclose(other["vectors"], wanted, rtol=1e-6)


def test_vectors_of_all_layers_and_of_their_mean(plm, pretrained, tmp_path):
    model = plmkit.load(pretrained, device="cpu")
    every = model.embed("the cat sees", level="token", layers="all")
    assert every.shape == (3, 3, 32)  # the embeddings, and two layers
    np.testing.assert_allclose(every[:, -1], model.embed("the cat sees", level="token"), atol=1e-6)
    np.testing.assert_allclose(every.mean(1), model.embed("the cat sees", level="token", layers="mean"), atol=1e-6)
    reported = only_object(plm("embed", pretrained, "the cat sees", "--level", "token", "--layers", "all"))
    np.testing.assert_allclose(reported["vectors"][0], every, atol=1e-6)
    assert model.embed("the cat sees", layers="mean").shape == (32,)
    for options in (("--layers", "first"), ("--layers", "all")):
        assert plm("embed", pretrained, "the cat", *options).code == 2
