"""How to fine-tune: `--set task.NAME=...`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.architectures.contract import Architecture
from plmkit.architectures.features import Features
from plmkit.config.habits import homes, meant
from plmkit.config.machine import Machine, check_read
from plmkit.config.settings import assign, checked, cut, names_in
from plmkit.config.verbs import FINETUNING
from plmkit.errors import SettingError, did_you_mean, nearest, nearest_name
from plmkit.language import comma, tr
from plmkit.objectives.causal_lm import CausalLM
from plmkit.schedules.optimizers import Adamax, AdamW, BertAdam
from plmkit.schedules.schedule import SHAPES, Tuning, check_optimizer
from plmkit.tasks.contract import Task
from plmkit.tasks.heads import POOLINGS
from plmkit.tasks.registry import KINDS, find_kind

SHORTEST = 5  # [CLS] a [SEP] b [SEP]
FEATURES_RATE = 2e-3  # of a recurrent network that begins from random weights
EPOCHS = 3.0
DEV_SHARE = 0.1  # held out without --dev
DROPOUT = 0.1
PAPER_WIDTH = 768  # of the networks that papers fine-tune
FEW_STEPS = 100  # in fewer, a network does not learn enough for dropout to help it: benchmarks/README.md
FEW_STEPS_OF_NARROW = 1000  # the same, of one that is narrower than those of papers


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """BERT's grid: learning rates 2e-5 to 5e-5, batches of 16 or 32, 2 to 4 epochs (Devlin et al., 2018, A.3)."""

    epochs: float | None = None  # number of epochs; none: 3
    patience: int | None = None  # stop after this many evaluations on dev without a better score; none: never
    evaluations: int = 1  # evaluations on dev per epoch, at most 20 in all; the best is kept
    dev_share: float | None = None  # share of train that is held out without --dev; 0: nothing; none: 0.1
    batch: int = 32  # rows per step
    learning_rate: float | None = None  # at its peak; none: the paper's at a width of 768, higher for narrower networks
    warmup: float | None = None  # warm-up, as a share of the steps; none: the paper's
    shape: str | None = None  # of the learning-rate schedule: linear_over_all, cosine, constant ...; none: the paper's
    optimizer: AdamW | BertAdam | Adamax | None = (
        None  # AdamW, BertAdam or Adamax; none: Adamax for several tasks, else the paper's, AdamW below a width of 768
    )
    decay: float | None = None  # weight decay; none: the optimizer's
    clip: float | None = None  # maximum gradient norm; 0: no clipping; none: the paper's
    layer_decay: float | None = None  # learning rate of each layer relative to the layer above; none: the paper's
    dropout: float | None = None  # dropout rate inside the network; none: 0 in a short run, else the paper's
    head_dropout: float | None = None  # dropout rate before the head; none: that of the network, 0.1 for ALBERT
    pooling: str | None = (
        None  # of states: first, mean, max, concat, last, separator (last [SEP]); none: mean for match, else first
    )
    task_embedding: int | None = (
        None  # of ERNIE 2's task embeddings the one for all rows, from 0; none: the model's own
    )
    length: int | None = None  # tokens per row; none: the model's maximum length, for qa at most 384
    frozen: bool | None = None  # train only what is new: head, and network over features; none: the paper's
    features: Features | None = (
        None  # Features: a small LSTM reads the layers, see features.place, cell, words ...; none: the paper's
    )
    train_share: float | None = None  # share of the training rows that are used, drawn by the seed; none: all
    scratch: bool = False  # start from random weights, for comparison
    ngrams: bool | None = None  # mix in a linear model over n-grams where it helps on dev; none: where possible
    lm_weight: float | None = None  # loss weight of a language model on the rows; none: 0.5 where possible

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "learning_rate", "patience", "evaluations"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise SettingError(
                    tr("task.{name} must be a finite number above 0; found {value:g}.", name=name, value=value)
                )
        for name in ("decay", "clip", "lm_weight"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise SettingError(
                    tr("task.{name} must be a finite number, 0 or more; found {value:g}.", name=name, value=value)
                )
        if self.dev_share is not None and not 0 <= self.dev_share <= 0.5:
            raise SettingError(
                tr("task.dev_share must be at least 0 and at most 0.5; found {dev_share:g}.", dev_share=self.dev_share)
            )
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise SettingError(
                tr(
                    "task.layer_decay must be above 0 and at most 1; found {layer_decay:g}.",
                    layer_decay=self.layer_decay,
                )
            )
        if self.shape is not None and self.shape not in SHAPES:
            raise SettingError(
                tr("task.shape takes {shapes}; found '{shape}'.", shapes=comma().join(SHAPES), shape=self.shape)
            )
        if self.optimizer is not None:
            check_optimizer(self.optimizer, "task.optimizer")
            if self.decay not in (None, self.optimizer.decay):
                raise SettingError(
                    tr(
                        "task.decay={decay:g} and task.optimizer.decay={other:g} are the same setting. Give only "
                        "task.optimizer.decay.",
                        decay=self.decay,
                        other=self.optimizer.decay,
                    )
                )
        if self.train_share is not None and not 0 < self.train_share <= 1:
            raise SettingError(
                tr("task.train_share must be above 0 and at most 1; found {share:g}.", share=self.train_share)
            )
        if self.pooling not in (None, *POOLINGS):
            raise SettingError(
                tr(
                    "task.pooling takes {poolings}; found '{pooling}'.",
                    poolings=comma().join(POOLINGS),
                    pooling=self.pooling,
                )
            )
        if self.length is not None and self.length < SHORTEST:
            raise SettingError(
                tr(
                    "task.length must be at least {shortest}, to hold two texts of one token; found {length}.",
                    shortest=SHORTEST,
                    length=self.length,
                )
            )
        for name in ("warmup", "dropout", "head_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise SettingError(
                    tr("task.{name} must be at least 0 and below 1; found {value}.", name=name, value=value)
                )
        if self.frozen and self.scratch:
            raise SettingError(tr("task.frozen with task.scratch would train one layer on random features. Drop one."))
        if self.frozen and self.layer_decay not in (None, 1.0):
            raise SettingError(
                tr("task.frozen trains no layer of the network, so task.layer_decay would have no effect. Drop one.")
            )
        if self.frozen and self.lm_weight:
            raise SettingError(
                tr("task.frozen does not train the language model, so task.lm_weight would have no effect. Drop one.")
            )

    def settled(self, architecture: Any, tuning: Tuning = Tuning(), pooling: str = "first") -> "Settled":
        """With what is unset filled in from the model's paper and architecture, and the task's own pooling."""
        possible = CausalLM.name in architecture.tied_heads
        if self.lm_weight and not possible:
            raise SettingError(
                tr(
                    "task.lm_weight={lm_weight:g} adds a language-model loss, which needs an LM head that consists of "
                    "the token embeddings (GPT, LSTM); {architecture} has none.\n"
                    "Leave task.lm_weight out.",
                    lm_weight=self.lm_weight,
                    architecture=type(architecture).__name__,
                )
            )
        features = self.features or (Features(place=tuning.features) if tuning.features else None)
        reading = features is not None and features.place != "none"
        if self.lm_weight and reading:
            raise SettingError(
                tr(
                    "task.features trains a network above the language model, so task.lm_weight would have no effect. "
                    "Drop one."
                )
            )
        frozen = self.frozen if self.frozen is not None else tuning.frozen and reading and not self.scratch
        if reading and features is not None and features.precomputed and not frozen:
            raise SettingError(
                tr("task.features.precomputed keeps what a frozen network makes. Set task.frozen=true, or drop it.")
            )
        usual = optimizer_for(architecture.width, tuning.optimizer)
        optimizer = self.optimizer or replace(usual, decay=usual.decay if self.decay is None else self.decay)
        filled: dict[str, Any] = {
            "learning_rate": FEATURES_RATE if reading else rate_for(architecture.width, tuning.learning_rate),
            "warmup": tuning.warmup,
            "shape": tuning.shape,
            "clip": tuning.clip,
            "layer_decay": 1.0 if frozen else tuning.layer_decay,
            "lm_weight": 0.5 if possible and not frozen and not reading else 0.0,
            "frozen": frozen,
            "features": features,
            "ngrams": True,
            "pooling": pooling,
            "epochs": EPOCHS,
            "dev_share": DEV_SHARE,
            "dropout": tuning.dropout,
            "head_dropout": DROPOUT if self.dropout is None and tuning.dropout != DROPOUT else None,
        }
        given = {name: value for name, value in vars(self).items() if value is not None}
        return Settled(**filled | given | {"optimizer": optimizer, "decay": optimizer.decay, "length": self.length})


@dataclass(frozen=True, kw_only=True)
class Settled(TaskSettings):
    """The same, with everything but the length filled in."""

    epochs: float
    learning_rate: float
    warmup: float
    shape: str
    optimizer: AdamW | BertAdam | Adamax
    decay: float
    clip: float
    frozen: bool
    layer_decay: float
    pooling: str
    lm_weight: float
    ngrams: bool
    dev_share: float | None
    dropout: float

    @property
    def before_head(self) -> float:
        """The dropout rate before a head that has none of its own."""
        return self.dropout if self.head_dropout is None else self.head_dropout


GROUPS = {
    "task": names_in(TaskSettings),
    "run": [name.removeprefix("run.") for name in FINETUNING],
}  # names by their group


def check_task_embedding(chosen: int | None, architecture: Any) -> None:
    """Refuse a task embedding that the model does not have."""
    count = architecture.task_count
    if chosen is not None and count is None:
        raise SettingError(
            tr(
                "task.task_embedding={chosen} needs a model with task embeddings, as ERNIE 2; {architecture} has none. "
                "Leave it out.",
                chosen=chosen,
                architecture=type(architecture).__name__,
            )
        )
    if chosen is not None and not 0 <= chosen < count:
        raise SettingError(
            tr(
                "task.task_embedding must be one of the model's task embeddings, 0 to {last}; found {chosen}.",
                last=count - 1,
                chosen=chosen,
            )
        )


def with_task_embedding(architecture: Architecture, chosen: int | None) -> Architecture:
    """The architecture whose rows have this task embedding, unless it is the model's own."""
    check_task_embedding(chosen, architecture)
    return architecture if chosen is None else architecture.with_settings(task=chosen)


def for_several(tuning: Tuning) -> Tuning:
    """The same for several tasks at once: the optimizer and learning rate of MT-DNN (Liu et al., 2019, 4.1)."""
    return replace(tuning, learning_rate=5e-5, optimizer=Adamax())


def optimizer_for(width: int, usual: AdamW | BertAdam | Adamax) -> AdamW | BertAdam | Adamax:
    """BERT's Adam at its paper's widths; with bias correction where narrow networks train at higher rates.

    Without it the first steps are too long for such rates: of three seeds of bert-mini on 2,000 reviews, two stayed at
    chance.
    """
    return AdamW(**vars(usual)) if width < PAPER_WIDTH and isinstance(usual, BertAdam) else usual


def rate_for(width: int, usual: float = Tuning().learning_rate) -> float:
    """Narrow networks need higher learning rates than at a width of 768: BERT's 3e-5 becomes 2.7e-4 at 256."""
    return min(5e-4, usual * (PAPER_WIDTH / width) ** 2)


def settle_kind(kind: Task, assignments: Sequence[str]) -> tuple[Task, list[str]]:
    """A kind with its own settings applied, and the assignments that are left for `settle_task`."""
    left = []
    for assignment in assignments:
        name, text = cut(assignment)
        root, *path = name.split(".")
        own = path[0] if root == "task" and path else ""
        if own in kind.settings():
            kind = assign(kind, path, text, name)
        elif others := [other for other in KINDS if own in find_kind(other).settings()]:
            raise SettingError(
                tr(
                    "{name} is a setting of --task {kinds}, and has no effect on --task {kind}. Leave it out.",
                    name=name,
                    kinds=comma().join(others),
                    kind=kind.kind,
                )
            )
        elif root == "task" and meant(own) not in GROUPS["task"] and (near := near_setting(own, kind)):
            raise SettingError(
                tr("There is no setting '{full}'.{suggest}", full=name, suggest=did_you_mean(f"task.{near}"))
            )
        else:
            left.append(assignment)
    return checked(kind), left


def near_setting(name: str, kind: Task) -> str | None:
    """The setting of a kind itself that a name is closest to; None: another one is closer, or none is close."""
    near = nearest_name(name, (*kind.settings(), *GROUPS["task"]))
    return near if near in kind.settings() else None


def settle_task(assignments: Sequence[str], epochs: float | None) -> tuple[TaskSettings, Machine]:
    """Apply `--set`: names start with `task` or `run`."""
    task = TaskSettings(epochs=epochs)
    machine = Machine()
    for assignment in assignments:
        name, text = cut(assignment)
        root, *path = name.split(".")
        if root == "task" and path:
            if path == ["epochs"] and epochs is not None:
                raise SettingError(
                    tr(
                        "--epochs {epochs:g} and task.epochs={text} are the same setting. Give one of them.",
                        epochs=epochs,
                        text=text,
                    )
                )
            task = assign(task, path, text, name)
        elif root == "run" and path:
            machine = assign(machine, path, text, name)
            check_read(name, FINETUNING, "plm finetune")
        else:
            raise SettingError(
                tr(
                    "There is no setting '{name}'.{hint} Settings of plm finetune start with task or run, as in "
                    "task.learning_rate=1e-4.",
                    name=name,
                    hint=did_you_mean(*homes(name, GROUPS)) or nearest(root, ("task", "run")),
                )
            )
    return checked(task), checked(machine)


def few_steps(width: int) -> int:
    """The number of steps from which on a network of this width has dropout by default."""
    return FEW_STEPS_OF_NARROW if width < PAPER_WIDTH else FEW_STEPS
