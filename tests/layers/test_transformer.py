"""Dropout is exact where it can be, and right on average elsewhere."""

import pytest
import torch
import torch.nn.functional as F

from plmkit.kernels.dropout_mask import mask_like
from plmkit.layers.attention import attend
from plmkit.layers.transformer import Dropout, drop


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_the_share_and_the_mean_are_kept(share):
    torch.manual_seed(0)
    dropped = drop(torch.ones(1000, 1001), share)
    assert abs((dropped == 0).double().mean() - share) < 4 * (share * (1 - share) / 1e6) ** 0.5 + 3e-4 * (share < 0.99)
    assert abs(dropped.mean() - 1) < 0.15
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / (1 - share)))


@pytest.mark.parametrize("share", [0.1, 0.15])
def test_a_share_between_two_limits_is_met_from_row_to_row(share):
    torch.manual_seed(0)
    rows, width = 8192, 512
    gone = (drop(torch.ones(rows, width), share) == 0).double()
    deviation = (share * (1 - share) / (rows * width) + (0.5 / 256) ** 2 / rows) ** 0.5
    assert abs(gone.mean() - share) < 4 * deviation < abs(round(share * 256) / 256 - share)  # one limit would not do
    assert (gone.mean(0) - share).abs().max() < 5 * (share / rows) ** 0.5  # at every place


def test_neighbours_are_dropped_independently():
    """Eight numbers come from one draw: no two of them may go together."""
    torch.manual_seed(0)
    gone = (drop(torch.ones(250_000, 8), 0.3) == 0).float()
    together = gone.T @ gone / len(gone)
    assert torch.allclose(together[~torch.eye(8, dtype=torch.bool)], torch.tensor(0.09), atol=3e-3)


@pytest.mark.parametrize("shape", [(0,), (5,), (3, 0), (0, 3), (2, 3, 7)])
def test_a_mask_has_the_shape_of_its_numbers(shape):
    assert mask_like(torch.ones(shape, dtype=torch.float64), 0.5).shape == shape


def test_the_gradient_passes_where_the_number_passed():
    torch.manual_seed(0)
    numbers = torch.ones(37, 5, requires_grad=True)
    dropped = drop(numbers, 0.25)
    dropped.sum().backward()
    assert torch.equal(numbers.grad, dropped.detach())


def test_the_same_seed_drops_the_same_and_evaluation_drops_nothing():
    layer, numbers = Dropout(0.5), torch.randn(9, 7)
    torch.manual_seed(3)
    first = layer(numbers)
    torch.manual_seed(3)
    assert torch.equal(first, layer(numbers))
    assert layer.eval()(numbers) is numbers


def test_attention_with_dropout_is_torchs_attention_but_for_the_mask():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 6, 8)
    visible = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None]
    for mask in (None, visible):
        ours = attend(query, key, value, mask, dropout=1e-9)  # too small to drop anything
        assert torch.allclose(ours, F.scaled_dot_product_attention(query, key, value, attn_mask=mask), atol=1e-6)
    many = torch.stack([attend(query, key, value, visible, dropout=0.2) for _ in range(4000)]).mean(0)
    assert torch.allclose(many, F.scaled_dot_product_attention(query, key, value, attn_mask=visible), atol=0.06)


def test_dropout_is_the_same_in_the_fused_form():
    layer, hidden, numbers = Dropout(0.3), torch.randn(9, 7), torch.randn(9, 7)
    torch.manual_seed(3)
    added = layer.add(hidden, numbers)
    torch.manual_seed(3)
    assert torch.allclose(added, hidden + layer(numbers))
    assert torch.equal(layer.eval().add(hidden, numbers), hidden + numbers)
