"""Cells step by step are torch's own layers, forward and backward."""

import pytest
import torch
from torch import nn

from plmkit.layers.recurrent_cells import CELLS

REFERENCES = {"lstm": nn.LSTM, "gru": nn.GRU}


@pytest.mark.parametrize("name", CELLS)
def test_steps_are_torchs_layer_with_the_same_weights(name):
    torch.manual_seed(0)
    layer, reference = CELLS[name](7, 5, batch_first=True).double(), REFERENCES[name](7, 5, batch_first=True).double()
    reference.load_state_dict(layer.state_dict())
    inputs = torch.randn(3, 6, 7, dtype=torch.float64)
    state = tuple(torch.randn(3, 5, dtype=torch.float64) for _ in range(layer.state_parts))
    whole, last = layer.run(inputs, state)

    stepped, outputs = state, []
    first, rest = inputs.split([4, 3], dim=-1)  # what is known before the steps, and what is not
    for products, later in zip(layer.products(first).unbind(1), rest.unbind(1), strict=True):
        stepped = layer.step(products + layer.more(later), stepped)
        outputs.append(stepped[0])
    found = torch.stack(outputs, 1)
    found.square().sum().backward()

    before = tuple(part[None] for part in state)
    expected, after = reference(inputs, before if name == "lstm" else before[0])
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(whole, expected)
    for one, other, theirs in zip(stepped, last, after if name == "lstm" else (after,), strict=True):
        torch.testing.assert_close(one, theirs[0])
        torch.testing.assert_close(other, theirs[0])
    for weight, parameter in reference.named_parameters():
        torch.testing.assert_close(layer.get_parameter(weight).grad, parameter.grad)
