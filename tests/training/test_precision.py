"""A run in bfloat16: chosen by a measurement, kept in the folder, and computed where it matters."""

import json
from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plmkit.catalogue import find
from plmkit.config.machine import settle
from plmkit.data.samples import Place
from plmkit.preparation.prepare import prepare
from plmkit.terminal.screen import Screen
from plmkit.training import device
from plmkit.training.step import Step


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that is fast in bfloat16."""
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: 1.9)


def dtype_of(folder) -> str:
    return json.loads((folder / "run.json").read_text())["dtype"]


def test_a_pretraining_run_keeps_its_precision_and_says_when_it_cannot(
    corpus, tmp_path, plm, tiny_settings, fast, monkeypatch
):
    command = ["pretrain", "bert-tiny", corpus, "--out", tmp_path / "run", *tiny_settings]
    first = plm(*command, "--steps", 2)
    assert first.code == 0, first.err
    assert "Computing on cpu with 1 thread in bfloat16, measured 1.9 times as fast as float32." in first.err
    assert dtype_of(tmp_path / "run") == "bfloat16"
    monkeypatch.setattr(device, "bfloat16_gain", lambda *_: 0.02)
    other = plm(*command, "--steps", 1, "--extend")
    assert other.code == 0, other.err
    assert (
        "This run started in bfloat16 and continues in float32, because this cpu has no fast bfloat16.\n"
        "Computing on cpu with 1 thread in float32." in other.err
    )
    assert dtype_of(tmp_path / "run") == "float32"


def test_a_fine_tuning_says_and_keeps_its_precision(pretrained, rows_file, tmp_path, plm, fast):
    command = ["finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "tuned"]
    ran = plm(*command, "--epochs", 1, "--set", "run.threads=1")
    assert ran.code == 0, ran.err
    assert "Computing on cpu with 1 thread in bfloat16, measured 1.9 times as fast as float32." in ran.err
    assert dtype_of(tmp_path / "tuned") == "bfloat16"
    assert "holds this fine-tuning, finished" in plm(*command, "--epochs", 1, "--set", "run.dtype=float32").err


class Products(TorchDispatchMode):
    """Counts the multiplications of all matrix products, by precision."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm"):
            first, second = [value for value in args if isinstance(value, torch.Tensor)][-2:]
            self.work[first.dtype] += first.numel() * second.shape[-1]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-tiny", "electra-tiny", "xlnet-tiny"])
def test_in_bfloat16_hardly_a_product_stays_in_float32(name, corpus):
    settings = settle(find(name), ["run.threads=1", "tokenizer.size=300"])
    material = prepare(settings, [str(corpus)], None, 0, Screen())
    network = settings.recipe.build(material.tokenizer.vocabulary)
    batch, _ = material.samples.next(Place(), 1, settings.recipe.stages[0].length)
    with Products() as counted:
        Step(network, torch.optim.SGD(network.parameters()), dtype=torch.bfloat16).gradients(batch)
    total = sum(counted.work.values())
    assert total > 0
    assert counted.work[torch.bfloat16] / total > 0.97, counted.work


NAMES = (
    "bert-tiny bert-wwm-mini roberta-tiny spanbert-mini ernie-mini albert-tiny electra-tiny electra-tiny-adversarial "
    "electra-tiny-weighted gpt1-tiny gpt2-tiny gpt3-tiny char-transformer-tiny transformer-xl-tiny lstm-tiny xlnet-tiny"
)
CLUSTERS = (
    "architecture.layers=1", "architecture.heads=2", "architecture.width=32", "architecture.inner=64",
    "architecture.cutoffs=[10, 20, 40]", "stages=[[1.0, 16]]",
)  # fmt: skip
FAMILIES: dict[str, tuple[str, ...]] = {**dict.fromkeys(NAMES.split(), ()), "transformer-xl-wt103": CLUSTERS}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_of_every_family_in_bfloat16_has_nearly_the_loss_of_float32(name, corpus):
    settings = settle(find(name), ["run.threads=1", "tokenizer.size=300", *FAMILIES[name]])
    material = prepare(settings, [str(corpus)], None, 0, Screen())
    batch, _ = material.samples.next(Place(), 2, settings.recipe.stages[0].length)
    losses = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        network = settings.recipe.build(material.tokenizer.vocabulary).train()
        torch.manual_seed(1)
        losses.append(Step(network, torch.optim.SGD(network.parameters()), dtype=dtype).gradients(batch).losses)
        assert all(weight.grad.isfinite().all() for weight in network.parameters() if weight.grad is not None)
    assert losses[0].keys() == losses[1].keys()
    # what a generator samples differs by its rounded scores, and with it the losses that follow from samples
    exact = losses[0].keys() - {"replaced_token", "adversarial_generator"}
    assert all(abs(losses[0][loss] - losses[1][loss]) < 0.02 * losses[0][loss] for loss in exact), losses
