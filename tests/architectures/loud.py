"""Small networks and rows for tests of what reads what."""

from typing import Any

import torch

from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import unnamed


def loud(settings: Any) -> Any:
    """A network of 30 tokens, with weights large enough that every position matters."""
    torch.manual_seed(0)
    network = settings.build(unnamed(30))
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "norm" not in name:
                weight.normal_(0, 0.3)
    return network


def rows_of(*lengths: int) -> Batch:
    tokens = torch.randint(5, 30, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Batch(source=Side(tokens=tokens.where(visible, 0), visible=visible, segments=torch.zeros_like(tokens)))
