"""How to fine-tune: `--set task.NAME=...`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plmkit.config.machine import Machine, check_read
from plmkit.config.settings import assign, checked, cut
from plmkit.errors import SettingError, nearest
from plmkit.language import tr
from plmkit.objectives.causal_lm import CausalLM
from plmkit.schedules.optimizers import AdamW, BertAdam
from plmkit.schedules.schedule import SHAPES, check_optimizer
from plmkit.schedules.tuning import Tuning
from plmkit.tasks.heads import POOLINGS

SHORTEST = 5  # [CLS] a [SEP] b [SEP]
READ = ("device", "dtype", "threads", "micro_batch", "log_steps")  # settings of `run` that fine-tuning reads


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """BERT's own grid is rates 2e-5 to 5e-5, batches of 16 or 32, 2 to 4 epochs (Devlin et al., 2018, A.3)."""

    epochs: float = 3.0
    batch: int = 32
    # what is None here is as in the model's own paper: its recipe says
    rate: float | None = None  # at its peak; None: the paper's at a width of 768, higher for narrower networks
    warmup: float | None = None  # share of the steps
    shape: str | None = None  # how the rate rises and falls
    optimizer: AdamW | BertAdam | None = None
    decay: float | None = None  # of the weights: the optimizer's
    clip: float | None = None  # norm of the whole gradient; 0 leaves it alone
    layer_decay: float | None = None  # each layer below learns this much slower than the one above
    dropout: float = 0.1  # before the last layer, and inside the network
    pooling: str = "first"  # what is read: first, mean, max or concat
    length: int | None = None  # tokens per row; default: as many as the model reads
    frozen: bool = False  # train the last layer only
    scratch: bool = False  # start from random weights, as contrast
    lm_weight: float | None = None  # of the language model on the rows themselves; None: 0.5 where there can be one

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "rate"):
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
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise SettingError(
                tr(
                    "task.layer_decay must be above 0 and at most 1; found {layer_decay:g}.",
                    layer_decay=self.layer_decay,
                )
            )
        if self.shape is not None and self.shape not in SHAPES:
            raise SettingError(
                tr("task.shape takes {shapes}; found '{shape}'.", shapes=", ".join(SHAPES), shape=self.shape)
            )
        if self.optimizer is not None:
            check_optimizer(self.optimizer, "task.optimizer")
            if self.decay not in (None, self.optimizer.decay):
                raise SettingError(
                    tr(
                        "task.decay={decay:g} and task.optimizer.decay={decay_2:g} are one setting. Give "
                        "task.optimizer.decay alone.",
                        decay=self.decay,
                        decay_2=self.optimizer.decay,
                    )
                )
        if self.pooling not in POOLINGS:
            raise SettingError(
                tr(
                    "task.pooling takes {poolings}; found '{pooling}'.",
                    poolings=", ".join(POOLINGS),
                    pooling=self.pooling,
                )
            )
        if self.length is not None and self.length < SHORTEST:
            raise SettingError(
                tr(
                    "task.length must be {shortest} or more, to hold two tokens; found {length}.",
                    shortest=SHORTEST,
                    length=self.length,
                )
            )
        if not 0 <= (self.warmup or 0.0) < 1 or not 0 <= self.dropout < 1:
            raise SettingError(
                tr(
                    "task.warmup and task.dropout lie from 0 to below 1; found {warmup} and {dropout}.",
                    warmup=self.warmup,
                    dropout=self.dropout,
                )
            )
        if self.frozen and self.scratch:
            raise SettingError(tr("task.frozen with task.scratch would train one layer on random features. Drop one."))
        if self.frozen and self.lm_weight:
            raise SettingError(
                tr("task.frozen leaves the language model as it is, so task.lm_weight has nothing to train. Drop one.")
            )

    def settled(self, architecture: Any, tuning: Tuning = Tuning()) -> "Settled":
        """What is left unset, by the paper and by what the network is."""
        possible = CausalLM.name in architecture.tied_heads
        if self.lm_weight and not possible:
            raise SettingError(
                tr(
                    "task.lm_weight={lm_weight:g} asks for a language model beside the task, which is built where "
                    "the token table is its only weight (GPT, LSTM); this {type} has none.\n"
                    "Leave task.lm_weight out.",
                    lm_weight=self.lm_weight,
                    type=type(architecture).__name__,
                )
            )
        optimizer = self.optimizer or replace(
            tuning.optimizer, decay=tuning.optimizer.decay if self.decay is None else self.decay
        )
        filled: dict[str, Any] = {
            "rate": rate_for(architecture.width, tuning.rate),
            "warmup": tuning.warmup,
            "shape": tuning.shape,
            "clip": tuning.clip,
            "layer_decay": tuning.layer_decay,
            "lm_weight": 0.5 if possible and not self.frozen else 0.0,
        }
        given = {name: value for name, value in vars(self).items() if value is not None}
        return Settled(**filled | given | {"optimizer": optimizer, "decay": optimizer.decay, "length": self.length})


@dataclass(frozen=True, kw_only=True)
class Settled(TaskSettings):
    """The same, with nothing left open but the length."""

    rate: float
    warmup: float
    shape: str
    optimizer: AdamW | BertAdam
    decay: float
    clip: float
    layer_decay: float
    lm_weight: float


def rate_for(width: int, usual: float = Tuning().rate) -> float:
    """Narrow networks want higher rates than is usual at 768: for 3e-5, BERT's, 2.7e-4 at 256."""
    return min(5e-4, usual * (768 / width) ** 2)


def settle_task(assignments: Sequence[str], epochs: float | None) -> tuple[TaskSettings, Machine]:
    """Apply `--set`: names begin with `task` or `run`."""
    task = TaskSettings() if epochs is None else TaskSettings(epochs=epochs)
    machine = Machine()
    for assignment in assignments:
        name, text = cut(assignment)
        root, *path = name.split(".")
        if root == "task" and path:
            if path == ["epochs"] and epochs is not None:
                raise SettingError(
                    tr(
                        "--epochs {epochs:g} and task.epochs={text} say the same thing twice. Give one of them.",
                        epochs=epochs,
                        text=text,
                    )
                )
            task = assign(task, path, text, name)
        elif root == "run" and path:
            machine = assign(machine, path, text, name)
            check_read(name, READ, "plm finetune")
        else:
            raise SettingError(
                tr(
                    "There is no setting '{name}'.{hint} When fine-tuning, names begin with task or run, as in "
                    "task.rate=1e-4.",
                    name=name,
                    hint=nearest(root, ("task", "run")),
                )
            )
    return checked(task), checked(machine)
