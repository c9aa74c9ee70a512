"""plmkit: pretrain, fine-tune and compare classic language-model recipes on your own text.

>>> import plmkit
>>> model = plmkit.load("runs/bert")  # doctest: +SKIP
"""

import os
from typing import TYPE_CHECKING, Any

# Threads that wait for each other sleep instead of spinning, so that a busy machine gives the cores to those that
# work. OpenMP reads this when torch is loaded: it is set before anything of ours can load it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
__all__ = ["__version__", "load"]

if TYPE_CHECKING:
    from plmkit.loading import load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """`plmkit.load` brings torch along, which takes seconds: only when asked for."""
    if name == "load":
        from plmkit.loading import load

        return load
    raise AttributeError(f"module 'plmkit' has no attribute '{name}'")
