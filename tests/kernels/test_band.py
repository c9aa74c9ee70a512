"""Attention of queries that read equally many steps back."""

import pytest
import torch

from plmkit.kernels.band import QUERIES_AT_ONCE, Band


@pytest.mark.parametrize(("reach", "queries"), [(1, 3), (5, 1), (5, 3), (3, 5), (7, 2 * QUERIES_AT_ONCE + 9)])
def test_each_query_finds_what_a_loop_over_its_keys_finds(reach, queries):
    torch.manual_seed(0)
    contents, places = torch.randn(2, 2, 3, queries, 4, dtype=torch.float64)
    keys, values = torch.randn(2, 2, 3, reach - 1 + queries, 4, dtype=torch.float64)
    distances = torch.randn(3, 4, reach, dtype=torch.float64)  # from the farthest to 0
    band = Band(reach, keys)
    for _ in range(2):  # what the first reading leaves behind is not read
        found = band.mix(contents, places, keys.transpose(-1, -2).contiguous(), values, distances)
        for query in range(queries):
            seen = slice(query, query + reach)
            by_content = (contents[:, :, query, None] * keys[:, :, seen]).sum(-1)
            by_distance = (places[:, :, query, :, None] * distances).sum(2)
            expected = ((by_content + by_distance).softmax(-1)[..., None] * values[:, :, seen]).sum(2)
            torch.testing.assert_close(found[:, :, query], expected, atol=1e-12, rtol=0)
