"""Threads follow the cores that other programs leave free."""

import multiprocessing
import os
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from toy_models import toy

import plmkit
from plmkit.generation.options import GenerationOptions
from plmkit.training import device, threads, usage
from plmkit.training.threads import Threads, wanted
from plmkit.training.usage import Usage, others

SHORT = GenerationOptions(tokens=2)


@pytest.fixture(autouse=True)
def as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    Threads.latest = None


class Clock:
    """A machine whose other programs keep `busy` cores busy while time is moved on by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
        self.now, self.total, self.busy = 100.0, 0.0, 0.0
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(device, "available_cores", lambda: cores)
        monkeypatch.setattr(threads, "usage", self.usage)
        monkeypatch.setattr(threads.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(threads, "AT_IMPORT", self.usage())

    def usage(self) -> Usage:
        return Usage(clock=self.now, busy=self.total, own=0.0)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        self.total += self.busy * seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, cores=2)


@pytest.mark.parametrize(
    ("cores", "busy", "count"),
    [(2, 0.0, 2), (2, 0.4, 2), (2, 0.7, 1), (2, 1.9, 1), (8, 1.0, 7), (8, 7.9, 1), (1, 0.0, 1)],
)
def test_a_thread_for_each_free_core_and_one_at_least(cores, busy, count):
    assert wanted(cores, busy) == count


def test_what_this_process_used_is_not_what_others_used():
    before, after = Usage(clock=10.0, busy=50.0, own=5.0), Usage(clock=14.0, busy=57.0, own=8.0)
    assert others(before, after) == 1.0
    assert others(before, before) == 0.0


def test_a_quiet_machine_gives_all_cores_in_silence(clock):
    said: list[str] = []
    clock.pass_by(1.0)
    crew = Threads(None, said.append)
    assert (crew.count, torch.get_num_threads(), said) == (2, 2, [])


def test_a_busy_machine_is_noticed_at_the_start_and_said(clock):
    said: list[str] = []
    clock.busy = 1.0
    clock.pass_by(1.0)
    Threads(None, said.append)
    assert torch.get_num_threads() == 1
    assert said == ["Other programs use 1.0 of 2 cores: computing with 1 thread."]


def test_load_that_comes_is_left_room_within_a_second_and_load_that_goes_after_five(clock):
    said: list[str] = []
    clock.pass_by(1.0)
    crew = Threads(None, said.append)
    clock.busy = 1.2
    clock.pass_by(0.5)
    crew.look()
    assert torch.get_num_threads() == 2  # a moment's load is no reason
    clock.pass_by(0.4)
    crew.look()  # too early to look again
    clock.pass_by(0.1)
    crew.look()
    assert torch.get_num_threads() == 1
    clock.busy = 0.0
    for _ in range(10):
        clock.pass_by(0.5)
        crew.look()
        assert torch.get_num_threads() == 1
    clock.pass_by(0.5)
    crew.look()
    assert torch.get_num_threads() == 2
    assert said == [
        "Other programs use 1.2 of 2 cores: computing with 1 thread.",
        "The cores are free again: computing with 2 threads.",
    ]


def test_a_break_in_the_load_of_others_starts_the_wait_again(clock):
    clock.busy = 1.0
    clock.pass_by(1.0)
    crew = Threads(None, lambda _: None)
    for busy, seconds in ((0.0, 4.5), (1.0, 0.5), (0.0, 5.0)):
        clock.busy = busy
        for _ in range(int(2 * seconds)):
            clock.pass_by(0.5)
            crew.look()
            assert torch.get_num_threads() == 1


@pytest.mark.parametrize("verb", ["predict", "embed", "generate"])
def test_generating_and_reading_look_too(verb, clock, finetuned):
    clock.pass_by(1.0)
    model = plmkit.load(finetuned, device="cpu")
    work = {"predict": model.predict, "embed": model.embed, "generate": partial(toy().generate, options=SHORT)}[verb]
    Threads(None, lambda _: None)
    assert torch.get_num_threads() == 2
    clock.busy = 1.0
    for _ in range(3):
        clock.pass_by(0.5)
        work(["the cat sees a house."])
    assert torch.get_num_threads() == 1


def test_every_step_of_training_looks(monkeypatch, plm, pretrained, rows_file, corpus, tiny_settings, tmp_path):
    looks: list[int] = []
    monkeypatch.setattr(Threads, "look", lambda self: looks.append(1))
    ran = plm("pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", "--steps", 3, *tiny_settings)
    assert (ran.code, len(looks)) == (0, 3)
    tuning = ("--task", "classify", "--train", rows_file, "--out", tmp_path / "tuned", "--set", "task.batch=1000")
    ran = plm("finetune", pretrained, *tuning, "--epochs", 2)
    assert (ran.code, len(looks)) == (0, 3 + 2)


def test_what_was_long_ago_says_nothing_of_now(clock):
    said: list[str] = []
    clock.pass_by(threads.LONGEST + 1)
    clock.busy = 1.0

    def sleep(seconds: float) -> None:
        assert seconds == pytest.approx(threads.SHORTEST)
        clock.pass_by(seconds)

    threads.time.sleep, slept = sleep, threads.time.sleep
    try:
        Threads(None, said.append)
    finally:
        threads.time.sleep = slept
    assert said == ["Other programs use 1.0 of 2 cores: computing with 1 thread."]


def test_a_given_number_stays(clock):
    said: list[str] = []
    clock.busy = 2.0
    clock.pass_by(1.0)
    crew = Threads(2, said.append)
    for _ in range(3):
        clock.pass_by(threads.EVERY + 0.1)
        crew.look()
    assert (torch.get_num_threads(), said) == (2, [])


@pytest.mark.parametrize(
    ("given", "count"),
    [("3", 3), ("3,1", 3), ("99", 8), ("1", 1), ("0", 8), ("", 8), ("all", 8)],
)
def test_the_number_that_openmp_is_given_is_not_exceeded(given, count, monkeypatch):
    Clock(monkeypatch, cores=8).pass_by(1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert Threads(None, print).count == count
    assert Threads(2, print).count == 2  # run.threads is said to us, and more precisely


def test_within_the_number_that_openmp_is_given_free_cores_count(monkeypatch):
    said: list[str] = []
    for busy, count in ((3.0, 4), (6.0, 2)):  # of eight cores, five and then two are free
        clock = Clock(monkeypatch, cores=8)
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        clock.busy = busy
        clock.pass_by(1.0)
        assert Threads(None, said.append).count == count
    assert said == ["Other programs use 6.0 of 8 cores: computing with 2 threads."]


def test_the_number_that_torchrun_gives_to_openmp_is_nobodys_choice(monkeypatch):
    """It is 1 in every process, however many cores there are."""
    Clock(monkeypatch, cores=8).pass_by(1.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert Threads(None, print, processes=2).count == 4


def test_without_counts_of_the_system_all_cores_are_taken(clock, monkeypatch):
    monkeypatch.setattr(threads, "AT_IMPORT", None)
    monkeypatch.setattr(threads, "usage", lambda: None)
    assert Threads(None, print).count == 2


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.skipif(usage.AT_IMPORT is None, reason="this system has no /proc/stat")
def test_the_system_counts_a_busy_child_as_another_program():
    before = usage.usage()
    child = multiprocessing.get_context("spawn").Process(target=spin, args=(1.5,))
    child.start()
    time.sleep(1.2)
    after = usage.usage()
    child.terminate()
    child.join()
    assert before is not None and after is not None
    assert others(before, after) > 0.2
    assert after.own - before.own < 0.6


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "PASSIVE 100000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"), ({"GOMP_SPINCOUNT": "5"}, "None 5")],
)
def test_waiting_threads_soon_sleep_from_the_first_import_on_unless_the_user_chose(given, found):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    code = f"import sys, plmkit.cli, os; assert 'torch' not in sys.modules; print(*map(os.environ.get, {names}))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found


def test_a_container_has_the_cores_that_it_is_given(tmp_path, monkeypatch):
    file = tmp_path / "cpu.max"
    for text, share in (("150000 100000\n", 1.5), ("max 100000\n", float("inf")), ("", float("inf"))):
        file.write_text(text)
        assert device.container_share(file) == share
    assert device.container_share(tmp_path / "none") == float("inf")
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(device, "container_share", lambda: 1.5)
    assert device.available_cores() == 2
