"""Two processes that train together: the same data, the same losses, one folder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from distributed_cases import HALF, RECIPES, STEPS, order_of, settings_of

from plmkit.data.batch import Batch, Side
from plmkit.errors import SettingError
from plmkit.storage.manifest import MANIFEST
from plmkit.terminal.screen import Screen
from plmkit.training.pretrain import pretrain
from plmkit.training.watch import read_metrics
from plmkit.training.world import World

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
CONTINUED = ("electra-tiny", "transformer-xl-tiny")  # samples, and a recurrent memory of each row


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of four sentences."""
    words = "the cat sees a red bird and my old dog likes the sea so it runs home".split()
    lines = [" ".join(words[(3 * n + k * k) % len(words)] for k in range(9)) + "." for n in range(240)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(lines[n : n + 4]) for n in range(0, 240, 4)) + "\n")
    return path


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "PLM_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def stopped_halfway(finished: Path, out: Path) -> Path:
    """The same run, as it was when its first checkpoint was written."""
    shutil.copytree(finished, out)
    shutil.rmtree(out / "checkpoints" / f"step-{STEPS:08}")
    for name in ("model.safetensors", MANIFEST):
        (out / name).unlink()
    about = json.loads((out / "run.json").read_text())
    del about["result"], about["checksum"]
    (out / "run.json").write_text(json.dumps({**about, "state": "unfinished"}))
    return out


@pytest.fixture(scope="module")
def runs(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one` and `two` hold runs of one and of two processes, `two_then_one` and `one_then_two` those of both."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLM_CACHE", str(root / "cache"))
        for name in RECIPES:
            pretrain(order_of(name, text, root / "one" / name), Screen())
        for name in CONTINUED:
            stopped_halfway(root / "one" / name, root / "one_then_two" / name)
        folders = [root / "two" / name for name in RECIPES] + [root / "one_then_two" / name for name in CONTINUED]
        ran = subprocess.run(
            [*LAUNCH, HERE / "two_processes.py", text, *folders],
            env=environment(root / "cache"), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        (root / "said").write_text(ran.stderr)
        for name in CONTINUED:
            pretrain(order_of(name, text, stopped_halfway(root / "two" / name, root / "two_then_one" / name)), Screen())
    return root


def losses_of(folder: Path) -> list[list[float]]:
    """The losses and the gradient norm of every step, and losses on held-out text, in the order of the log."""
    return [
        [value for name, value in line.items() if name.startswith(("train/", "valid/", "gradient_norm"))]
        for line in read_metrics(folder)
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_have_the_losses_of_one(runs, name):
    one, two = losses_of(runs / "one" / name), losses_of(runs / "two" / name)
    assert len(one) > STEPS
    assert one[0] != one[STEPS]
    for expected, found in zip(one, two, strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=2e-4)
    tokens = [json.loads((runs / who / name / "run.json").read_text())["result"]["tokens"] for who in ("one", "two")]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize("name", CONTINUED)
@pytest.mark.parametrize("how", ["two_then_one", "one_then_two"])
def test_a_checkpoint_continues_with_another_number_of_processes(runs, name, how):
    whole, continued = losses_of(runs / "one" / name), losses_of(runs / how / name)
    for expected, found in zip(whole, continued, strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=2e-4)


def test_the_first_process_alone_writes_and_prints(runs):
    said = (runs / "said").read_text()
    assert said.count("in 2 processes.") == len(RECIPES) + len(CONTINUED)
    assert len(re.findall(rf"100% seed 0, epoch \d+, step {STEPS} ", said)) == len(RECIPES) + len(CONTINUED)
    assert said.count(f"step {HALF}.") == len(CONTINUED)  # continuing from it
    for name in RECIPES:
        steps = [line["step"] for line in read_metrics(runs / "two" / name) if "learning_rate" in line]
        assert steps == list(range(1, STEPS + 1))
        assert len(list((runs / "two" / name / "tensorboard").iterdir())) == 1


def test_a_killed_process_ends_the_job_with_its_number(text, tmp_path):
    out = tmp_path / "run"
    sets = [part for setting in settings_of("bert-tiny") for part in ("--set", setting)]
    job = subprocess.Popen(
        [*LAUNCH, "-m", "plmkit", "pretrain", "bert-tiny", text, "--out", out, "--minutes", "5", *sets],
        env=environment(tmp_path / "cache"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for(lambda: (out / "metrics.jsonl").is_file() and read_metrics(out), 60)
        os.kill(process_of(job.pid, "1"), signal.SIGKILL)
        said = job.communicate(timeout=60)[1]
    finally:
        job.kill()
    assert job.returncode not in (0, None)
    assert re.findall("^plm: .*", said, re.MULTILINE) == ["plm: The process with rank 1 (of 2) has died."]
    assert "Run the same command again" in said


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["pretrain", "bert-tiny", "missing.txt", "--out", "run"], "There is no file or folder 'missing.txt'."),
        (["doctor", "missing.txt"], "plm doctor runs in one process; found 2. Start it without torchrun."),
    ],
    ids=["found by rank 0", "found by all"],
)
def test_an_error_is_printed_once_and_all_leave_with_code_2(tmp_path, command, message):
    ran = subprocess.run(
        [*LAUNCH, "-m", "plmkit", *command],
        env=environment(tmp_path / "cache"), cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    (printed,) = re.findall("^plm: (.*)", ran.stderr, re.MULTILINE)
    assert printed.startswith(message)
    assert re.findall(r"exitcode  : (-?\d+)", ran.stderr) == ["2", "2"]


def wait_for(happens, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.1)


def process_of(parent: int, rank: str) -> int:
    """The child of torchrun that has this rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            if f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
        except OSError:  # it has ended
            continue
    raise AssertionError(f"torchrun has no process of rank {rank}")


def test_more_processes_than_streams_of_text_are_refused():
    tokens = torch.zeros(2, 4, dtype=torch.long)
    batch = Batch(source=Side(tokens=tokens, visible=tokens == 0), continues=torch.ones(2, dtype=torch.bool))
    with pytest.raises(SettingError, match=r"(?s)3 processes share 2 streams of text .*Start fewer processes"):
        World(rank=0, size=3).part(batch, 0)
    assert len(World(rank=0, size=2).part(batch, 0).source.tokens) == 1
