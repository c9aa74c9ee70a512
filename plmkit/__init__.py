"""plmkit: pretrain, fine-tune and compare classic language-model recipes on your own text.

>>> import plmkit
>>> model = plmkit.pretrain("bert-tiny", "my_texts/", "runs/mine", steps=20, quiet=True)
>>> model = plmkit.finetune("runs/mine", "classify", "train.tsv", "runs/mine-labels", quiet=True)
>>> plmkit.load("runs/mine-labels").classes
('bad', 'good')
"""

import os
from typing import TYPE_CHECKING, Any

# Threads that wait for each other spin briefly, then sleep, so that a busy machine gives its cores to threads that
# work; without spinning, small steps take twice as long. OpenMP reads this when torch is loaded, so it is set before
# any of our modules can load torch.
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "100000"}

if os.environ.get("WORLD_SIZE", "1") != "1":  # torch warns, in every process, about choices that are intended
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

__version__ = "0.1.0"
__all__ = ["Columns", "__version__", "finetune", "load", "pretrain"]

if TYPE_CHECKING:
    from plmkit.api import Columns, finetune, load, pretrain


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """`plmkit.load` and the others import torch, which takes seconds: only on first use."""
    if name in __all__:
        from plmkit import api

        return getattr(api, name)
    raise AttributeError(f"module 'plmkit' has no attribute '{name}'")
