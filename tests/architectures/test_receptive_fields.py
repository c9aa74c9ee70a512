"""How far one layer sees: attention the whole row, a convolution its width, a recurrence everything before."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plmkit.architectures.encoder import Encoder
from plmkit.architectures.recurrent import Recurrent
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed

LENGTH = 9


def dependence(states: Callable[[Tensor], Tensor], width: int = 8) -> Tensor:
    """(L, L) True where the state at i has a gradient to the input at j."""
    torch.manual_seed(1)
    inputs = torch.randn(1, LENGTH, width, dtype=torch.float64, requires_grad=True)
    found = states(inputs)[0]
    gradients = [torch.autograd.grad(state.sum(), inputs, retain_graph=True)[0][0] for state in found]
    return torch.stack([gradient.abs().sum(-1) > 0 for gradient in gradients])


def of_model(model) -> Callable[[Tensor], Tensor]:
    """The states of a model of this project, from embeddings that are given."""

    def states(inputs: Tensor) -> Tensor:
        model.embed.tokens.forward = lambda tokens: inputs[:, : tokens.shape[-1]].view(*tokens.shape, -1)
        side = Side(tokens=torch.arange(LENGTH)[None], visible=torch.ones(1, LENGTH, dtype=torch.bool))
        return model(Batch(source=side)).hidden

    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return states


def test_one_layer_of_attention_sees_the_whole_row():
    shape = {"layers": 1, "heads": 2, "width": 8, "inner": 16, "max_length": LENGTH, "dropout": 0.0}
    model = Encoder(**shape, attention_dropout=0.0).build(unnamed(LENGTH)).double().eval()
    assert dependence(of_model(model)).all()


def test_a_recurrence_sees_everything_before_one_step_at_a_time():
    model = Recurrent(layers=1, width=8, dropout=0.0).build(unnamed(LENGTH)).double().eval()
    assert torch.equal(dependence(of_model(model)), torch.ones(LENGTH, LENGTH).tril().bool())


def test_a_convolution_sees_as_far_as_its_width_and_farther_with_every_layer():
    for layers in (1, 2, 3):
        stack = nn.Sequential(*(nn.Conv1d(8, 8, 3, padding=1) for _ in range(layers))).double()
        found = dependence(lambda inputs, stack=stack: stack(inputs.mT).mT)
        near = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs() <= layers
        assert torch.equal(found, near)
