"""Activations by name."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # erf form: Hugging Face's `gelu`
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # released BERT code; Hugging Face's `gelu_new`
    "relu": F.relu,
    "tanh": torch.tanh,
}
