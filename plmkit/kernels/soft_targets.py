"""The divergence of a student's softmax over a vocabulary from a teacher's, in chunks of rows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from plmkit.kernels.autograd import NUMBERS_AT_ONCE, NUMBERS_IN_CACHE
from plmkit.kernels.linear import linear


def soft_divergence(logits: Tensor, soft: Tensor, temperature: float) -> Tensor:
    """(N,) T² KL(softmax(soft / T) ‖ softmax(logits / T)) of each row (Hinton et al., 2015)."""
    ours, theirs = (one.float() / temperature for one in (logits, soft))
    log_ours, log_theirs = ours.log_softmax(-1), theirs.log_softmax(-1)
    return temperature**2 * F.kl_div(log_ours, log_theirs, reduction="none", log_target=True).sum(-1)


def plain_soft_loss(
    student: tuple[Tensor, Tensor, Tensor | None], teacher: tuple[Tensor, Tensor, Tensor | None], temperature: float
) -> Tensor:
    """Reference of `chunked_soft_loss`."""
    return soft_divergence(F.linear(*student), F.linear(*teacher), temperature).mean()


def chunked_soft_loss(
    student: tuple[Tensor, Tensor, Tensor | None], teacher: tuple[Tensor, Tensor, Tensor | None], temperature: float
) -> Tensor:
    """The mean over N rows; of each network (N, width) states, (vocabulary, width) embeddings and their bias."""
    return ChunkedSoftLoss.apply(*student, *teacher, temperature, torch.is_grad_enabled())


class ChunkedSoftLoss(torch.autograd.Function):
    """Gradients are computed with the loss, while a chunk's logits exist: neither network's are kept."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, table: Tensor, bias: Tensor | None, their_hidden: Tensor, their_table: Tensor,
        their_bias: Tensor | None, temperature: float, learning: bool,
    ) -> Tensor:  # fmt: skip
        wanted = learning and any(ctx.needs_input_grad)
        rows = max(16, NUMBERS_AT_ONCE // (2 * len(table)))
        few = max(1, NUMBERS_IN_CACHE // (2 * len(table))) if hidden.device.type == "cpu" else rows
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        to_hidden = torch.empty_like(hidden) if wanted else None
        to_table = torch.zeros_like(table) if wanted else None
        to_bias = torch.zeros_like(bias) if wanted and bias is not None else None
        for start in range(0, len(hidden), rows):
            part = hidden[start : start + rows]
            ours = linear(part, table, bias).float()
            theirs = linear(their_hidden[start : start + rows], their_table, their_bias).float()
            for our_rows, their_rows in zip(ours.split(few), theirs.split(few), strict=True):
                log_ours, log_theirs = (one.div_(temperature).log_softmax(-1) for one in (our_rows, their_rows))
                shares = log_theirs.exp()
                total += torch.dot((log_theirs - log_ours).flatten(), shares.flatten())
                if to_hidden is not None:
                    torch.sub(log_ours.exp_(), shares, out=our_rows)
            if to_hidden is None or to_table is None:
                continue
            if to_bias is not None:
                to_bias += ours.sum(0)
            ours = ours.to(table.dtype)
            to_hidden[start : start + rows] = ours @ table
            to_table.addmm_(ours.T, part.to(table.dtype))
        count = max(1, len(hidden))
        if to_hidden is not None and to_table is not None:
            for gradient in (to_hidden, to_table, to_bias):
                if gradient is not None:
                    gradient.mul_(temperature / count)
        ctx.save_for_backward(to_hidden)
        ctx.to_weights = to_table, to_bias
        return total * (temperature**2 / count)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss: Tensor) -> tuple[Tensor | None, ...]:
        made = *ctx.saved_tensors, *ctx.to_weights
        ctx.to_weights = None
        return *(None if part is None else part.mul_(loss) for part in made), None, None, None, None, None
