"""From gradients to steps."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

Named = Iterable[tuple[str, nn.Parameter]]


@dataclass(frozen=True, kw_only=True)
class AdamW:
    """Adam with bias correction and decoupled decay (Loshchilov and Hutter, 2019)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.01

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return self.build_groups(by_decay(parameters, rate, self.decay), rate)

    def build_groups(self, groups: list[dict], rate: float) -> Optimizer:
        """Groups say their own `peak` rate and decay."""
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=self.epsilon, fused=True)


@dataclass(frozen=True, kw_only=True)
class BertAdam:
    """Adam as BERT's released code has it: no bias correction, decay inside the step."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    decay: float = 0.01

    def build(self, parameters: Named, rate: float) -> Optimizer:
        return UncorrectedAdam(by_decay(parameters, rate, self.decay), rate, (self.beta1, self.beta2), self.epsilon)


def by_decay(parameters: Named, rate: float, decay: float) -> list[dict]:
    """Biases and norms, the tensors of one dimension, never decay."""
    named = list(parameters)
    return [
        {"params": [p for _, p in named if p.dim() > 1], "weight_decay": decay, "peak": rate},
        {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0, "peak": rate},
    ]


class UncorrectedAdam(Optimizer):
    def __init__(self, groups: list[dict], rate: float, betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(groups, {"lr": rate, "betas": betas, "eps": epsilon, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if not weights:
                continue
            gradients = [p.grad for p in weights]
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
            update = torch._foreach_div(first, scale)
            torch._foreach_add_(update, weights, alpha=group["weight_decay"])
            torch._foreach_add_(weights, update, alpha=-group["lr"])
