"""A run that is killed, at whatever moment, goes on with the same command and ends with the same weights."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plmkit.training.log import read_metrics
from plmkit.training.pretrain import interruptible

SETTINGS = (
    "architecture.layers=1", "architecture.width=32", "architecture.heads=2", "architecture.inner=64",
    "architecture.longest=32", "architecture.dropout=0.1", "architecture.attention_dropout=0.1",
    "schedule.batch=4", "schedule.lengths=[[0.5, 16], [1.0, 32]]", "corruption.copies=2", "tokenizer.size=200",
    "run.threads=1", "run.log_steps=1", "run.checkpoint_steps=5",
)  # fmt: skip
STEPS = 40

# Runs the command in a child that is told where to die, as often as there are places; then prints how each ended.
# A place is `module`, `function`, and after how many calls; `before` the call is done, or after.
FORKS = """
import importlib, json, os, resource, signal, sys
import torch._dynamo, torch.utils.tensorboard  # slow to import, so once for all
from plmkit.cli import main
import plmkit.training.pretrain

def die_at(module, name, call, when, argument=None):
    holder = importlib.import_module(module)
    original, calls = getattr(holder, name), []
    def watched(*args, **settings):
        if argument is None or argument in args:
            calls.append(name)
        if len(calls) == call and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **settings)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(holder, name, watched)

def child(place):
    if isinstance(place, int):  # the largest file that may be written
        resource.setrlimit(resource.RLIMIT_FSIZE, (place, place))
    elif place:
        die_at(*place)
    try:
        main()
    except SystemExit as stop:
        sys.stderr.flush()
        os._exit(stop.code or 0)

places = json.loads(sys.argv[1])
sys.argv = ["plm", *sys.argv[2:]]
endings = []
for place in places:
    number = os.fork()
    if not number:
        child(place)
    endings.append(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
sys.stdout.flush()
print("ENDINGS", json.dumps(endings))
"""


def arguments(corpus: Path, out: Path) -> list[str]:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["pretrain", "bert-tiny", str(corpus), "--out", str(out), "--steps", str(STEPS), *sets]


def run_at(places: list, corpus: Path, out: Path) -> tuple[list[int], str]:
    """How each child ended (-9: killed), and what they said."""
    told = subprocess.run(
        [sys.executable, "-c", FORKS, json.dumps(places), *arguments(corpus, out)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout.rpartition("ENDINGS")[2]), told.stderr


def start(corpus: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "plmkit.cli", *arguments(corpus, out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_step(out: Path, step: int, process: subprocess.Popen) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        path = out / "metrics.jsonl"
        if path.is_file() and f'"step": {step},' in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.002)
    raise AssertionError(f"step {step} was not seen: {process.communicate()}")


@pytest.fixture
def whole(corpus: Path, tmp_path: Path) -> Path:
    """The run that nobody interrupts."""
    out = tmp_path / "whole"
    assert run_at([None], corpus, out)[0] == [0]
    return out


def assert_equal_runs(out: Path, whole: Path) -> None:
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert without_time(out) == without_time(whole)
    assert [line["step"] for line in read_metrics(out) if "rate" in line] == list(range(1, STEPS + 1))
    assert files(out) == files(whole)


def without_time(out: Path) -> list[dict]:
    timed = ("seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if name not in timed} for line in read_metrics(out)]


def files(out: Path) -> list[str]:
    """All names but those of TensorBoard, of which each start makes one."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if "tfevents" not in path.name)


@pytest.mark.slow
def test_a_run_killed_at_every_kind_of_moment_ends_with_the_same_bits(corpus, tmp_path, whole):
    train, checkpoint, log = "plmkit.training.pretrain", "plmkit.training.checkpoint", "plmkit.training.log"
    places = [
        ("os", "replace", 1, "before"),  # nothing but an unfinished file in the folder, if any
        (train, "write_run", 1, "after"),  # run.json and no tokenizer
        ("plmkit.tokenizers.tokenizer", "write", 3, "before"),  # half of the tokenizer's files
        ("plmkit.training.loop", "set_rate", 3, "before"),  # in the third step, before any checkpoint
        (checkpoint, "write_json", 1, "before"),  # the first checkpoint, complete but for its state
        ("plmkit.training.loop", "set_rate", 8, "after"),  # between a checkpoint and the next
        (log, "write_text", 1, "before"),  # while the lines of lost steps are dropped
        (checkpoint, "save_tensors", 2, "before"),  # the second checkpoint, with weights and no optimizer
        (checkpoint, "sweep", 1, "before"),  # a checkpoint is there, what was left of others too
        ("os", "unlink", 2, "after", "model.safetensors"),  # an old checkpoint is half removed
        (train, "validate", 1, "before"),
        ("plmkit.training.loop", "set_rate", 12, "before"),
        (train, "save_final", 1, "before"),  # all is trained
        (train, "save_final", 1, "after"),
        (train, "write_run", 2, "before"),  # all is done but to say so
        None,
    ]
    out = tmp_path / "run"
    endings, said = run_at(places, corpus, out)
    assert endings == [-signal.SIGKILL] * (len(places) - 1) + [0], said
    assert_equal_runs(out, whole)


@pytest.mark.slow
def test_a_run_killed_from_outside_ends_with_the_same_bits(corpus, tmp_path, whole):
    out = tmp_path / "run"
    for step in (13, 31):
        process = start(corpus, out)
        wait_for_step(out, step, process)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (out / "model.safetensors").exists()
    assert run_at([None], corpus, out)[0] == [0]
    assert_equal_runs(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_stop_saves_and_goes_on_with_the_same_command(corpus, tmp_path, whole, number):
    out = tmp_path / "run"
    process = start(corpus, out)
    wait_for_step(out, 12, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert " and saved. The same command goes on from here.\n" in said
    assert "Traceback" not in said
    stopped = int(said.partition("Stopped at step ")[2].split()[0])
    assert 12 <= stopped < STEPS
    assert (out / "checkpoints" / f"step-{stopped:08d}" / "state.json").is_file()
    endings, said = run_at([None], corpus, out)
    assert endings == [0]
    assert f"Going on from step {stopped}." in said
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert without_time(out) == without_time(whole)


@pytest.mark.slow
def test_a_disk_that_fills_up_during_a_save_leaves_the_checkpoint_before(corpus, tmp_path, whole):
    out = tmp_path / "run"
    weights = (whole / "model.safetensors").stat().st_size
    kill_at_7 = ("plmkit.training.loop", "set_rate", 7, "before")
    endings, said = run_at([kill_at_7, weights - 4096, weights + 4096], corpus, out)
    assert endings == [-signal.SIGKILL, 2, 2], said
    failures = [line for line in said.splitlines() if line.startswith("plm: ")]
    assert len(failures) == 2  # once with the weights, once with the optimizer
    assert all("cannot be written" in line and "File too large" in line for line in failures), said
    assert "Traceback" not in said
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000005"]
    assert run_at([None], corpus, out)[0] == [0]
    assert_equal_runs(out, whole)


def test_the_first_signal_is_noted_and_the_second_stops_at_once():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), interruptible() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
