"""The device of each process, and the commands that run in one process only."""

import pytest
import torch
from typer.main import get_command

from plmkit.cli import app, main
from plmkit.errors import SettingError
from plmkit.training import roll_call
from plmkit.training.world import backend, own_device


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine with two GPUs; lists those that were chosen."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    return chosen


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_each_process_has_the_gpu_of_its_local_rank(gpus, name):
    assert [own_device(name, rank) for rank in (0, 1)] == [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert gpus == [0, 1]
    assert backend(name) == "cpu:gloo,cuda:nccl"


def test_processes_share_the_cpu_where_it_is_given(gpus):
    assert own_device("cpu", 5) == torch.device("cpu")
    assert backend("cpu") == "gloo"
    assert gpus == []


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_more_processes_than_gpus_are_refused(gpus, name):
    with pytest.raises(SettingError, match=rf"Process 2 .* found 2 GPUs, and run\.device={name}\."):
        own_device(name, 2)


def test_one_gpu_for_all_processes_is_refused(gpus, monkeypatch):
    monkeypatch.setattr("plmkit.training.world.choose_device", torch.device)
    with pytest.raises(SettingError, match=r"needs its own GPU; found 2 GPUs, and run\.device=cuda:1"):
        own_device("cuda:1", 0)


def test_gpus_without_nccl_exchange_by_gloo(gpus, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    assert backend("auto") == "gloo"


def test_apple_gpus_are_not_for_several_processes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr("plmkit.training.world.choose_device", torch.device)
    assert own_device("auto", 1) == torch.device("cpu")
    with pytest.raises(SettingError, match="found 0 GPUs"):
        own_device("mps", 0)


@pytest.mark.parametrize("verb", sorted(get_command(app).commands))
def test_only_pretrain_runs_in_several_processes(verb, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(roll_call, "reports_failure", lambda: True)
    monkeypatch.setattr("sys.argv", ["plm", verb, "--no-such-option"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    refused = f"plm: plm {verb} runs in one process; found 2. Start it without torchrun.\n"
    assert (capsys.readouterr().err == refused) == (verb != "pretrain")
