"""From hidden vectors to a score for every token."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.start import start_weights


class VocabularyHead(nn.Module):
    """Transform, then the token table itself as the decoder, with a free bias (google-research/bert)."""

    def __init__(self, table: nn.Embedding, *, width: int, activation: str, epsilon: float) -> None:
        super().__init__()
        size, inner = table.weight.shape
        self.transform = nn.Linear(width, inner)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(inner, eps=epsilon)
        self.bias = nn.Parameter(torch.zeros(size))
        self._table = (table,)  # in a tuple, so that the table stays the encoder's and is saved once
        start_weights(self)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary)."""
        transformed = self.norm(self.activation(self.transform(hidden)))
        return F.linear(transformed, self._table[0].weight, self.bias)

    def start(self, frequencies: np.ndarray) -> None:
        """Let the bias begin at how often each token occurs."""
        shares = (frequencies + 0.5) / (frequencies + 0.5).sum()  # half a count: no token is impossible
        with torch.no_grad():
            self.bias.copy_(torch.from_numpy(np.log(shares)))
