"""Products in bfloat16 whose number of rows is rounded up."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plmkit.kernels.autograd import chunked_cross_entropy, plain_cross_entropy
from plmkit.kernels.linear import Linear, linear, plain_linear, rounded, with_bfloat16_products
from plmkit.training.device import precision

CPU = torch.device("cpu")


class Rows(TorchDispatchMode):
    """Keeps the sizes of all factors of matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in ("mm", "addmm"):
            self.shapes += [value.shape for value in args if isinstance(value, torch.Tensor) and value.dim() == 2]
        return function(*args, **(kwargs or {}))


def test_numbers_of_rows_are_rounded_up_by_at_most_a_sixteenth_to_sixteen_per_power_of_two():
    assert [rounded(rows) for rows in (0, 1, 15, 16, 31, 33, 64, 65, 1000, 1025)] == [
        0, 1, 15, 16, 31, 34, 64, 68, 1024, 1088,
    ]  # fmt: skip
    for rows in range(1, 5000):
        assert rows <= rounded(rows) <= rows * 17 / 16
    assert len({rounded(rows) for rows in range(1024, 2048)}) == 17  # with both ends


@pytest.mark.parametrize("shape", [(33, 8), (3, 11, 8)])
@pytest.mark.parametrize("biased", [True, False])
def test_in_bfloat16_values_and_gradients_are_those_of_the_plain_product(shape, biased):
    torch.manual_seed(0)
    inputs = torch.randn(shape, requires_grad=True)
    weight = torch.randn(5, 8, requires_grad=True)
    given = [inputs, weight, *([torch.randn(5, requires_grad=True)] if biased else [])]
    found = []
    for product in (linear, plain_linear):
        with precision(CPU, torch.bfloat16):
            made = product(*given)
            assert made.dtype is torch.bfloat16
            found.append((made, *torch.autograd.grad(made.float().sin().sum(), given)))
    for ours, plain, name in zip(*found, ("made", "inputs", "weight", "bias"), strict=False):
        torch.testing.assert_close(ours, plain, atol=0.05, rtol=0.02, msg=name)
        assert ours.dtype is plain.dtype


def test_in_bfloat16_products_have_rounded_rows_and_in_float32_their_own():
    layer = Linear(8, 5)
    for dtype, rows in ((torch.bfloat16, 34), (torch.float32, 33)):
        with precision(CPU, dtype), Rows() as seen:
            layer(torch.randn(33, 8, requires_grad=True)).float().sum().backward()
        assert len(seen.shapes) >= 6  # of the product and its two gradients
        assert {size for shape in seen.shapes for size in shape} == {rows, 8, 5}


@pytest.mark.parametrize("biased", [True, False])
def test_a_weight_in_bfloat16_multiplies_in_it_and_all_else_stays_in_float32(biased):
    torch.manual_seed(0)
    inputs, weight, bias = torch.randn(3, 11, 8), torch.randn(5, 8), torch.randn(5) if biased else None
    with Rows() as seen:
        made = linear(inputs, weight.bfloat16(), bias)
    assert made.dtype is torch.float32
    assert {size for shape in seen.shapes for size in shape} == {34, 8, 5}
    torch.testing.assert_close(made, plain_linear(inputs, weight, bias), atol=0.05, rtol=0.02)


def test_a_copy_with_products_in_bfloat16_shares_all_weights_but_matrices():
    layers = torch.nn.Sequential(Linear(8, 8), torch.nn.LayerNorm(8))
    copy = with_bfloat16_products(layers)
    assert [weight.dtype for weight in copy.parameters()] == [torch.bfloat16, *[torch.float32] * 3]
    assert [one is other for one, other in zip(copy.parameters(), layers.parameters(), strict=True)] == [
        False, True, True, True,
    ]  # fmt: skip
    inputs = torch.randn(4, 8)
    torch.testing.assert_close(copy(inputs), layers(inputs), atol=0.05, rtol=0.02)
    assert layers[0].weight.dtype is torch.float32


def test_rows_added_to_a_cross_entropy_change_neither_loss_nor_gradients():
    torch.manual_seed(0)
    hidden, table, bias = (torch.randn(shape, requires_grad=True) for shape in ((33, 8), (21, 8), (21,)))
    targets = torch.randint(21, (33,))
    with precision(CPU, torch.bfloat16), Rows() as seen:
        ours = chunked_cross_entropy(hidden, table, targets, bias=bias)
    assert {size for shape in seen.shapes for size in shape} == {34, 8, 21}
    plain = plain_cross_entropy(hidden, table, targets, bias=bias)
    torch.testing.assert_close(ours, plain, atol=0.02, rtol=0.01)
    for one, other in zip(*(torch.autograd.grad(loss, [hidden, table, bias]) for loss in (ours, plain)), strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, atol=0.01, rtol=0.05)
