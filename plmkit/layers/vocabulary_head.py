"""LM heads: hidden states → a logit for every token."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.kernels.chunked import chunked_cross_entropy
from plmkit.kernels.gather import take_once
from plmkit.layers.activations import ACTIVATIONS


class TiedHead(nn.Module):
    """The token embedding as output layer, without further weights (Radford et al., 2018, 3.1)."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple, so that torch does not register it here and it is saved once

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., vocabulary) logits."""
        return F.linear(hidden, self.table)

    @property
    def table(self) -> Tensor:
        """(vocabulary, width) token embeddings; their product with a state is the logits."""
        return self._table[0].weight

    def loss(self, hidden: Tensor, targets: Tensor, shares: Tensor | None = None) -> Tensor:
        """Mean cross entropy at N positions, or the sum weighted by shares (N,)."""
        return chunked_cross_entropy(hidden, self._table[0].weight, targets, shares)


class TableHead(nn.Module):
    """The token embedding as output layer, with a bias (zihangdai/xlnet)."""

    occurring: Tensor  # None unless the head is restricted to the corpus
    places: Tensor

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(len(table.weight)))
        self._table = (table,)  # in a tuple, so that torch does not register it here and it is saved once
        self.register_buffer("occurring", None, persistent=False)  # (N,) tokens of the corpus
        self.register_buffer("places", None, persistent=False)  # (vocabulary,) index of each token among them

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., vocabulary) logits."""
        return F.linear(self.transformed(hidden), self._table[0].weight, self.bias)

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross entropy at N positions."""
        table, bias = self.softmax_weights()
        return chunked_cross_entropy(self.transformed(hidden), table, self.softmax_index(targets), bias=bias)

    def softmax_logits(self, hidden: Tensor) -> Tensor:
        """(N, width) → (N, tokens) logits of the tokens in the softmax."""
        return F.linear(self.transformed(hidden), *self.softmax_weights())

    def softmax_weights(self) -> tuple[Tensor, Tensor]:
        """(tokens, width) embeddings and (tokens,) biases; if restricted, in training, only of tokens in the corpus.

        A published vocabulary has many tokens that a small corpus never uses. If biases are initialised by frequency,
        leaving them out changes the loss in the third decimal, and saves most of the largest product.
        """
        table, bias = self._table[0].weight, self.bias
        if not self.is_restricted:
            return table, bias
        return take_once(table, self.occurring), take_once(bias, self.occurring)

    def softmax_index(self, tokens: Tensor) -> Tensor:
        """Tokens → their indices in the softmax."""
        return self.places[tokens] if self.is_restricted else tokens

    def token_of(self, places: Tensor) -> Tensor:
        """Indices in the softmax → tokens."""
        return self.occurring[places] if self.is_restricted else places

    @property
    def is_restricted(self) -> bool:
        """Whether the softmax has only tokens of the corpus."""
        return self.training and self.occurring is not None

    def transformed(self, hidden: Tensor) -> Tensor:
        """The states that are multiplied with the embeddings."""
        return hidden

    def restrict(self, frequencies: np.ndarray) -> None:
        """In training, score only tokens that occur in the corpus, given the frequencies of all."""
        occurring = np.flatnonzero(frequencies)
        places = np.full(len(frequencies), IGNORE)
        places[occurring] = np.arange(len(occurring))
        self.occurring, self.places = torch.from_numpy(occurring), torch.from_numpy(places)


class VocabularyHead(TableHead):
    """A dense layer with a norm, then the token embedding with a bias (google-research/bert)."""

    def __init__(self, table: nn.Embedding, *, width: int, activation: str, epsilon: float) -> None:
        super().__init__(table)
        inner = table.embedding_dim
        self.transform = nn.Linear(width, inner)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(inner, eps=epsilon)
        init_truncated_normal(self)

    def transformed(self, hidden: Tensor) -> Tensor:
        return self.norm(self.activation(self.transform(hidden)))
