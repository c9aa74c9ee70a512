"""An LSTM with projection whose cells and outputs are clipped, as in ELMo.

torch.nn.LSTM cannot clip, and clipping at the end of a sequence is not the same: a clipped cell is what the next step
reads. Gates are in the order input, forget, output, candidate; the forget gate has a constant bias of 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

FORGET_BIAS = 1.0


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights of one layer in one direction."""

    inputs: Tensor  # (4 cell, inputs)
    state: Tensor  # (4 cell, width)
    bias: Tensor  # (4 cell,)
    project: Tensor  # (width, cell)

    @property
    def gate_bias(self) -> Tensor:
        """(4 cell,) with the constant of the forget gate."""
        cell = len(self.bias) // 4
        return self.bias + F.pad(self.bias.new_full((cell,), FORGET_BIAS), (cell, 2 * cell))


def plain_clipped_lstm(
    inputs: Tensor, output: Tensor, cell: Tensor, weights: Weights, cell_clip: float, output_clip: float
) -> tuple[Tensor, Tensor]:
    """Reference of `clipped_lstm`, one step after another."""
    outputs, cells = [], []
    for step in inputs.unbind(1):
        joint = F.linear(step, weights.inputs, weights.gate_bias) + F.linear(output, weights.state)
        enter, keep, show, candidate = joint.chunk(4, dim=1)
        cell = (keep.sigmoid() * cell + enter.sigmoid() * candidate.tanh()).clamp(-cell_clip, cell_clip)
        output = F.linear(show.sigmoid() * cell.tanh(), weights.project).clamp(-output_clip, output_clip)
        outputs.append(output)
        cells.append(cell)
    return torch.stack(outputs, 1), torch.stack(cells, 1).detach()


def clipped_lstm(
    inputs: Tensor, output: Tensor, cell: Tensor, weights: Weights, cell_clip: float, output_clip: float
) -> tuple[Tensor, Tensor]:
    """(B, L, inputs), from an output (B, width) and a cell (B, cell) → (B, L, width) outputs, (B, L, cell) cells.

    The cells, and the output and cell to start from, get no gradient. Always in the precision of the weights.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        kind = weights.bias.dtype
        outputs, cells = ClippedLSTM.apply(
            inputs.to(kind).transpose(0, 1), output.to(kind), cell.to(kind), weights.inputs, weights.state,
            weights.gate_bias, weights.project, cell_clip, output_clip,
        )  # fmt: skip
    return outputs.transpose(0, 1), cells.transpose(0, 1)


class ClippedLSTM(torch.autograd.Function):
    """All products that do not depend on the step before are one: those of inputs, and of gradients of weights.

    torch's own steps would keep a graph of twenty operations per step; here only gates and cells are kept.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, output: Tensor, cell: Tensor, to_gates: Tensor, state: Tensor, bias: Tensor,
        project: Tensor, cell_clip: float, output_clip: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        steps, rows, width, size = len(inputs), len(output), len(project), cell.shape[1]
        gates = F.linear(inputs.reshape(steps * rows, -1), to_gates, bias).view(steps, rows, 4 * size)
        outputs, cells = inputs.new_empty(steps, rows, width), inputs.new_empty(steps, rows, size)
        from_state, shown = state.t(), torch.empty_like(cell)
        first = output, cell
        for gate, made, kept in zip(gates, outputs, cells, strict=True):
            gate.addmm_(output, from_state)
            gate[:, : 3 * size].sigmoid_()
            gate[:, 3 * size :].tanh_()
            enter, keep, show, candidate = gate.chunk(4, dim=1)
            torch.mul(keep, cell, out=kept).addcmul_(enter, candidate).clamp_(-cell_clip, cell_clip)
            torch.tanh(kept, out=shown).mul_(show)
            torch.mm(shown, project.t(), out=made).clamp_(-output_clip, output_clip)
            output, cell = made, kept
        ctx.save_for_backward(inputs, *first, to_gates, state, project, gates, outputs, cells)
        ctx.clips = cell_clip, output_clip
        ctx.mark_non_differentiable(cells)
        return outputs, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(gradient.device.type, enabled=False):
            return ClippedLSTM.gradients(ctx, gradient)

    @staticmethod
    def gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, output, cell, to_gates, state, project, gates, outputs, cells = ctx.saved_tensors
        steps, rows, size = cells.shape
        clipped_cells, clipped_outputs = (beyond(*pair) for pair in zip((cells, outputs), ctx.clips, strict=True))
        tanh, sigmoid = torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward
        of_gates, of_outputs = torch.empty_like(gates), gradient.clone(memory_format=torch.contiguous_format)
        shown, of_cell = torch.tanh(cells), torch.zeros_like(cell)
        for step in range(steps - 1, -1, -1):
            if clipped_outputs is not None:
                of_outputs[step].masked_fill_(clipped_outputs[step], 0.0)
            gate, of_gate = gates[step], of_gates[step]
            enter, keep, show, candidate = gate.chunk(4, dim=1)
            to_enter, to_keep, to_show, to_candidate = of_gate.chunk(4, dim=1)
            of_shown = of_outputs[step] @ project  # (B, cell)
            torch.mul(of_shown, shown[step], out=to_show)
            of_cell.add_(tanh(of_shown.mul_(show), shown[step]))
            if clipped_cells is not None:
                of_cell.masked_fill_(clipped_cells[step], 0.0)
            torch.mul(of_cell, candidate, out=to_enter)
            torch.mul(of_cell, enter, out=to_candidate)
            torch.mul(of_cell, cells[step - 1] if step else cell, out=to_keep)
            sigmoids = slice(0, 3 * size)
            sigmoid.grad_input(of_gate[:, sigmoids], gate[:, sigmoids], grad_input=of_gate[:, sigmoids])
            tanh.grad_input(to_candidate, candidate, grad_input=to_candidate)
            of_cell.mul_(keep)
            if step:
                of_outputs[step - 1].addmm_(of_gate, state)
        flat = of_gates.view(steps * rows, -1)
        shown.mul_(gates[..., 2 * size : 3 * size])
        before = torch.cat([output[None], outputs[:-1]]).view(steps * rows, -1)
        of_inputs = (flat @ to_gates).view_as(inputs) if ctx.needs_input_grad[0] else None
        return (
            of_inputs, None, None, flat.t() @ inputs.reshape(steps * rows, -1), flat.t() @ before, flat.sum(0),
            of_outputs.view(steps * rows, -1).t() @ shown.view(steps * rows, -1), None, None,
        )  # fmt: skip


def beyond(numbers: Tensor, clip: float) -> Tensor | None:
    """True where numbers were clipped; None: nowhere, which saves a pass per step."""
    low, high = numbers.aminmax()
    return numbers.abs() >= clip if max(-float(low), float(high)) >= clip else None
