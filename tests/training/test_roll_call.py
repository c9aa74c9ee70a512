"""Of several processes one reports why the run ends, and one that has died is named by its rank."""

import signal
from threading import Timer

import pytest
from torch.distributed import HashStore

from plmkit.cli.app import fail
from plmkit.errors import SettingError
from plmkit.training import roll_call, world
from plmkit.training.roll_call import FAILED, RollCall, reports_failure
from plmkit.training.world import LostProcess, reported_lost_process


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch):
    """The store of three processes, of which this is one."""
    kept, before = HashStore(), signal.getsignal(signal.SIGTERM)
    for module in (roll_call, world):
        monkeypatch.setattr(module, "open_store", lambda: kept)
    monkeypatch.setattr(roll_call, "BEAT", 0.02)
    monkeypatch.setattr(roll_call, "SILENCE", 0.4)
    monkeypatch.setattr(roll_call, "HEAD_START", 0.2)
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "0")
    yield kept
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def others(store):
    """The signs of life of the processes 1 and 2."""
    alive = {rank: RollCall(store, rank, 3) for rank in (1, 2)}
    yield alive
    for one in alive.values():
        one.close()


def failing(monkeypatch: pytest.MonkeyPatch, rank: int) -> bool:
    monkeypatch.setenv("RANK", str(rank))
    return reports_failure()


def test_rank_0_reports_an_error_that_all_have(store, monkeypatch):
    assert [failing(monkeypatch, rank) for rank in (0, 1, 2)] == [True, False, False]


def test_the_first_to_fail_reports_an_error_that_rank_0_does_not_have(store, monkeypatch):
    assert [failing(monkeypatch, rank) for rank in (2, 1, 0)] == [True, False, False]


def test_rank_0_has_a_head_start(store, monkeypatch):
    Timer(0.05, lambda: store.add(FAILED, 1)).start()  # rank 0 fails while rank 1 waits for it
    assert not failing(monkeypatch, 1)


def test_an_error_is_printed_once_and_all_leave_with_code_2(store, monkeypatch, capsys):
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with pytest.raises(SystemExit) as left:
            fail("There is no file.")
        assert left.value.code == 2
    assert capsys.readouterr().err == "plm: There is no file.\n"


def test_the_process_that_has_died_is_named(others):
    others[2].close()
    with (
        pytest.raises(LostProcess, match=r"^The process with rank 2 \(of 3\) has died\.\nRun the same"),
        reported_lost_process(),
    ):
        raise RuntimeError("Connection closed by peer")


def test_all_that_have_died_are_named(others):
    for one in others.values():
        one.close()
    with pytest.raises(LostProcess, match=r"rank 1, 2 \(of 3\) has died"), reported_lost_process():
        raise RuntimeError("Connection closed by peer")


def test_a_process_that_has_reported_its_error_has_not_died(others, monkeypatch):
    others[2].close()
    assert failing(monkeypatch, 2)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LostProcess, match="its message says why"), reported_lost_process():
        raise RuntimeError("Connection closed by peer")
    assert not reports_failure()


def test_an_error_of_this_process_stays_itself_while_all_are_alive(others):
    with pytest.raises(RuntimeError, match="shapes do not match"), reported_lost_process():
        raise RuntimeError("shapes do not match")
    with pytest.raises(SettingError), reported_lost_process():
        raise SettingError("no such setting")


def test_a_process_that_torchrun_ends_names_the_one_that_has_died(others):
    others[1].close()
    with pytest.raises(LostProcess, match=r"rank 1 \(of 3\)"), reported_lost_process():
        signal.raise_signal(signal.SIGTERM)


def test_a_run_that_is_terminated_as_a_whole_leaves_with_the_code_of_sigterm(others):
    with pytest.raises(SystemExit) as left, reported_lost_process():
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143


def test_signals_are_as_before_after_a_run(others):
    before = signal.getsignal(signal.SIGTERM)
    with reported_lost_process():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
