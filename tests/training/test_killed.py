"""A run that is killed, at whatever moment, resumes with the same command and ends with the same weights."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plmkit.training.watch import interruptible, read_metrics

SETTINGS = (
    "architecture.layers=1", "architecture.width=32", "architecture.heads=2", "architecture.inner=64",
    "architecture.max_length=32", "architecture.dropout=0.1", "architecture.attention_dropout=0.1",
    "schedule.batch=4", "stages=[[0.5, 16], [1.0, 32]]", "corruption.static_masks=2", "tokenizer.size=200",
    "run.threads=1", "run.log_steps=1", "run.checkpoint_steps=5",
)  # fmt: skip
STEPS = 40

# Runs commands in children that are killed at a given place. Starting torch takes seconds, so it is started once and
# forked.
# A place is a module, a function of it, the number of the call, and whether to die before or after it, or to wait there
# until it may continue.
SERVER = """
import importlib, json, os, resource, signal, sys, time
import torch._dynamo, torch.utils.tensorboard  # slow to import, so once for all
from plmkit.cli import main
import plmkit.training.pretrain

def die_at(go, module, name, call, when, argument=None):
    holder = importlib.import_module(module)
    original, calls = getattr(holder, name), []
    def watched(*args, **settings):
        if argument is None or argument in args:
            calls.append(name)
        if len(calls) == call and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(calls) == call and when == "wait":
            open(go + ".here", "w").close()
            while not os.path.exists(go):
                time.sleep(0.01)
        result = original(*args, **settings)
        if len(calls) == call and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(holder, name, watched)

def child(arguments, place, said):
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(2, 1)
    if isinstance(place, int):  # the largest file that may be written
        resource.setrlimit(resource.RLIMIT_FSIZE, (place, place))
    elif place:
        die_at(said + ".go", *place)
    sys.argv = ["plm", *arguments]
    code = 1
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    number = os.fork()
    if not number:
        child(*json.loads(line))
    print(number, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)
"""


class Server:
    """One process that runs command after command, each in a fork of itself."""

    def __init__(self, folder: Path) -> None:
        self.said, self.go, self.here = (folder / name for name in ("said", "said.go", "said.go.here"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, arguments: list[str], place: object = None) -> int:
        """The number of the process that runs the command."""
        for path in (self.go, self.here):
            path.unlink(missing_ok=True)
        print(json.dumps([arguments, place, str(self.said)]), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def wait(self) -> None:
        """Until it waits at its place."""
        wait_until(self.here.exists)

    def end(self) -> tuple[int, str]:
        """Its exit code (-9: killed), and what it said; where it waits, it may continue."""
        self.go.touch()
        code = int(self.process.stdout.readline())
        return code, self.said.read_text(encoding="utf-8")

    def run(self, arguments: list[str], place: object = None) -> tuple[int, str]:
        self.begin(arguments, place)
        return self.end()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLM_CACHE", str(folder / "cache"))
        served = Server(folder)
    yield served
    served.process.kill()
    served.process.communicate()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of five sentences of six words."""
    rng = random.Random(0)
    words = ["cat", "dog", "bird", "fish", "sees", "hears", "likes", "finds", "a", "the", "my", "red", "old", "long"]
    sentences = [" ".join(rng.choices(words, k=6)) + "." for _ in range(300)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, 300, 5)) + "\n")
    return path


def arguments(corpus: Path, out: Path) -> list[str]:
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["pretrain", "bert-tiny", str(corpus), "--out", str(out), "--steps", str(STEPS), *sets]


@pytest.fixture(scope="module")
def whole(server: Server, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody interrupts."""
    out = tmp_path_factory.mktemp("whole") / "run"
    code, said = server.run(arguments(corpus, out))
    assert code == 0, said
    return out


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not true():
        assert time.monotonic() < until, "nothing happened for five minutes"
        time.sleep(0.002)


def assert_equal_runs(out: Path, whole: Path) -> None:
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert without_time(out) == without_time(whole)
    assert [line["step"] for line in read_metrics(out) if "learning_rate" in line] == list(range(1, STEPS + 1))
    assert files(out) == files(whole)


def steps_told(out: Path) -> list[int]:
    """Of a run that may be writing at this moment."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line)["step"] for line in lines if line.endswith("}")]


def without_time(out: Path) -> list[dict]:
    timed = ("seconds", "tokens_per_second")
    return [{name: value for name, value in line.items() if name not in timed} for line in read_metrics(out)]


def files(out: Path) -> list[str]:
    """All names but those of TensorBoard, of which each start makes one."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if "tfevents" not in path.name)


@pytest.mark.slow
def test_a_run_killed_at_every_kind_of_moment_ends_with_the_same_bits(server, corpus, tmp_path, whole):
    folder, checkpoint, log = "plmkit.training.run_folder", "plmkit.training.checkpoint", "plmkit.training.watch"
    places = [
        ("os", "replace", 1, "before"),  # nothing but an unfinished file in the folder, if any
        ("plmkit.tokenizers.tokenizer", "put_text", 3, "before"),  # half of the tokenizer's files
        (folder, "write_json", 1, "after"),  # run.json is there
        ("plmkit.training.loop", "rate_progress", 3, "before"),  # in the third step, before any checkpoint
        (checkpoint, "write_json", 1, "before"),  # the first checkpoint, complete but for its state
        ("plmkit.training.loop", "rate_progress", 8, "after"),  # between a checkpoint and the next
        (log, "write_text", 1, "before"),  # while the lines of lost steps are dropped
        (checkpoint, "save_tensors", 2, "before"),  # the second checkpoint, with weights and no optimizer
        (checkpoint, "sweep", 1, "before"),  # a checkpoint is there, what was left of others too
        ("os", "unlink", 2, "after", "model.safetensors"),  # an old checkpoint is half removed
        ("plmkit.training.step", "validate", 1, "before"),
        ("plmkit.training.loop", "rate_progress", 12, "before"),
        (folder, "save_tensors", 1, "before"),  # all is trained
        (folder, "checksum", 1, "before"),  # the weights are there
        (folder, "write_json", 2, "before"),  # all is done but to say so
    ]
    out = tmp_path / "run"
    for place in places:
        code, said = server.run(arguments(corpus, out), place)
        assert code == -signal.SIGKILL, (place, said)
    code, said = server.run(arguments(corpus, out))
    assert code == 0, said
    assert_equal_runs(out, whole)


@pytest.mark.slow
def test_a_run_killed_from_outside_ends_with_the_same_bits(server, corpus, tmp_path, whole):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "plmkit.cli", *arguments(corpus, out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: 6 in steps_told(out))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    for steps in (9, 13):
        number = server.begin(arguments(corpus, out), ("plmkit.training.loop", "rate_progress", steps, "wait"))
        server.wait()
        os.kill(number, signal.SIGKILL)
        assert server.end()[0] == -signal.SIGKILL
    assert not (out / "model.safetensors").exists()
    assert server.run(arguments(corpus, out))[0] == 0
    assert_equal_runs(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_gets_a_signal_saves_and_the_same_command_resumes_it(server, corpus, tmp_path, whole, kind):
    out = tmp_path / "run"
    number = server.begin(arguments(corpus, out), ("plmkit.training.loop", "rate_progress", 13, "wait"))
    server.wait()
    os.kill(number, kind)
    code, said = server.end()
    assert code == 130, said
    assert "Stopped and saved at step 13. Run the same command to continue.\n" in said  # the step under way is done
    assert "Traceback" not in said
    assert (out / "checkpoints" / "step-00000013" / "state.json").is_file()
    code, said = server.run(arguments(corpus, out))
    assert code == 0, said
    assert "Resuming from step 13." in said
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert without_time(out) == without_time(whole)


@pytest.mark.slow
def test_a_disk_that_fills_up_during_a_save_leaves_the_checkpoint_before(server, corpus, tmp_path, whole):
    out = tmp_path / "run"
    weights = (whole / "model.safetensors").stat().st_size
    server.run(arguments(corpus, out), ("plmkit.training.loop", "rate_progress", 7, "before"))
    for largest in (weights - 4096, weights + 4096):  # too small for the weights, too small for the optimizer
        code, said = server.run(arguments(corpus, out), largest)
        assert code == 2, said
        failure = said.partition("plm: ")[2]
        assert "cannot be written" in failure and "File too large" in failure
        assert len(failure.splitlines()) <= 3
        assert "Traceback" not in said
        assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000005"]
    assert server.run(arguments(corpus, out))[0] == 0
    assert_equal_runs(out, whole)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("first", SIGNALS)
def test_the_first_signal_is_noted_and_ctrl_c_after_it_stops_at_once(first):
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt), interruptible() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), first)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGTERM)  # a terminal that closes sends several, and the step continues
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_under_nohup_a_closed_terminal_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


IN_A_TERMINAL = """
import sys, time
from pathlib import Path
from plmkit.training.watch import interruptible

with interruptible() as interrupted:
    print("ready", flush=True)
    while not interrupted():
        time.sleep(0.01)
    print("a step, printed to a terminal that is gone", flush=True)
    print("and its progress", file=sys.stderr, flush=True)
    Path(sys.argv[1]).write_text("saved")
"""


def test_a_run_whose_terminal_is_closed_can_still_save(tmp_path):
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, str(tmp_path / "file")], stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    assert b"ready" in os.read(ours, 100)
    os.close(ours)  # which closes the terminal
    assert process.wait(60) == 0
    assert (tmp_path / "file").read_text() == "saved"
