"""Optimizers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Named = Iterable[tuple[str, nn.Parameter]]
JOINT = "query_key_value.weight"  # three matrices of the papers, joined


@dataclass(frozen=True, kw_only=True)
class AdamW:
    """Adam with bias correction and decoupled weight decay (Loshchilov and Hutter, 2019)."""

    beta1: float = 0.9  # decay rate of the mean of gradients
    beta2: float = 0.999  # decay rate of the mean of squared gradients
    epsilon: float = 1e-8  # added to the denominator of a step
    decay: float = 0.01  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return self.build_groups(by_decay(parameters, rate, self.decay), rate)

    def build_groups(self, groups: list[dict], rate: float) -> Optimizer:
        """Groups have their own `peak` learning rate and weight decay."""
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=self.epsilon, fused=True)


@dataclass(frozen=True, kw_only=True)
class Adamax:
    """Adam with the largest recent gradient in place of the mean square (Kingma and Ba, 2015, 7.1), as in MT-DNN."""

    beta1: float = 0.9  # decay rate of the mean of gradients
    beta2: float = 0.999  # decay rate of the largest gradient
    epsilon: float = 1e-8  # added to the gradient before the largest is taken
    decay: float = 0.01  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return self.build_groups(by_decay(parameters, rate, self.decay), rate)

    def build_groups(self, groups: list[dict], rate: float) -> Optimizer:
        """Groups have their own `peak` learning rate and weight decay."""
        return DecoupledAdamax(groups, lr=rate, betas=(self.beta1, self.beta2), eps=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Adagrad:
    """Steps shrink with the sum of all squared gradients (Duchi et al., 2011), as in allenai/bilm-tf."""

    accumulator: float = 1.0  # the sum before the first step
    decay: float = 0.0  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        groups = by_decay(parameters, rate, self.decay)
        return torch.optim.Adagrad(groups, lr=rate, initial_accumulator_value=self.accumulator, eps=0.0)


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """SGD with momentum (Polyak, 1964); 0: plain SGD."""

    momentum: float = 0.99  # share of the previous step that is added to the next
    decay: float = 0.0  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return torch.optim.SGD(by_decay(parameters, rate, self.decay), lr=rate, momentum=self.momentum)


@dataclass(frozen=True, kw_only=True)
class Adadelta:
    """Steps in proportion to those before (Zeiler, 2012); a learning rate of 1 is the paper's."""

    rho: float = 0.95  # decay of the means of squared gradients and steps
    epsilon: float = 1e-6  # added to both means
    decay: float = 0.0  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return torch.optim.Adadelta(by_decay(parameters, rate, self.decay), lr=rate, rho=self.rho, eps=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class BertAdam:
    """Adam as in BERT's released code: no bias correction, weight decay inside the step."""

    beta1: float = 0.9  # decay rate of the mean of gradients
    beta2: float = 0.999  # decay rate of the mean of squared gradients
    epsilon: float = 1e-6  # added to the denominator of a step
    decay: float = 0.01  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return self.build_groups(by_decay(parameters, rate, self.decay), rate)

    def build_groups(self, groups: list[dict], rate: float) -> Optimizer:
        """Groups have their own `peak` learning rate and weight decay."""
        return UncorrectedAdam(groups, lr=rate, betas=(self.beta1, self.beta2), eps=self.epsilon, fused=True)


@dataclass(frozen=True, kw_only=True)
class Lamb:
    """LAMB as in ALBERT's released code: BertAdam's step, scaled to the norm of the weight (You et al., 2019)."""

    beta1: float = 0.9  # decay rate of the mean of gradients
    beta2: float = 0.999  # decay rate of the mean of squared gradients
    epsilon: float = 1e-6  # added to the denominator of a step
    decay: float = 0.01  # weight decay

    def build(self, parameters: Named, rate: float) -> Optimizer:
        named = list(parameters)
        joint = [(name, p) for name, p in named if name.endswith(JOINT)]
        others = [(name, p) for name, p in named if not name.endswith(JOINT)]
        matrices, plain = by_decay(others, rate, self.decay)
        groups = [
            {**matrices, "parts": 1},
            {**by_decay(joint, rate, self.decay)[0], "parts": 3},
            {**plain, "parts": 0},
        ]
        return LayerwiseAdam(groups, rate, (self.beta1, self.beta2), self.epsilon)


def by_decay(parameters: Named, rate: float, decay: float) -> list[dict]:
    """Biases and norms, the one-dimensional tensors, have no weight decay."""
    named = list(parameters)
    return [
        {"params": [p for _, p in named if p.dim() > 1], "weight_decay": decay, "peak": rate},
        {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0, "peak": rate},
    ]


class DecoupledAdamax(torch.optim.Adamax):
    """torch adds the weight decay to the gradient, which the division by the largest gradient would undo."""

    def __init__(self, groups: list[dict], **settings: Any) -> None:
        apart = [{**group, "decay": group["weight_decay"], "weight_decay": 0.0} for group in groups]
        super().__init__(apart, **settings)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None, "a step reads the gradients that are there"
        for group in self.param_groups:
            trained = [weight for weight in group["params"] if weight.grad is not None]
            if trained and group["decay"]:
                torch._foreach_mul_(trained, 1 - group["lr"] * group["decay"])
        super().step()


class UncorrectedAdam(torch.optim.AdamW):
    """Bias correction vanishes with the number of steps, so torch is given an infinite one."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for weight in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            state = self.state[weight]
            if "step" not in state:
                state["step"] = torch.tensor(torch.inf, device=weight.device)
                for moment in ("exp_avg", "exp_avg_sq"):
                    state.setdefault(moment, torch.zeros_like(weight))
        super().step(closure)


class LayerwiseAdam(Optimizer):
    """`parts` of a group: the number of matrices in each of its weights; 0: steps are not scaled."""

    def __init__(self, groups: list[dict], rate: float, betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(groups, {"lr": rate, "betas": betas, "eps": epsilon, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if weights:
                updates = self.updates(weights, group)
                self.lengthen(updates, weights, group)
                torch._foreach_add_(weights, updates, alpha=-group["lr"])

    def updates(self, weights: list[Tensor], group: dict) -> list[Tensor]:
        """m / (sqrt(v) + epsilon) + decay * weight for each weight."""
        gradients = [p.grad for p in weights if p.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {
                    "exp_avg": torch.zeros_like(weight),
                    "exp_avg_sq": torch.zeros_like(weight),
                }
        first = [self.state[p]["exp_avg"] for p in weights]
        second = [self.state[p]["exp_avg_sq"] for p in weights]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        scale = torch._foreach_sqrt(second)
        torch._foreach_add_(scale, group["eps"])
        updates = torch._foreach_div(first, scale)
        torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        return list(updates)

    def lengthen(self, updates: list[Tensor], weights: list[Tensor], group: dict) -> None:
        """The step of each matrix times |weight| / |step|, or times 1 if either is 0."""
        if not group["parts"]:
            return
        steps = [part for update in updates for part in update.chunk(group["parts"])]
        own = [part for weight in weights for part in weight.chunk(group["parts"])]
        long, wanted = torch.stack(torch._foreach_norm(steps)), torch.stack(torch._foreach_norm(own))
        ratios = torch.where((long > 0) & (wanted > 0), wanted / long, 1.0)
        torch._foreach_mul_(steps, list(ratios.unbind()))
