"""The demo from end to end, on two pages of invented documentation instead of what is installed."""

import json
import random
from dataclasses import replace

import pytest

from plmkit.catalogue import find
from plmkit.corruption.arrange.pairs import SentencePairs
from plmkit.corruption.mask.token import TokenMasking
from plmkit.demo import demo as demonstration
from plmkit.preparation import opening
from plmkit.recipe import one_stream
from plmkit.schedules.schedule import Stage
from plmkit.tokenizers.wordpiece import WordPiece
from plmkit.training import device

WORDS = "return raise the a array file number shape new argument error default is not if with"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A corpus of forty documents, a task of two labels, and a recipe of one narrow layer."""
    rng = random.Random(0)

    def text() -> str:
        return " ".join(rng.choices(WORDS.split(), k=7)) + "."

    corpus = tmp_path / "documentation.txt"
    corpus.write_text("\n\n".join("\n".join(text() for _ in range(4)) for _ in range(40)), encoding="utf-8")
    files = [tmp_path / f"{part}.tsv" for part in ("train", "test")]
    for file in files:
        rows = [f"{text()}\t{label}" for label in ("maths", "files", "files") for _ in range(6)]
        file.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    base = find("bert-mini")
    recipe = replace(
        base,
        tokenizer=WordPiece(size=200),
        streams=one_stream(SentencePairs(), TokenMasking()),
        architecture=replace(base.architecture, layers=1, heads=2, width=32, inner=32),
        stages=(Stage(length=32),),
        schedule=replace(base.schedule, batch=4),
    )
    monkeypatch.setattr(device, "available_cores", lambda: 1)
    monkeypatch.setattr(demonstration, "find", lambda name: recipe)
    monkeypatch.setattr(demonstration, "SETTINGS", ())
    monkeypatch.setattr(opening, "docstring_corpus", lambda cache: corpus)
    monkeypatch.setattr(demonstration, "docstring_task", lambda cache: tuple(files))
    monkeypatch.setattr(demonstration, "TOKENS", 4_000)
    monkeypatch.setattr(demonstration, "WORDS", ("new", "raise", "zebra"))
    monkeypatch.setattr(demonstration, "TASK", replace(demonstration.TASK, epochs=1))
    return tmp_path


def test_the_demo_prints_scores_with_baselines_blanks_neighbours_and_files(small, plm):
    out = small / "runs" / "demo"
    ran = plm("demo", "--out", out, "--minutes", "5")
    assert ran.code == 0, ran.err
    reported = json.loads((out / "demo.json").read_text())
    for name, score in (
        ("pretrained, then fine-tuned", reported["pretrained"]),
        ("same network, random initial weights", reported["scratch"]),
        ("TF-IDF with a linear classifier", reported["linear"]),
        ("most frequent label", 12 / 18),
    ):
        assert f"{name:<37} {score:.3f}" in ran.out
    assert reported["margin"] == reported["pretrained"] - reported["scratch"]
    for other, score in (("random weights", reported["scratch"]), ("TF-IDF", reported["linear"])):
        margin = reported["pretrained"] - score
        verdict = f"wins by {margin:.3f}" if margin > 0 else f"LOSES by {-margin:.3f}"
        assert f"Against {other}, pretraining {verdict}." in ran.out
    assert {"new", "raise"} <= reported["neighbours"].keys()
    assert "new" not in reported["neighbours"]["new"]
    for blank in reported["blanks"]:
        assert blank["text"] in ran.out
        assert len(blank["answers"]) == 3
        token, probability = blank["untrained"][0]
        assert f"untrained: {token} {probability:.2%}" in ran.out
        assert blank["answers"][0] != blank["untrained"][0]
    assert f"{reported['losses'][0][1]:.2f} ┤" in ran.out  # the curve begins at its highest
    assert str(out) in ran.out
    for name in reported["files"]:
        assert (out / name).exists()
        assert name in ran.out
    assert "plm pretrain bert-mini my_texts/ --out runs/mine" in ran.out
    assert "plm finetune runs/mine --task classify --train train.csv --out runs/mine-labels" in ran.out


def test_the_demo_is_limited_by_tokens_as_well_as_by_minutes(small, plm, monkeypatch):
    monkeypatch.setattr(demonstration, "TOKENS", 600)
    ran = plm("demo", "--out", small / "out", "--minutes", "60", "--json")
    assert ran.code == 0, ran.err
    assert 600 <= ran.json["pretraining"]["tokens"] < 800
    assert "600 tokens, at most 60 minutes" in ran.err


def test_the_demo_as_json_is_one_object(small, plm):
    ran = plm("demo", "--out", small / "out", "--minutes", "0.005", "--json")
    assert ran.code == 0, ran.err
    assert {"pretrained", "scratch", "margin", "blanks", "out", "files"} <= ran.json.keys()


def test_a_finished_demo_is_shown_again_and_an_unfinished_one_continues(small, plm):
    out = small / "out"
    first = plm("demo", "--out", out, "--minutes", "0.005", "--json")
    weights = (out / "pretrained" / "model.safetensors").stat().st_mtime_ns
    again = plm("demo", "--out", out, "--minutes", "0.005", "--json")
    assert "holds a finished demo" in again.err
    assert again.json == first.json
    (out / "demo.json").unlink()
    ended = plm("demo", "--out", out, "--minutes", "0.005", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["pretrained"] == first.json["pretrained"]
    assert (out / "pretrained" / "model.safetensors").stat().st_mtime_ns == weights


def test_a_folder_with_other_content_is_left_unchanged(small, plm):
    (small / "out").mkdir()
    (small / "out" / "notes.txt").write_text("mine")
    ran = plm("demo", "--out", small / "out", "--minutes", "0.005")
    assert ran.code == 2
    assert "is not empty and does not hold a run (notes.txt)" in ran.err
    assert [path.name for path in (small / "out").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_an_invalid_time_is_refused(small, plm, minutes):
    ran = plm("demo", "--out", small / "out", "--minutes", minutes)
    assert ran.code == 2
    assert "--minutes must be a finite number above 0" in ran.err
    assert not (small / "out").exists()
