"""From hidden vectors to a score for every token."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE
from plmkit.initialisation.weights import start_weights
from plmkit.kernels.chunked import chunked_cross_entropy
from plmkit.kernels.gather import take_once
from plmkit.layers.activations import ACTIVATIONS


class TiedHead(nn.Module):
    """The token table itself, with no weight of its own (Radford et al., 2018, 3.1)."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple, so that the table stays the network's and is saved once

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary)."""
        return F.linear(hidden, self.table)

    @property
    def table(self) -> Tensor:
        """(vocabulary, width) whose product with a vector is all there is to a score."""
        return self._table[0].weight

    def loss(self, hidden: Tensor, targets: Tensor, shares: Tensor | None = None) -> Tensor:
        """Mean cross entropy at N positions, or its sum with these shares (N,)."""
        return chunked_cross_entropy(hidden, self._table[0].weight, targets, shares)


class TableHead(nn.Module):
    """The token table itself as the decoder, with a free bias (zihangdai/xlnet)."""

    occurring: Tensor  # None unless the head is restricted to the corpus
    places: Tensor

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(len(table.weight)))
        self._table = (table,)  # in a tuple, so that the table stays the encoder's and is saved once
        self.register_buffer("occurring", None, persistent=False)  # (N,) tokens of the corpus
        self.register_buffer("places", None, persistent=False)  # (vocabulary,) where each token is among them

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary)."""
        return F.linear(self.transformed(hidden), self._table[0].weight, self.bias)

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross entropy at N positions."""
        table, bias = self.scales()
        return chunked_cross_entropy(self.transformed(hidden), table, self.placed(targets), bias=bias)

    def weighed(self, hidden: Tensor) -> Tensor:
        """(N, width) to (N, tokens) that are weighed against each other."""
        return F.linear(self.transformed(hidden), *self.scales())

    def scales(self) -> tuple[Tensor, Tensor]:
        """(tokens, width) and (tokens,) by which they are weighed: in training only tokens that the corpus has.

        A published vocabulary has many tokens that a small corpus never uses. Where biases begin at frequencies,
        leaving them out changes the loss in the third decimal, and saves most of the largest product.
        """
        table, bias = self._table[0].weight, self.bias
        if not self.few:
            return table, bias
        return take_once(table, self.occurring), take_once(bias, self.occurring)

    def placed(self, tokens: Tensor) -> Tensor:
        """Where tokens stand among those that are weighed."""
        return self.places[tokens] if self.few else tokens

    def named(self, places: Tensor) -> Tensor:
        """Which tokens stand there."""
        return self.occurring[places] if self.few else places

    @property
    def few(self) -> bool:
        """Are only tokens of the corpus weighed?"""
        return self.training and self.occurring is not None

    def transformed(self, hidden: Tensor) -> Tensor:
        """As the table reads it."""
        return hidden

    def restrict(self, frequencies: np.ndarray) -> None:
        """In training, score only tokens that occur in the corpus, given how often each token does."""
        occurring = np.flatnonzero(frequencies)
        places = np.full(len(frequencies), IGNORE)
        places[occurring] = np.arange(len(occurring))
        self.occurring, self.places = torch.from_numpy(occurring), torch.from_numpy(places)


class VocabularyHead(TableHead):
    """Transform, then the token table (google-research/bert)."""

    def __init__(self, table: nn.Embedding, *, width: int, activation: str, epsilon: float) -> None:
        super().__init__(table)
        inner = table.embedding_dim
        self.transform = nn.Linear(width, inner)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(inner, eps=epsilon)
        start_weights(self)

    def transformed(self, hidden: Tensor) -> Tensor:
        return self.norm(self.activation(self.transform(hidden)))
