"""`--search`: which settings are tried, in which order, within which time, and what is kept."""

import json
import os
import shutil
import signal

import pytest

import plmkit
from plmkit.tasks import seed_run, trials

SETTINGS = ("--set", "run.threads=1", "--set", "task.batch=16", "--set", "task.ngrams=false", "--epochs", "1")


@pytest.fixture
def search(pretrained, rows_file):
    """A search over three learning rates."""
    return ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, *SETTINGS,
            "--search"]  # fmt: skip


def test_every_trial_is_reported_and_the_best_is_the_run(search, pretrained, rows_file, tmp_path, plm):
    out = tmp_path / "out"
    ran = plm(*search, "--out", out, "--json")
    assert ran.code == 0, ran.err
    found = ran.json["search"]
    first, *others = found["trials"]
    assert [one["learning_rate"] / first["learning_rate"] for one in others] == [2.0, 0.5]  # the usual one first
    scores = [one["score"] for one in found["trials"]]
    assert found["best"] == scores.index(max(scores)) + 1
    assert json.loads((out / "search.json").read_text()) == found
    assert ran.json == {"out": str(out), **json.loads((out / "scores.json").read_text())}
    rate = found["trials"][found["best"] - 1]["learning_rate"]
    alone = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, *SETTINGS,
                "--set", f"task.learning_rate={rate!r}", "--out", tmp_path / "alone")  # fmt: skip
    assert alone.code == 0
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()
    assert not (out / "trials").exists()
    assert plmkit.load(out).predict(["the cat sees"])[0].label in ("good", "bad")
    again = plm(*search, "--out", out)
    assert (again.code, "holds this fine-tuning, finished" in again.err) == (0, True)


def test_a_trial_that_would_not_fit_is_not_started(search, tmp_path, plm):
    ran = plm(*search, "--out", tmp_path / "out", "--minutes", "0.00001", "--json")
    assert ran.code == 0, ran.err
    assert [one["state"] for one in ran.json["search"]["trials"]] == ["finished", "untried", "untried"]
    assert ran.err.count("2 trials not started: the shortest would take about ") == 1


def test_a_search_that_is_interrupted_continues_inside_its_trial(search, tmp_path, plm, monkeypatch):
    assert plm(*search, "--out", tmp_path / "whole").code == 0
    out, note, steps = tmp_path / "stopped", seed_run.SeedRun.note, []

    def pressed(run, report, *others):
        steps.append(report.state.step)
        if len(steps) == 5:  # the second step of the second trial
            os.kill(os.getpid(), signal.SIGINT)
        note(run, report, *others)

    with monkeypatch.context() as patch:
        patch.setattr(seed_run.SeedRun, "note", pressed)
        assert plm(*search, "--out", out).code == 130
        assert plm(*search, "--out", out).code == 0
    assert steps == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    whole, stopped = (json.loads((folder / "search.json").read_text()) for folder in (tmp_path / "whole", out))
    assert [one["score"] for one in stopped["trials"]] == [one["score"] for one in whole["trials"]]


def test_a_loss_that_is_not_finite_ends_one_trial_only(search, tmp_path, plm, monkeypatch):
    run = seed_run.SeedRun.run

    def diverging(one, *given):
        if one.finetuning.out.name == "2":
            raise trials.Diverged("The loss is not finite", "task.learning_rate")
        return run(one, *given)

    monkeypatch.setattr(seed_run.SeedRun, "run", diverging)
    ran = plm(*search, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert [one["state"] for one in json.loads((tmp_path / "out" / "search.json").read_text())["trials"]] == [
        "finished", "diverged", "finished",
    ]  # fmt: skip
    assert "diverged" in ran.out


def test_a_shorter_length_is_tried_where_rows_are_long(pretrained, rows_file, tmp_path):
    long = tmp_path / "long.tsv"
    lines = rows_file.read_text().splitlines()
    long.write_text("\n".join([lines[0], *(f"{'the cat sees a bird and ' * 8}{line}" for line in lines[1:])]) + "\n")
    model = plmkit.finetune(
        pretrained, "classify", long, tmp_path / "out", dev=long, epochs=1, search=True, quiet=True,
        settings={"run.threads": 1, "task.learning_rate": 1e-3, "task.ngrams": False},
    )  # fmt: skip
    found = json.loads((tmp_path / "out" / "search.json").read_text())
    assert [one["length"] for one in found["trials"]] == [64, 32]
    best = found["trials"][found["best"] - 1]
    assert next(iter(model.tasks.values())).length == best["length"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--minutes", "5"), "--minutes is the time for --search, which tries several settings."),
        (("--search", "--minutes", "0"), "--minutes must be a finite number above 0; found 0."),
        (("--search", "--epochs", "1", "--set", "task.learning_rate=1e-3", "--set", "task.length=32"),
         "--search varies learning rate, epochs and length, and all of them are given."),
        (("--search",), "--search compares settings on dev rows, and a task has none: give --dev FILE."),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused(more, said, pretrained, rows_file, tmp_path, plm):
    dev = () if more == ("--search",) else ("--dev", rows_file)
    ran = plm(
        "finetune", pretrained, "--task", "classify", "--train", rows_file, *dev, "--out", tmp_path / "out", *more
    )
    assert (ran.code, ran.err.startswith(f"plm: {said}")) == (2, True), ran.err
    assert not (tmp_path / "out").exists()


def test_an_unfinished_search_may_get_more_minutes_and_a_finished_one_not(search, tmp_path, plm, monkeypatch):
    out = tmp_path / "out"

    def pressed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy", pressed)  # all is tried, nothing kept
        assert plm(*search, "--out", out, "--minutes", "0.00001").code == 130
    assert plm(*search, "--out", out, "--minutes", "9").code == 0
    assert [one["state"] for one in json.loads((out / "search.json").read_text())["trials"]] == ["finished"] * 3
    refused = plm(*search, "--out", out, "--minutes", "10")
    assert (refused.code, "minutes was 9.0, is 10.0" in refused.err) == (2, True)
