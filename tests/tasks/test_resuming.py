"""A fine-tuning that is killed or interrupted continues inside its seed, to the same bits."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from plmkit.tasks import seed_run, seed_saves
from plmkit.training.watch import read_metrics

SETTINGS = (
    "--epochs",
    "3",
    "--set",
    "run.dtype=float32",
    "--set",
    "run.threads=1",
    "--set",
    "task.batch=16",
    "--set",
    "run.log_steps=1",
)
KILLED = """
import os, signal, sys
from plmkit.cli import main
from plmkit.tasks import seed_run, seed_saves

seed_saves.EVERY_SECONDS = seed_saves.SAVING_SHARE = 1e-9  # save at the first step, and never again
note, steps = seed_run.SeedRun.note, []

def dying(run, report, *others):
    note(run, report, *others)
    steps.append(report.state.step)
    if len(steps) == {steps}:
        os.kill(os.getpid(), signal.SIGKILL)

seed_run.SeedRun.note = dying
main()
"""


@pytest.fixture
def every_step(monkeypatch):
    """Save after every step."""
    monkeypatch.setattr(seed_saves, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(seed_saves, "SAVING_SHARE", 1e9)


def command(pretrained: Path, rows_file: Path, *more: object) -> list[object]:
    return ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--test", rows_file,
            *SETTINGS, *more]  # fmt: skip


def assert_same(one: Path, other: Path) -> None:
    """The same weights to the bit, scores, and lines of the log."""
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert json.loads((one / "scores.json").read_text()) == json.loads((other / "scores.json").read_text())
    assert read_metrics(one) == read_metrics(other)
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while this step of a seed is noted."""
    note = seed_run.SeedRun.note

    def pressed(run, report, *others):
        if report.state.step == step:
            os.kill(os.getpid(), signal.SIGINT)
        note(run, report, *others)

    monkeypatch.setattr(seed_run.SeedRun, "note", pressed)


def test_a_seed_that_is_killed_continues_from_its_checkpoint_to_the_same_bits(pretrained, rows_file, tmp_path, plm):
    assert plm(*command(pretrained, rows_file, "--out", tmp_path / "whole")).code == 0
    out = tmp_path / "killed"
    arguments = [str(part) for part in command(pretrained, rows_file, "--out", out)]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED.format(steps=8), *arguments], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (checkpoint,) = (out / "seeds" / "0-checkpoints").iterdir()
    assert checkpoint.name == "step-00000001"
    assert json.loads((out / "run.json").read_text())["state"] == "unfinished"
    ran = plm(*command(pretrained, rows_file, "--out", out))
    assert (ran.code, ran.err.count("Seed 0 continues from step 1.")) == (0, 1)
    assert_same(out, tmp_path / "whole")


@pytest.mark.parametrize("step", [3, 5, 9])  # the end of an epoch, the middle of one, and the last step
def test_a_seed_that_is_interrupted_continues_after_its_last_step(step, pretrained, rows_file, tmp_path, plm,
                                                                  monkeypatch, every_step):  # fmt: skip
    assert plm(*command(pretrained, rows_file, "--out", tmp_path / "whole", "--seeds", 2)).code == 0
    out = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        for seed in (0, 1):  # each seed is stopped once: the next call continues after the step
            ran = plm(*command(pretrained, rows_file, "--out", out, "--seeds", 2))
            assert ran.code == 130
            assert f"Seed {seed} was interrupted; the same command continues it from step {step}." in ran.err
    assert plm(*command(pretrained, rows_file, "--out", out, "--seeds", 2)).code == 0
    assert_same(out, tmp_path / "whole")


def test_several_tasks_continue_too(pretrained, rows_file, labelled, tmp_path, plm, monkeypatch, every_step):
    numbers = tmp_path / "numbers.tsv"
    numbers.write_text("text\tlabel\n" + "".join(f"the cat sees {n} birds\t{n}\n" for n in range(40)), encoding="utf-8")
    (tmp_path / "tasks.toml").write_text(
        f'[verbs]\nkind = "classify"\ntrain = "{rows_file}"\ndev = "{rows_file}"\n'
        f'[size]\nkind = "regress"\ntrain = "{numbers}"\ndev = "{numbers}"\n'
    )
    several = ["finetune", pretrained, "--tasks", tmp_path / "tasks.toml", *SETTINGS]
    assert plm(*several, "--out", tmp_path / "whole").code == 0
    with monkeypatch.context() as patch:
        stop_at(8, patch)
        assert plm(*several, "--out", tmp_path / "stopped").code == 130
    assert plm(*several, "--out", tmp_path / "stopped").code == 0
    assert_same(tmp_path / "stopped", tmp_path / "whole")
    assert len(json.loads((tmp_path / "whole" / "scores.json").read_text())["history"]) == 3


def test_checkpoints_hold_the_best_epoch_so_far_and_two_of_them_are_kept(pretrained, rows_file, tmp_path, plm,
                                                                        monkeypatch, every_step):  # fmt: skip
    out = tmp_path / "out"
    stop_at(8, monkeypatch)
    plm(*command(pretrained, rows_file, "--out", out))
    folder = out / "seeds" / "0-checkpoints"
    assert {path.name for path in folder.glob("step-*")} == {"step-00000007", "step-00000008"}
    best = json.loads((folder / "step-00000008" / "state.json").read_text())["state"]["notes"]["best"]
    assert best in (3, 6)
    assert load_file(folder / f"best-{best:08d}" / "model.safetensors")


def test_a_damaged_best_epoch_is_named(pretrained, rows_file, tmp_path, plm, monkeypatch, every_step):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stop_at(4, patch)
        plm(*command(pretrained, rows_file, "--out", out))
    best = out / "seeds" / "0-checkpoints" / "best-00000003"
    (best / "model.safetensors").write_bytes(b"nothing")
    ran = plm(*command(pretrained, rows_file, "--out", out))
    assert (ran.code, "Traceback" in ran.err) == (2, False)
    assert f"{best} is damaged, so this seed cannot be continued.\nRemove {best.parent} and run" in ran.err


# Early stopping


def test_training_stops_when_dev_does_not_get_better_and_says_so(pretrained, rows_file, tmp_path, plm):
    """With a learning rate of almost nothing, no epoch is better than the first."""
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--out", out,
              "--epochs", 10, "--set", "task.learning_rate=1e-12", "--set", "task.patience=2", "--set",
              "task.ngrams=false", "--set", "task.batch=16", "--set", "run.threads=1")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "Seed 0 stops here: no better on dev in 2 evaluations (task.patience=2)." in ran.err
    steps = [line["step"] for line in read_metrics(out) if "dev/0/accuracy" in line]
    assert steps == [3, 6, 9]
    scores = json.loads((out / "scores.json").read_text())
    assert (scores["epoch"], scores["stopped"]) == (1.0, 3.0)
    assert "Best on dev: epoch 1 of 10. Stopped after epoch 3." in ran.out


def test_a_run_that_was_interrupted_when_it_stopped_early_ends_there(pretrained, rows_file, tmp_path, plm, monkeypatch):
    arguments = command(pretrained, rows_file, "--set", "task.learning_rate=1e-12", "--set", "task.patience=1",
                        "--set", "task.ngrams=false")  # fmt: skip
    assert plm(*arguments, "--out", tmp_path / "whole").code == 0
    with monkeypatch.context() as patch:
        stop_at(6, patch)
        assert plm(*arguments, "--out", tmp_path / "stopped").code == 130
    assert plm(*arguments, "--out", tmp_path / "stopped").code == 0
    assert_same(tmp_path / "stopped", tmp_path / "whole")


def test_dev_is_scored_several_times_per_epoch(pretrained, rows_file, tmp_path, plm):
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--out", out,
              "--epochs", 1.5, "--set", "task.evaluations=2", "--set", "task.batch=8", "--set", "run.threads=1",
              "--set", "task.ngrams=false")  # fmt: skip
    assert ran.code == 0, ran.err
    assert [line["step"] for line in read_metrics(out) if "dev/0/accuracy" in line] == [3, 6, 9]


def test_dev_is_scored_at_most_twenty_times(pretrained, rows_file, tmp_path, plm):
    """Forty-eight rows are three steps of 16: 60 epochs are scored after every third."""
    out = tmp_path / "out"
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--dev", rows_file, "--out", out,
              "--epochs", 60, "--set", "task.batch=16", "--set", "run.threads=1", "--set",
              "task.ngrams=false")  # fmt: skip
    assert ran.code == 0, ran.err
    assert [line["step"] for line in read_metrics(out) if "dev/0/accuracy" in line] == list(range(9, 181, 9))


@pytest.mark.parametrize("name", ["patience", "evaluations"])
def test_what_needs_dev_is_refused_without_it(name, pretrained, rows_file, tmp_path, plm):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "out",
              "--set", f"task.{name}=2")  # fmt: skip
    assert (ran.code, ran.err) == (
        2, f"plm: task.{name} needs dev rows for every task: give --dev FILE, or leave it out.\n"
    )  # fmt: skip
