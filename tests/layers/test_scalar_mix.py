"""The weighted mean of layers, by hand."""

import pytest
import torch

from plmkit.layers.scalar_mix import ScalarMix

LAYERS = [torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[[5.0, 6.0], [7.0, 8.0]]]), torch.ones(1, 2, 2)]
VISIBLE = torch.ones(1, 2, dtype=torch.bool)


def test_layers_are_weighted_by_a_softmax_and_scaled():
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.1, 0.2, 0.3]))
        mix.scale.fill_(0.5)
    shares = torch.tensor([0.300610, 0.332225, 0.367165])
    torch.testing.assert_close(mix.weights.softmax(0), shares, atol=1e-6, rtol=0)
    assert float(mix.weights.detach().softmax(0).sum()) == pytest.approx(1)
    wanted = 0.5 * sum(share * layer for share, layer in zip(shares, LAYERS, strict=True))
    torch.testing.assert_close(mix(LAYERS, VISIBLE), wanted, atol=1e-5, rtol=0)


def test_at_first_it_is_the_mean_of_all_layers_and_gradients_reach_weights_and_scale():
    mix = ScalarMix(3)
    found = mix(LAYERS, VISIBLE)
    torch.testing.assert_close(found, torch.stack(LAYERS).mean(0))
    found[0, 0].square().sum().backward()
    assert mix.weights.grad.abs().min() > 0 and mix.scale.grad.abs() > 0


def test_normalised_layers_have_one_mean_and_one_variance_over_the_visible_positions_of_the_batch():
    torch.manual_seed(0)
    layer = torch.randn(2, 3, 4) * 3 + 5
    visible = torch.tensor([[True, True, True], [True, False, False]])
    found = ScalarMix(1, normalise=True)([layer], visible)
    torch.testing.assert_close(found[visible].mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(found[visible].var(correction=0), torch.tensor(1.0))
    assert found[visible].mean(1).abs().max() > 0.1  # not per token
    changed = layer.clone()
    changed[1, 1:] = 100.0  # padding counts for nothing
    torch.testing.assert_close(ScalarMix(1, normalise=True)([changed], visible)[visible], found[visible])
