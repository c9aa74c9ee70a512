"""How a run spends its budget: rows per step, learning rate and optimizer."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.schedules.optimizers import AdamW, BertAdam, Lamb, Momentum

Optimizers = AdamW | BertAdam | Lamb | Momentum
BELOW = {"beta1": 1, "beta2": 1, "momentum": 1, "epsilon": math.inf, "decay": math.inf}


def linear_over_all(progress: float, warmup: float) -> float:
    """BERT, ALBERT: decay over the whole run, overridden while warming up: a small jump down between them."""
    return progress / warmup if progress < warmup else 1 - progress


def linear_product(progress: float, warmup: float) -> float:
    """ELECTRA: the decay times the warm-up."""
    return (1 - progress) * (min(1.0, progress / warmup) if warmup else 1.0)


def linear_after_warmup(progress: float, warmup: float) -> float:
    """XLNet: up to the peak, then down over what is left, to a thousandth of it."""
    if progress < warmup:
        return progress / warmup
    return 0.001 + 0.999 * (1 - progress) / (1 - warmup)


def linear_to_zero(progress: float, warmup: float) -> float:
    """RoBERTa: up to the peak, then down over what is left, to nothing."""
    return progress / warmup if progress < warmup else (1 - progress) / (1 - warmup)


def cosine(progress: float, warmup: float) -> float:
    """Up to the peak, then down along half a cosine."""
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def cosine_to_tenth(progress: float, warmup: float) -> float:
    """GPT-3: up to the peak, down along half a cosine to a tenth of it at 260 of 300 parts, and on at that."""
    if progress < warmup:
        return progress / warmup
    return 0.1 + 0.9 * cosine(min(1.0, warmup + (progress - warmup) / (260 / 300 - warmup) * (1 - warmup)), warmup)


def constant(progress: float, warmup: float) -> float:
    return progress / warmup if progress < warmup else 1.0


def check_optimizer(optimizer: Optimizers, name: str) -> None:
    for setting, value in vars(optimizer).items():
        if not 0 <= value < BELOW[setting]:
            raise SettingError(
                tr(
                    "{name}.{setting} lies from 0 to below {below}; found {value}.",
                    name=name,
                    setting=setting,
                    below=BELOW[setting],
                    value=value,
                )
            )


SHAPES: dict[str, Callable[[float, float], float]] = {
    "linear_over_all": linear_over_all,
    "linear_product": linear_product,  # GPT-1's fine-tuning uses the same formula
    "linear_after_warmup": linear_after_warmup,
    "linear_to_zero": linear_to_zero,
    "cosine": cosine,
    "cosine_to_tenth": cosine_to_tenth,
    "constant": constant,
}


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Rates are a function of progress, the share of the budget that is spent, so that any budget fits."""

    steps: int  # the budget when the command line names none
    batch: int  # rows in a step
    rate: float  # at its peak
    warmup: float  # share of the run
    shape: str = "linear_over_all"
    clip: float = 1.0  # norm of the whole gradient; 0 leaves it alone
    optimizer: Optimizers = AdamW()

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise SettingError(
                tr(
                    "There is no schedule shape '{shape}'; there are {shapes}.",
                    shape=self.shape,
                    shapes=", ".join(SHAPES),
                )
            )
        for name in ("steps", "batch", "rate"):
            if getattr(self, name) <= 0:
                raise SettingError(
                    tr("schedule.{name} must be above 0; found {getattr}.", name=name, getattr=getattr(self, name))
                )
        if not 0 <= self.warmup < 1:
            raise SettingError(
                tr("schedule.warmup is a share of the run, from 0 to below 1; found {warmup}.", warmup=self.warmup)
            )
        check_optimizer(self.optimizer, "schedule.optimizer")
        if self.clip < 0:
            raise SettingError(
                tr("schedule.clip is the longest gradient allowed, or 0 for any; found {clip}.", clip=self.clip)
            )

    def factor(self, progress: float) -> float:
        """What the peak rate is multiplied by when this share of the run is done."""
        return max(0.0, SHAPES[self.shape](min(progress, 1.0), self.warmup))
