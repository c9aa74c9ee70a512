"""What fine-tuning does where a setting is left out or asks for what a network has not."""

from dataclasses import replace

import pytest
import torch

from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.two_stream import TwoStream
from plmkit.catalogue import find
from plmkit.errors import SettingError
from plmkit.network import Network
from plmkit.tasks.head import LabelHead
from plmkit.tasks.settings import TaskSettings
from plmkit.tasks.trial import layers_of, optimizer_of


def settled(name: str, **settings) -> TaskSettings:
    return TaskSettings(**settings).settled(find(name).architecture)


@pytest.mark.parametrize(
    ("name", "rate", "warmup", "lm_weight"),
    [
        ("bert-base", 3e-5, 0.1, 0.0),
        ("bert-tiny", 5e-4, 0.1, 0.0),
        ("xlnet-base", 3e-5, 0.1, 0.0),
        ("gpt1", 6.25e-5, 0.002, 0.5),
        ("gpt2-small", 6.25e-5, 0.002, 0.5),
        ("lstm-tiny", 5e-4, 0.1, 0.5),
    ],
)
def test_what_is_left_out_is_by_the_network(name, rate, warmup, lm_weight):
    found = settled(name)
    assert found.rate == pytest.approx(rate)
    assert (found.warmup, found.lm_weight) == (warmup, lm_weight)


def test_narrow_decoders_want_higher_rates_too():
    architecture = replace(find("gpt1").architecture, width=384, heads=6, inner=1536)
    assert TaskSettings().settled(architecture).rate == pytest.approx(2.5e-4)


def test_what_is_set_stays():
    found = settled("gpt1", rate=1e-4, warmup=0.0, lm_weight=0.0)
    assert (found.rate, found.warmup, found.lm_weight) == (1e-4, 0.0, 0.0)


@pytest.mark.parametrize("name", ["transformer-xl-tiny", "xlnet-tiny", "char-transformer-tiny", "bert-tiny"])
def test_a_language_model_beside_the_task_is_refused_where_none_is_built(name):
    with pytest.raises(SettingError, match=r"Leave task\.lm_weight out"):
        settled(name, lm_weight=0.5)
    assert settled(name, lm_weight=0.0).lm_weight == 0


def test_a_language_model_is_not_trained_in_a_frozen_network():
    with pytest.raises(SettingError, match="nothing to train"):
        TaskSettings(frozen=True, lm_weight=0.5)
    assert settled("gpt1", frozen=True).lm_weight == 0


def test_the_command_says_so_and_writes_nothing(pretrained, plm, rows_file, tmp_path):
    ran = plm("finetune", pretrained, "--task", "classify", "--train", rows_file, "--out", tmp_path / "task",
              "--set", "task.lm_weight=0.3")  # fmt: skip
    assert (ran.code, "this Encoder has none" in ran.err, (tmp_path / "task").exists()) == (2, True, False)


def peaks_of(architecture, decay: float) -> dict[str, float]:
    """The highest rate of each weight, of 1."""
    with torch.device("meta"):
        model = architecture.build(range(9))
        head = LabelHead(width=architecture.width, outputs=2, numeric=False, pooling="first", length=8)
        network = Network(model, {"label": head}, {"label": 1.0})
    optimizer = optimizer_of(network, TaskSettings(layer_decay=decay), 1.0, layers_of(network))
    names = {id(weight): name for name, weight in network.named_parameters()}
    return {names[id(weight)]: group["peak"] for group in optimizer.param_groups for weight in group["params"]}


def test_xlnets_last_layer_has_the_full_rate_and_the_first_of_24_a_factor_to_the_23rd():
    peaks = peaks_of(TwoStream(layers=24, heads=1, width=4, inner=4, pooler=True), 0.75)
    for layer in range(24):
        mine = {peak for name, peak in peaks.items() if name.startswith(f"model.blocks.{layer}.")}
        assert mine == {0.75 ** (23 - layer)}
    assert peaks["model.blocks.0.feed_forward.expand.weight"] == pytest.approx(0.001338, abs=1e-6)
    assert peaks["model.blocks.23.feed_forward.expand.weight"] == 1
    assert {peak for name, peak in peaks.items() if not name.startswith("model.blocks.")} == {1}


def test_an_lstms_lower_layers_learn_slower():
    peaks = peaks_of(Recurrent(layers=3, width=4), 0.5)
    for layer, factor in enumerate((0.0625, 0.125, 0.25)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            assert peaks[f"model.cells.{name}_l{layer}"] == factor
    assert peaks["model.embed.tokens.weight"] == 0.03125
    assert peaks["heads.label.classify.weight"] == 1
