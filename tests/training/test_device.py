import pytest
import torch

from plmkit.errors import SettingError
from plmkit.training import device
from plmkit.training.device import choose_device, choose_dtype, cpu_flags, has_bfloat16, precision, set_threads

CPU = torch.device("cpu")


@pytest.mark.parametrize("flags", [{"avx2"}, {"avx2", "avx512_bf16"}, {"amx_bf16", "avx512_bf16"}])
def test_a_cpu_never_computes_in_bfloat16_unless_told(flags, monkeypatch):
    monkeypatch.setattr(device, "cpu_flags", lambda: frozenset(flags))
    assert choose_dtype(CPU) is torch.float32


@pytest.mark.parametrize(
    ("flags", "has"),
    [({"avx2", "avx512f", "avx512_vnni"}, False), (set(), False), ({"avx512_bf16"}, True), ({"amx_bf16"}, True)],
)
def test_bfloat16_on_a_cpu_needs_hardware_that_has_it(flags, has, monkeypatch):
    monkeypatch.setattr(device, "cpu_flags", lambda: frozenset(flags))
    assert has_bfloat16(CPU) is has
    if has:
        assert choose_dtype(CPU, "bfloat16") is torch.bfloat16
    else:
        with pytest.raises(SettingError, match=r"run\.dtype=bfloat16: this cpu only emulates it.* Take float32\."):
            choose_dtype(CPU, "bfloat16")


def test_a_gpu_computes_in_bfloat16_where_its_hardware_has_it(monkeypatch):
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, has=has: has)
        assert choose_dtype(torch.device("cuda")) is (torch.bfloat16 if has else torch.float32)


def test_apple_computes_in_float32():
    assert choose_dtype(torch.device("mps")) is torch.float32


def test_float32_can_be_had_anywhere_and_an_unknown_type_nowhere():
    assert choose_dtype(torch.device("cuda"), "float32") is torch.float32
    with pytest.raises(SettingError, match=r"run\.dtype takes auto, float32 or bfloat16; found 'float16'\."):
        choose_dtype(CPU, "float16")


def test_the_best_device_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device() == CPU
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device() == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device() == torch.device("cuda")
    assert choose_device("cpu") == CPU


@pytest.mark.parametrize("name", ["tpu", "", "meta", "cuda:99", "my computer"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(SettingError, match=f"run.device={name} is not on this machine; take auto, or cpu"):
        choose_device(name)


def test_flags_are_those_the_system_tells():
    flags = cpu_flags()
    assert all(flag and " " not in flag for flag in flags)


def test_float32_computes_as_it_is_and_bfloat16_in_a_context():
    ones = torch.ones(2, 2)
    with precision(CPU, torch.float32):
        assert (ones @ ones).dtype is torch.float32
    with precision(CPU, torch.bfloat16):
        assert (ones @ ones).dtype is torch.bfloat16


def test_threads_are_those_asked_for():
    before = torch.get_num_threads()
    try:
        assert set_threads(2) == 2
        assert set_threads(None) == device.available_cores() >= 1
    finally:
        torch.set_num_threads(before)
