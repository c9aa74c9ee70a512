import pytest
import torch

from plmkit.errors import SettingError
from plmkit.training import device
from plmkit.training.device import bfloat16_gain as measured_gain  # before tests put a number in its place
from plmkit.training.device import choose_device, choose_dtype, precision, set_threads

CPU = torch.device("cpu")


@pytest.mark.parametrize(("gain", "dtype"), [(0.02, torch.float32), (1.1, torch.float32), (1.9, torch.bfloat16)])
def test_a_cpu_computes_in_bfloat16_where_that_is_measured_to_be_faster(gain, dtype, monkeypatch):
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: gain)
    assert choose_dtype(CPU) is dtype


def test_bfloat16_that_is_only_emulated_is_refused(monkeypatch):
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: 0.02)
    with pytest.raises(SettingError, match=r"run\.dtype=bfloat16: this cpu only emulates it.* Use auto or float32\."):
        choose_dtype(CPU, "bfloat16")
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: 1.9)
    assert choose_dtype(CPU, "bfloat16") is torch.bfloat16


@pytest.mark.parametrize(
    ("seconds", "gain"),
    [
        ({(128, "float32"): 1.0, (128, "bfloat16"): 100.0}, 0.01),  # emulated: the large one is never tried
        ({(128, "float32"): 1.0, (128, "bfloat16"): 1.0, (512, "float32"): 9.0, (512, "bfloat16"): 5.0}, 1.8),
    ],
)
def test_the_gain_is_a_ratio_of_measured_products(seconds, gain, monkeypatch):
    monkeypatch.setattr(device, "product_seconds", lambda side, dtype: seconds[side, device.name_of(dtype)])
    assert measured_gain.__wrapped__() == pytest.approx(gain)


def test_a_product_that_is_sixteen_times_the_work_takes_longer():
    assert device.product_seconds(512, torch.float32) > 4 * device.product_seconds(128, torch.float32)


def test_a_narrow_network_is_measured_by_its_own_width(monkeypatch):
    monkeypatch.setattr(device, "bfloat16_gain", lambda width: 5.0 if width >= 256 else 0.2)
    assert choose_dtype(CPU, "auto", 32) is torch.float32
    assert choose_dtype(CPU, "auto", 256) is torch.bfloat16


def test_only_the_own_width_of_a_narrow_network_is_tried(monkeypatch):
    tried: list[int] = []
    monkeypatch.setattr(device, "product_seconds", lambda width, dtype: tried.append(width) or 1.0)
    measured_gain.__wrapped__(64)
    assert tried == [64, 64]


@pytest.mark.parametrize(
    ("asked", "kept", "fast", "dtype", "said"),
    [
        ("auto", None, True, torch.bfloat16, None),
        ("auto", "float32", True, torch.float32, None),  # as it began, though bfloat16 would be faster
        ("auto", "bfloat16", True, torch.bfloat16, None),
        ("auto", "bfloat16", False, torch.float32, "this cpu has no fast bfloat16"),
        ("float32", "bfloat16", True, torch.float32, "run.dtype=float32 is set"),
    ],
)
def test_a_run_continues_as_it_began_or_says_why_not(asked, kept, fast, dtype, said, monkeypatch):
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: 1.9 if fast else 0.02)
    reported: list[str] = []
    assert device.keep_dtype(CPU, asked, kept, reported.append) is dtype
    expected = [f"This run started in {kept} and continues in {device.name_of(dtype)}, because {said}."] if said else []
    assert reported == expected


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
    with pytest.raises(SettingError, match=f"run.device={name} is not available on this machine. Use auto or cpu"):
        choose_device(name)


def test_float32_computes_as_it_is_and_bfloat16_in_a_context():
    ones = torch.ones(2, 2)
    with precision(CPU, torch.float32):
        assert (ones @ ones).dtype is torch.float32
    with precision(CPU, torch.bfloat16):
        assert (ones @ ones).dtype is torch.bfloat16


def test_the_given_number_of_threads_is_used():
    before = torch.get_num_threads()
    try:
        assert set_threads(2) == 2
        assert set_threads(None) == device.available_cores() >= 1
    finally:
        torch.set_num_threads(before)


def test_a_small_product_that_is_slow_but_not_emulated_does_not_decide(monkeypatch):
    seconds = {(128, torch.float32): 1.0, (128, torch.bfloat16): 4.0, (256, torch.float32): 2.0}
    monkeypatch.setattr(device, "product_seconds", lambda width, dtype: seconds.get((width, dtype), 1.0))
    assert measured_gain.__wrapped__(256) == 2.0
