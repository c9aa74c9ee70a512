"""Products with weight matrices whose number of rows is rounded up where every new number would cost time."""

from copy import deepcopy
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SIZES = 16  # numbers of rows between a power of two and the next


def rounded(rows: int) -> int:
    """The next larger of the few numbers of rows for which products are prepared; at most a sixteenth more."""
    step = max(1, (1 << rows.bit_length()) // (2 * SIZES))
    return -(-rows // step) * step


def is_prepared(inputs: Tensor) -> bool:
    """Whether a product in this precision is prepared again for every number of rows: in bfloat16 on a CPU.

    Packed batches hardly ever have the same number of tokens, and preparing a product of 1,000 rows takes longer than
    computing it.
    """
    return (
        inputs.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") is torch.bfloat16
        and not torch.compiler.is_compiling()
    )


def pad_rows(inputs: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """(N, ...) → (rounded N, ...) with zeros below, in another precision if one is given."""
    rows = len(inputs)
    made = inputs.new_empty(rounded(rows), *inputs.shape[1:], dtype=dtype or inputs.dtype)
    made[:rows] = inputs
    made[rows:] = 0
    return made


def plain_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Reference of `linear`."""
    return F.linear(inputs, weight, bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., in) → (..., out): inputs @ weight.T + bias, in the precision of autocast, or of a weight in bfloat16."""
    if weight.dtype is torch.bfloat16 and inputs.dtype is torch.float32:
        return product_in_bfloat16(inputs.flatten(0, -2), weight, bias).unflatten(0, inputs.shape[:-1])
    if not is_prepared(inputs):
        return F.linear(inputs, weight, bias)
    return RoundedLinear.apply(inputs.flatten(0, -2), weight, bias).unflatten(0, inputs.shape[:-1])


def product_in_bfloat16(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(N, in) float32 → (N, out) float32; only the factors of the product are rounded, and its result."""
    made = torch.mm(pad_rows(inputs, weight.dtype), weight.t())[: len(inputs)]
    return made.float() if bias is None else made + bias  # of float32, as bias is


SomeModule = TypeVar("SomeModule", bound=nn.Module)


def with_bfloat16_products(model: SomeModule) -> SomeModule:
    """The model, for inference, with the weight matrices of its `Linear` in bfloat16; it shares all other weights."""
    shared: dict[int, Any] = {id(part): part for part in (*model.parameters(), *model.buffers())}
    for module in model.modules():
        if isinstance(module, Linear):
            shared[id(module.weight)] = nn.Parameter(module.weight.detach().bfloat16(), requires_grad=False)
    return deepcopy(model, shared)


class RoundedLinear(torch.autograd.Function):
    """Autocast copies inputs into bfloat16 in any case; here the copy is as long as a product that was prepared."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        half = torch.bfloat16
        padded, matrix = pad_rows(inputs, half), weight.to(half)
        ctx.save_for_backward(padded, matrix)
        ctx.rows, ctx.dtypes = len(inputs), (inputs.dtype, weight.dtype, None if bias is None else bias.dtype)
        made = torch.mm(padded, matrix.t()) if bias is None else torch.addmm(bias.to(half), padded, matrix.t())
        return made[: len(inputs)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        padded, matrix = ctx.saved_tensors
        of_inputs, of_weight, of_bias = ctx.dtypes
        gradient = pad_rows(gradient, torch.bfloat16)
        to_inputs, to_weight, to_bias = ctx.needs_input_grad
        return (
            torch.mm(gradient, matrix)[: ctx.rows].to(of_inputs) if to_inputs else None,
            torch.mm(gradient.t(), padded).to(of_weight) if to_weight else None,
            gradient.sum(0, dtype=of_bias) if to_bias else None,
        )


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)
