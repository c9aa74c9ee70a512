"""From gradients to weights, checked against formulas written out for one number."""

import math

import pytest
import torch
from torch import nn

from plmkit.schedules.optimizers import AdamW, BertAdam, by_decay

GRADIENTS = [0.5, -1.0, 2.0, 0.01, 0.3]
RATES = [0.1, 0.2, 0.2, 0.1, 0.05]


def train(settings, shape: tuple[int, ...], start: float = 3.0) -> list[float]:
    """A tensor of one number, moved by each of the gradients; its value after each step."""
    weight = nn.Parameter(torch.full(shape, start, dtype=torch.float64))
    optimizer = settings.build([("weight", weight)], RATES[0])
    values = []
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        weight.grad = torch.full(shape, gradient, dtype=torch.float64)
        optimizer.step()
        values.append(weight.item())
    return values


def bert_by_hand(decay: float, weight: float = 3.0) -> list[float]:
    """m/(√v + 1e-6) + decay · weight, all of it times the rate; m and v as they are, not corrected."""
    first = second = 0.0
    values = []
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weight -= rate * (first / (math.sqrt(second) + 1e-6) + decay * weight)
        values.append(weight)
    return values


def adamw_by_hand(decay: float, weight: float = 3.0) -> list[float]:
    first = second = 0.0
    values = []
    for step, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        corrected = (first / (1 - 0.9**step)) / (math.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weight -= rate * decay * weight + rate * corrected
        values.append(weight)
    return values


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_berts_adam_is_the_released_formula(decay):
    assert train(BertAdam(decay=decay), (1, 1)) == pytest.approx(bert_by_hand(decay), abs=1e-12)


def test_berts_adam_decays_no_bias_and_no_norm():
    assert train(BertAdam(decay=0.5), (1,)) == pytest.approx(bert_by_hand(0.0), abs=1e-12)


@pytest.mark.parametrize(("shape", "decay"), [((1, 1), 0.01), ((1,), 0.0)])
def test_adamw_corrects_the_bias_of_its_moments_and_decays_apart(shape, decay):
    assert train(AdamW(decay=0.01), shape) == pytest.approx(adamw_by_hand(decay), abs=1e-12)


def test_the_first_step_of_berts_adam_is_root_ten_times_that_of_adamw():
    corrected = 3.0 - train(AdamW(decay=0.0), (1, 1))[0]
    uncorrected = 3.0 - train(BertAdam(decay=0.0), (1, 1))[0]
    assert corrected == pytest.approx(RATES[0])  # the sign of the gradient, times the rate
    assert uncorrected / corrected == pytest.approx(math.sqrt(10), rel=1e-3)


@pytest.mark.parametrize("settings", [AdamW(decay=0.3), BertAdam(decay=0.3)])
def test_matrices_decay_and_the_rest_does_not(settings):
    network = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 2), nn.LayerNorm(2))
    decaying, plain = settings.build(network.named_parameters(), 0.1).param_groups
    names = {parameter: name for name, parameter in network.named_parameters()}
    assert [names[p] for p in decaying["params"]] == ["0.weight", "1.weight"]
    assert [names[p] for p in plain["params"]] == ["1.bias", "2.weight", "2.bias"]
    assert (decaying["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert decaying["peak"] == plain["peak"] == 0.1


@pytest.mark.parametrize("settings", [AdamW(), BertAdam()])
def test_the_settings_reach_the_optimizer(settings):
    group = type(settings)(beta1=0.8, beta2=0.98, epsilon=1e-3).build(nn.Linear(2, 2).named_parameters(), 0.1)
    assert group.param_groups[0]["betas"] == (0.8, 0.98)
    assert group.param_groups[0]["eps"] == 1e-3


@pytest.mark.parametrize("settings", [AdamW(), BertAdam()])
def test_a_weight_without_a_gradient_stays_as_it_is(settings):
    used, unused = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimizer = settings.build([("used", used), ("unused", unused)], 0.1)
    used.grad = torch.ones(2, 2)
    optimizer.step()
    assert torch.equal(unused, torch.ones(2, 2))
    assert not torch.equal(used, torch.ones(2, 2))


def test_groups_hold_every_weight_once():
    network = nn.TransformerEncoderLayer(8, 2, 16)
    grouped = [p for group in by_decay(network.named_parameters(), 0.1, 0.01) for p in group["params"]]
    assert len(grouped) == len(set(grouped)) == len(list(network.parameters()))
