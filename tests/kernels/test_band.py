"""Attention of queries that read equally many steps back."""

import pytest
import torch

from plmkit.kernels.band import QUERIES_AT_ONCE, Band, plain_band


@pytest.mark.parametrize(("reach", "queries"), [(1, 3), (5, 1), (5, 3), (3, 5), (7, 2 * QUERIES_AT_ONCE + 9)])
def test_each_query_finds_what_the_reference_finds(reach, queries):
    torch.manual_seed(0)
    contents, places = torch.randn(2, 2, 3, queries, 4, dtype=torch.float64)
    keys, values = torch.randn(2, 2, 3, reach - 1 + queries, 4, dtype=torch.float64)
    distances = torch.randn(3, 4, reach, dtype=torch.float64)  # from the farthest to 0
    band = Band(reach, keys)
    turned = keys.transpose(-1, -2).contiguous()
    expected = plain_band(contents, places, turned, values, distances)
    for _ in range(2):  # what the first reading leaves in its buffer is not read
        torch.testing.assert_close(band.mix(contents, places, turned, values, distances), expected, atol=1e-12, rtol=0)


def test_the_reference_is_a_loop_over_queries_and_keys():
    """One head of width 1 and reach 2: weights softmax(q k + p d)."""
    contents, places = torch.tensor([[[[1.0]]]]), torch.tensor([[[[2.0]]]])
    keys, values, distances = (
        torch.tensor([[[[0.5, 1.5]]]]),
        torch.tensor([[[[3.0], [5.0]]]]),
        torch.tensor([[[1.0, 0.0]]]),
    )
    near, far = torch.tensor(1.5).exp(), torch.tensor(0.5 + 2.0).exp()
    expected = (far * 3 + near * 5) / (far + near)
    torch.testing.assert_close(plain_band(contents, places, keys, values, distances), expected.view(1, 1, 1, 1))
