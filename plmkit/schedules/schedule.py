"""Batch size, learning rate and optimizer of a run, its stages, and the same for fine-tuning."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.schedules.optimizers import Adadelta, Adagrad, Adamax, AdamW, BertAdam, Lamb, Momentum

Optimizers = Adadelta | Adagrad | Adamax | AdamW | BertAdam | Lamb | Momentum
BELOW = {
    "beta1": 1, "beta2": 1, "momentum": 1, "rho": 1, "epsilon": math.inf, "decay": math.inf, "accumulator": math.inf,
}  # fmt: skip
SHORTEST = 5  # tokens of a row: [CLS] a [SEP] b [SEP]


def linear_over_all(progress: float, warmup: float) -> float:
    """BERT, ALBERT: decay over the whole run, replaced by the warm-up at first, with a small jump between them."""
    return progress / warmup if progress < warmup else 1 - progress


def linear_product(progress: float, warmup: float) -> float:
    """ELECTRA: the decay times the warm-up."""
    return (1 - progress) * (min(1.0, progress / warmup) if warmup else 1.0)


def linear_after_warmup(progress: float, warmup: float) -> float:
    """XLNet: warm-up, then linear decay to a thousandth of the peak."""
    if progress < warmup:
        return progress / warmup
    return 0.001 + 0.999 * (1 - progress) / (1 - warmup)


def linear_to_zero(progress: float, warmup: float) -> float:
    """RoBERTa: warm-up, then linear decay to 0."""
    return progress / warmup if progress < warmup else (1 - progress) / (1 - warmup)


def cosine(progress: float, warmup: float) -> float:
    """Warm-up, then cosine decay to 0."""
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


def cosine_to_tenth(progress: float, warmup: float) -> float:
    """GPT-3: warm-up, cosine decay to a tenth of the peak at 260/300 of the run, then constant."""
    if progress < warmup:
        return progress / warmup
    return 0.1 + 0.9 * cosine(min(1.0, warmup + (progress - warmup) / (260 / 300 - warmup) * (1 - warmup)), warmup)


def inverse_sqrt(progress: float, warmup: float) -> float:
    """Transformer: warm-up, then decay with the inverse square root of the steps (Vaswani et al., 2017, 5.3)."""
    if progress < warmup:
        return progress / warmup
    return math.sqrt(warmup / progress) if warmup else 1.0


def halving(progress: float, warmup: float) -> float:
    """Luong et al., 2015: warm-up, constant for half of the run, then halved at every tenth of it."""
    if progress < warmup:
        return progress / warmup
    return 0.5 ** min(5, max(0, math.floor(10 * progress + 1e-9) - 4))


def constant(progress: float, warmup: float) -> float:
    return progress / warmup if progress < warmup else 1.0


def check_optimizer(optimizer: Optimizers, name: str) -> None:
    for setting, value in vars(optimizer).items():
        if not 0 <= value < BELOW[setting]:
            raise SettingError(
                tr(
                    "{name}.{setting} must be at least 0 and below {below}; found {value}.",
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
    "inverse_sqrt": inverse_sqrt,
    "halving": halving,
    "constant": constant,
}


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Learning rates are a function of progress, the share of the budget that is spent, so that any budget fits."""

    steps: int  # number of steps, without --steps, --minutes or --tokens
    batch: int  # rows per step
    learning_rate: float  # at its peak
    warmup: float  # warm-up, as a share of the run
    shape: str = "linear_over_all"  # of the learning-rate schedule: linear_over_all, cosine, constant ...
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    optimizer: Optimizers = AdamW()  # AdamW, BertAdam, Adamax, Lamb, Momentum, Adadelta or Adagrad

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise SettingError(
                tr(
                    "Unknown schedule shape '{shape}'; choose from {shapes}.",
                    shape=self.shape,
                    shapes=comma().join(SHAPES),
                )
            )
        for name in ("steps", "batch", "learning_rate"):
            if getattr(self, name) <= 0:
                raise SettingError(
                    tr("schedule.{name} must be above 0; found {value}.", name=name, value=getattr(self, name))
                )
        if not 0 <= self.warmup < 1:
            raise SettingError(
                tr("schedule.warmup must be a share of the run, below 1; found {warmup}.", warmup=self.warmup)
            )
        check_optimizer(self.optimizer, "schedule.optimizer")
        if self.clip < 0:
            raise SettingError(
                tr("schedule.clip must be a maximum gradient norm, or 0 for no clipping; found {clip}.", clip=self.clip)
            )

    def factor(self, progress: float) -> float:
        """The factor of the peak learning rate when this share of the run is done."""
        return max(0.0, SHAPES[self.shape](min(progress, 1.0), self.warmup))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run, with its sequence length and streams."""

    until: float = 1.0  # share of the run at which it ends
    length: int  # tokens per row
    streams: tuple[str, ...] = ()  # names of the active streams; (): all
    shares: tuple[float, ...] = ()  # of its steps, one for each of `streams`, met exactly; (): random, by their weights

    def __post_init__(self) -> None:
        if self.shares and (len(self.shares) != len(self.streams) or min(self.shares) <= 0):
            raise SettingError(
                tr(
                    "A stage needs one share above 0 for each of its streams; found {shares} for {streams}.",
                    shares=list(self.shares),
                    streams=comma().join(self.streams) or tr("all streams"),
                )
            )
        if self.length < SHORTEST:
            raise SettingError(
                tr(
                    "stages: rows need at least {shortest} tokens; found {length}.",
                    shortest=SHORTEST,
                    length=self.length,
                )
            )


def shares_of(stage: Stage) -> dict[str, float]:
    """The share of the steps of a stage that each of its streams has; {} if its streams are drawn at random."""
    total = sum(stage.shares)
    return {name: share / total for name, share in zip(stage.streams, stage.shares, strict=False)}


def check_stages(stages: Sequence[Stage]) -> None:
    """Refuse stages that do not rise to the end of the run."""
    until = [0.0, *(stage.until for stage in stages)]
    if until[-1] != 1.0 or any(after <= before for before, after in pairwise(until)):
        found = [[stage.until, stage.length] for stage in stages]
        raise SettingError(tr("stages must rise to 1.0, as in [[0.9, 128], [1.0, 512]]; found {found}.", found=found))


def stage_at(stages: Sequence[Stage], progress: float) -> int:
    """The index of the stage that is active when this share of the run is done."""
    return next(number for number, stage in enumerate(stages) if progress < stage.until or stage.until == 1.0)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Defaults of `plm finetune`; BERT's where a paper does not say (Devlin et al., 2018)."""

    learning_rate: float = 3e-5  # at its peak, for a width of 768
    warmup: float = 0.1  # warm-up, as a share of the steps
    shape: str = "linear_over_all"  # of the learning-rate schedule: linear_over_all, cosine, constant ...
    optimizer: AdamW | BertAdam | Adamax = BertAdam()  # AdamW, BertAdam or Adamax
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    layer_decay: float = 1.0  # learning rate of each layer relative to the layer above
    dropout: float = 0.1  # inside the network; before its head it is 0.1
    frozen: bool = False  # train only what is new
    features: str | None = None  # where a new recurrent network reads the layers of the pretrained one: input, ...
