"""One step of training: micro-batches, precision, gradient clipping and the optimizer."""

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plmkit.data.batch import Batch, Memory
from plmkit.network import Network
from plmkit.training.device import precision
from plmkit.training.world import World


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """The results of a batch besides the gradients themselves."""

    loss: float  # the weighted sum of all losses, which the step minimises
    losses: dict[str, float]  # without loss weights, as on held-out text
    memory: Memory | None  # recurrent memory of the rows of this process


class Step:
    """A network with its optimizer: one update of the weights per batch, the same on all processes."""

    def __init__(
        self,
        network: Network,
        optimizer: Optimizer,
        *,
        clip: float = 0.0,
        world: World = World(),
        dtype: torch.dtype = torch.float32,
        rows_at_once: int | None = None,
        tokens_at_once: int | None = None,
    ) -> None:
        self.network, self.optimizer, self.clip = network, optimizer, clip
        self.world, self.dtype = world, dtype
        self.rows_at_once, self.tokens_at_once = rows_at_once, tokens_at_once
        self.parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.total = world.parallel(WeightedLoss(network, always=not world.alone))

    def gradients(self, batch: Batch) -> Gradients:
        """Gradients of the whole batch, accumulated over micro-batches; every prediction has the same weight."""
        world, device = self.world, self.world.device
        parts = self.micro_batches(batch)
        counts = [self.network.scored(part) for part in parts]
        names = list(counts[0])
        sums = world.sum([sum(count[name] for count in counts) for name in names])
        totals = dict(zip(names, sums, strict=True))
        whole = torch.zeros((), device=device)
        found: dict[str, Tensor] = {}
        memories: list[Memory] = []
        for number, (part, count) in enumerate(zip(parts, counts, strict=True), start=1):
            # a mean over no predictions may be NaN, so an objective without any here is left out
            shares = {name: count[name] / totals[name] for name in count if count[name]}
            exchange = nullcontext() if number == len(parts) else world.without_exchange(self.total)
            with exchange, precision(device, self.dtype):  # kernels multiply in the backward pass too
                loss, losses, memory = self.total(part.to(device), shares)
                if loss is not None:
                    (loss if world.alone else loss * world.size).backward()  # DDP takes the mean, not the sum
                    whole += loss.detach()
            for name, share in shares.items():
                found[name] = found.get(name, torch.zeros((), device=device)) + losses[name] * share
            memories += [] if memory is None else [memory]
        joined = tuple(torch.cat(parts) for parts in zip(*memories, strict=True)) if memories else None
        scored = [name for name in names if totals[name]]
        loss_sum, *loss_sums = world.sum([float(whole), *(float(found.get(name, 0.0)) for name in scored)])
        return Gradients(loss=loss_sum, losses=dict(zip(scored, loss_sums, strict=True)), memory=joined)

    def micro_batches(self, batch: Batch) -> list[Batch]:
        return pieces(batch, fitting(batch, self.rows_at_once, self.tokens_at_once))

    def clipped(self) -> float:
        """Clip the gradient to the norm `clip` (0: off); returns its norm before clipping."""
        norm = norm_of([p.grad for p in self.parameters if p.grad is not None])
        if self.clip and norm > self.clip:  # saves a pass over all gradients, which is rarely needed
            nn.utils.clip_grads_with_norm_(self.parameters, self.clip, norm)
        return float(norm)

    def update(self, factor: float) -> float:
        """Update the weights, each group at its peak learning rate times the factor; returns the highest rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(max(group["lr"] for group in self.optimizer.param_groups))

    def is_sound(self, batch: Batch) -> bool:
        """Whether the weights, and the losses they give, are finite after an update."""
        some = self.micro_batches(batch)[:1] if len(batch.source.tokens) else []
        losses = validate(self.network, some, self.world.device, self.dtype)
        return all(map(math.isfinite, losses.values())) and all(map(is_finite, self.network.parameters()))


class WeightedLoss(nn.Module):
    """The scalar that a step minimises: the module that DDP wraps.

    Without predictions it is None, or with `always` a zero: each process must take part in the exchange.
    """

    def __init__(self, network: Network, *, always: bool) -> None:
        super().__init__()
        self.network, self.always = network, always

    def forward(
        self, batch: Batch, shares: Mapping[str, float]
    ) -> tuple[Tensor | None, dict[str, Tensor], Memory | None]:
        """The weighted sum of the losses, each times its share of all predictions, and the unweighted losses."""
        if not len(batch.source.tokens):  # fewer rows than processes
            return self.nothing(), {}, None
        made = self.network(batch)
        loss = torch.stack([made.weighted[name] * share for name, share in shares.items()]).sum() if shares else None
        losses = {name: made.losses[name].detach() for name in shares}
        return self.nothing() if loss is None else loss, losses, made.memory

    def nothing(self) -> Tensor | None:
        if not self.always:
            return None
        return next(weight for weight in self.network.parameters() if weight.requires_grad).flatten()[0] * 0.0


def fitting(batch: Batch, rows: int | None, tokens: int | None) -> int | None:
    """The number of examples in a micro-batch, within both limits."""
    if tokens is None:
        return rows
    fit = max(1, tokens // (batch.source.tokens.shape[1] * batch.most_alternatives))
    return fit if rows is None else min(rows, fit)


def pieces(batch: Batch, rows_at_once: int | None) -> list[Batch]:
    """The batch split into micro-batches; the rows of one example stay together."""
    if rows_at_once is None or rows_at_once >= batch.examples:
        return [batch]
    return [batch.part(start, start + rows_at_once) for start in range(0, batch.examples, rows_at_once)]


def norm_of(gradients: list[Tensor]) -> Tensor:
    """The global norm; on a CPU by dot products, which take half the time of torch's norms."""
    if not gradients or gradients[0].device.type != "cpu":
        return nn.utils.get_total_norm(gradients)
    flat = [gradient.flatten() for gradient in gradients]
    return torch.stack([gradient.dot(gradient) for gradient in flat]).sum().sqrt()


def is_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def validate_streams(
    network: Network, streams: Mapping[str, list[Batch]], device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """Mean loss of each objective over held-out batches; with several streams, prefixed with their names."""
    losses = {stream: validate(network, batches, device, dtype) for stream, batches in streams.items()}
    if len(losses) == 1:
        return next(iter(losses.values()))
    return {f"{stream}/{name}": loss for stream, found in losses.items() for name, loss in found.items()}


@torch.no_grad()
def validate(network: Network, batches: list[Batch], device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Mean loss of each objective over held-out batches; every prediction has the same weight."""
    network.eval()
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    memory: Memory | None = None
    for batch in batches:
        with precision(device, dtype):
            made = network(batch.with_memory(memory).to(device))
        memory = made.memory
        for name, loss in made.losses.items():
            sums[name] = sums.get(name, 0.0) + float(loss) * made.scored[name]
            counts[name] = counts.get(name, 0) + made.scored[name]
    network.train()
    return {name: sums[name] / counts[name] for name in sums}
