"""Heads can be left out, and everything else stays as it was."""

import pytest
import torch
import torch.nn.functional as F

from plmkit.layers.attention import SelfAttention, without_heads
from plmkit.layers.packing import Packing


@pytest.mark.parametrize("left_out", [(0,), (1, 3), (0, 1, 2, 3)])
def test_without_some_heads_the_output_is_that_of_a_loop_over_the_others(left_out):
    torch.manual_seed(0)
    layer, hidden = SelfAttention(8, 4, 0.0).double().eval(), torch.randn(5, 8, dtype=torch.float64)
    packing = Packing(torch.ones(1, 5, dtype=torch.bool))
    query, key, value = layer.query_key_value(hidden).split(8, -1)
    expected = layer.output.bias.expand(5, 8)
    for head in {*range(4)} - {*left_out}:
        own = slice(2 * head, 2 * head + 2)
        mixed = F.softmax(query[:, own] @ key[:, own].T / 2**0.5, -1) @ value[:, own]
        expected = expected + mixed @ layer.output.weight[:, own].T
    with torch.no_grad():
        whole = layer(hidden, packing)
        with without_heads(layer, *left_out):
            torch.testing.assert_close(layer(hidden, packing), expected)
        assert torch.equal(layer(hidden, packing), whole)
