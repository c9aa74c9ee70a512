"""From gradients to weights, checked against formulas written out for one number."""

import math

import pytest
import torch
from torch import nn

from plmkit.schedules.optimizers import Adadelta, Adamax, AdamW, BertAdam, Lamb, by_decay

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


def adamax_by_hand(decay: float, weight: float = 3.0) -> list[float]:
    """The mean of the gradients over the largest of them, which fades; the decay is apart from both."""
    first = largest = 0.0
    values = []
    for step, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient
        largest = max(0.999 * largest, abs(gradient) + 1e-8)
        weight -= rate * decay * weight
        weight -= rate / (1 - 0.9**step) * first / largest
        values.append(weight)
    return values


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_adamax_is_the_papers_formula_with_decoupled_decay(decay):
    assert train(Adamax(decay=decay), (1, 1)) == pytest.approx(adamax_by_hand(decay), abs=1e-12)
    assert train(Adamax(decay=decay), (1,)) == pytest.approx(adamax_by_hand(0.0), abs=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_berts_adam_is_the_released_formula(decay):
    assert train(BertAdam(decay=decay), (1, 1)) == pytest.approx(bert_by_hand(decay), abs=1e-12)


def test_berts_adam_decays_no_bias_and_no_norm():
    assert train(BertAdam(decay=0.5), (1,)) == pytest.approx(bert_by_hand(0.0), abs=1e-12)


@pytest.mark.parametrize(("shape", "decay"), [((1, 1), 0.01), ((1,), 0.0)])
def test_adamw_corrects_the_bias_of_its_moments_and_decays_apart(shape, decay):
    assert train(AdamW(decay=0.01), shape) == pytest.approx(adamw_by_hand(decay), abs=1e-12)


def test_adadeltas_steps_are_as_long_as_those_before():
    """Δ = −√(E[Δ²] + ε) / √(E[g²] + ε) · g (Zeiler, 2012, algorithm 1), times the rate."""
    weight, gradients, steps, expected = 3.0, 0.0, 0.0, []
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        gradients = 0.95 * gradients + 0.05 * gradient**2
        step = math.sqrt(steps + 1e-6) / math.sqrt(gradients + 1e-6) * gradient
        steps = 0.95 * steps + 0.05 * step**2
        weight -= rate * step
        expected.append(weight)
    assert train(Adadelta(rho=0.95, epsilon=1e-6), (1, 1)) == pytest.approx(expected, abs=1e-12)


def test_the_first_step_of_berts_adam_is_root_ten_times_that_of_adamw():
    corrected = 3.0 - train(AdamW(decay=0.0), (1, 1))[0]
    uncorrected = 3.0 - train(BertAdam(decay=0.0), (1, 1))[0]
    assert corrected == pytest.approx(RATES[0])  # the sign of the gradient, times the rate
    assert uncorrected / corrected == pytest.approx(math.sqrt(10), rel=1e-3)


@pytest.mark.parametrize("settings", [Adadelta(decay=0.3), AdamW(decay=0.3), BertAdam(decay=0.3)])
def test_matrices_decay_and_the_rest_does_not(settings):
    network = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 2), nn.LayerNorm(2))
    decaying, plain = settings.build(network.named_parameters(), 0.1).param_groups
    names = {parameter: name for name, parameter in network.named_parameters()}
    assert [names[p] for p in decaying["params"]] == ["0.weight", "1.weight"]
    assert [names[p] for p in plain["params"]] == ["1.bias", "2.weight", "2.bias"]
    assert (decaying["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert decaying["peak"] == plain["peak"] == 0.1


@pytest.mark.parametrize("settings", [AdamW(), BertAdam(), Lamb()])
def test_the_settings_reach_the_optimizer(settings):
    group = type(settings)(beta1=0.8, beta2=0.98, epsilon=1e-3).build(nn.Linear(2, 2).named_parameters(), 0.1)
    assert group.param_groups[0]["betas"] == (0.8, 0.98)
    assert group.param_groups[0]["eps"] == 1e-3


@pytest.mark.parametrize("settings", [Adadelta(), AdamW(), BertAdam(), Lamb()])
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


def lamb_by_hand(weight: list[float], gradients: list[list[float]], rate: float, decay: float) -> list[float]:
    """BertAdam's step u for each number, all of them times |weight| / |u|; m and v are not corrected."""
    first, second = [0.0] * len(weight), [0.0] * len(weight)
    for gradient in gradients:
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradient, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradient, strict=True)]
        update = [m / (math.sqrt(v) + 1e-6) + decay * w for m, v, w in zip(first, second, weight, strict=True)]
        lengths = math.hypot(*weight), math.hypot(*update)
        ratio = lengths[0] / lengths[1] if all(lengths) else 1.0
        weight = [w - rate * ratio * u for w, u in zip(weight, update, strict=True)]
    return weight


def moved(settings, name: str, start: list, gradients: list, rate: float = 0.1) -> torch.Tensor:
    """A weight of that name after a step for each of the gradients."""
    weight = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = settings.build([(name, weight)], rate)
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
    return weight.detach()


def test_the_first_step_of_lamb_is_the_rate_times_the_length_of_the_weight():
    # u = (0.1 / (sqrt(0.001) + 1e-6) + 0.01 * 3, 0.01 * 4) = (3.192178, 0.04); |w| = 5, |u| = 3.192428
    after = moved(Lamb(decay=0.01), "dense.weight", [[3.0, 4.0]], [[[1.0, 0.0]]])
    assert after[0].tolist() == pytest.approx(
        [3 - 0.1 * 5 / 3.192428 * 3.192178, 4 - 0.1 * 5 / 3.192428 * 0.04], abs=1e-6
    )
    assert float((after - torch.tensor([[3.0, 4.0]])).norm()) == pytest.approx(0.1 * 5)


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.5])
def test_lamb_is_the_released_formula(decay):
    gradients = [[0.5, -0.2, 1.0], [-1.0, 0.1, 0.0], [2.0, 2.0, -3.0]]
    after = moved(Lamb(decay=decay), "dense.weight", [[3.0, -1.0, 0.5]], [[g] for g in gradients])
    assert after[0].tolist() == pytest.approx(lamb_by_hand([3.0, -1.0, 0.5], gradients, 0.1, decay), abs=1e-12)


def test_the_ratio_is_one_where_the_weight_or_its_step_is_zero():
    gradients = [[[0.5, -0.2]]]
    born = [moved(settings, "dense.weight", [[0.0, 0.0]], gradients) for settings in (Lamb(), BertAdam())]
    torch.testing.assert_close(*born, atol=0, rtol=1e-15)
    assert born[0].abs().min() > 0.1
    still = moved(Lamb(decay=0.0), "dense.weight", [[3.0, 4.0]], [[[0.0, 0.0]]])
    assert still.tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("name", ["dense.bias", "attention.query_key_value.bias", "norm.weight"])
def test_lamb_leaves_biases_and_norms_to_adam_without_decay(name):
    gradients = [[0.5, -0.2], [0.1, 0.3]]
    plain = moved(BertAdam(decay=0.0), name, [3.0, 4.0], gradients)
    torch.testing.assert_close(moved(Lamb(decay=0.5), name, [3.0, 4.0], gradients), plain, atol=0, rtol=0)


def test_query_key_and_value_have_a_ratio_each_though_they_are_one_matrix():
    start = [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]
    gradients = [[[1.0, 2.0], [3.0, 1.0], [-1.0, 0.5]], [[0.1, -2.0], [0.3, 0.2], [1.0, 1.0]]]
    joint = moved(Lamb(), "attention.query_key_value.weight", start, gradients)
    apart = [moved(Lamb(), "query.weight", [start[row]], [[g[row]] for g in gradients])[0] for row in range(3)]
    torch.testing.assert_close(joint, torch.stack(apart), atol=1e-12, rtol=0)
    whole = moved(Lamb(), "dense.weight", start, gradients)
    assert not torch.allclose(whole, joint, atol=1e-3)


def test_lamb_holds_every_weight_once():
    named = {"a.query_key_value.weight": (6, 2), "a.query_key_value.bias": (6,), "b.weight": (2, 2), "c.weight": (2,)}
    made = {name: nn.Parameter(torch.ones(shape)) for name, shape in named.items()}
    groups = Lamb(decay=0.3).build(made.items(), 0.1).param_groups
    names = {parameter: name for name, parameter in made.items()}
    held = [([names[p] for p in group["params"]], group["parts"], group["weight_decay"]) for group in groups]
    assert held == [
        (["b.weight"], 1, 0.3),
        (["a.query_key_value.weight"], 3, 0.3),
        (["a.query_key_value.bias", "c.weight"], 0, 0.0),
    ]
    assert {group["peak"] for group in groups} == {0.1}
