"""`run.average=N`: the model is the mean of the last N checkpoints, and training continues from the last one."""

import json

import pytest
import torch
from safetensors.torch import load_file

from plmkit.config.machine import Machine
from plmkit.errors import SettingError

TINY = (
    "stages=[[1.0, 16]]", "architecture.max_length=16", "architecture.layers=1", "architecture.heads=2",
    "architecture.width=8", "architecture.inner=16", "tokenizer.size=300", "run.threads=1", "run.checkpoint_steps=2",
    "schedule.batch=4",
)  # fmt: skip


def command(pairs, out, *more):
    sets = [part for setting in TINY for part in ("--set", setting)]
    return ["pretrain", "transformer-tiny", pairs, "--out", out, *sets, *more]


@pytest.fixture
def run(plm, pairs, tmp_path):
    """Nine steps, a checkpoint after every second and the last, of which three are averaged."""
    out = tmp_path / "run"
    ran = plm(*command(pairs, out, "--steps", 9, "--set", "run.average=3"))
    assert ran.code == 0, ran.err
    assert "The model is the mean of 3 checkpoints, at steps 6, 8, 9." in ran.err
    return out


def test_the_model_is_the_exact_mean_of_the_last_checkpoints(run):
    steps = sorted(path.name for path in (run / "checkpoints").iterdir() if path.name.startswith("step-"))
    assert [int(name.removeprefix("step-")) for name in steps] == [6, 8, 9]
    each = [load_file(run / "checkpoints" / name / "model.safetensors") for name in steps]
    model = load_file(run / "model.safetensors")
    assert not torch.equal(model["model.embed.tokens.weight"], each[-1]["model.embed.tokens.weight"])
    for name, weight in model.items():
        mean = torch.stack([one[name].double() for one in each]).mean(0)
        assert torch.equal(weight, mean.float()), name


def test_the_loss_that_is_reported_is_that_of_the_mean(run, plm, pairs, tmp_path):
    plain = tmp_path / "plain"
    assert plm(*command(pairs, plain, "--steps", 9)).code == 0
    losses = [json.loads((out / "run.json").read_text())["result"]["valid/translation_lm"] for out in (run, plain)]
    assert losses[0] != losses[1]
    last = [load_file(out / "checkpoints" / "step-00000009" / "model.safetensors") for out in (run, plain)]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])  # training itself is the same


def test_a_run_is_extended_from_its_last_checkpoint_not_from_the_mean(run, plm, pairs):
    assert plm(*command(pairs, run, "--steps", 2, "--extend", "--set", "run.average=3")).code == 0
    state = json.loads((run / "checkpoints" / "step-00000011" / "state.json").read_text())["state"]
    assert state["step"] == 11


def test_missing_weights_are_restored_as_the_mean(run, plm, pairs):
    before = load_file(run / "model.safetensors")
    (run / "model.safetensors").unlink()
    ran = plm(*command(pairs, run, "--steps", 9, "--set", "run.average=3"))
    assert (ran.code, "has been restored" in ran.err) == (0, True), ran.err
    after = load_file(run / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_average_of_no_checkpoint_is_refused():
    with pytest.raises(SettingError, match=r"run\.average must be 1 or more"):
        Machine(average=0)
