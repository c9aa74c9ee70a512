"""Initial weights from counts of the corpus."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.vocabulary_head import TableHead
from plmkit.network import Network

COUNTED = 0.6  # norm of an embedding from counts; random ones of width 256 have 0.28


class Statistics(Protocol):
    """Counts of the training text, made on demand."""

    @property
    def frequencies(self) -> np.ndarray:
        """(vocabulary,) of each token."""

    def cooccurrence_embeddings(self, width: int) -> np.ndarray:
        """(vocabulary, width) unit vectors, similar for tokens in similar contexts; 0 for unseen tokens."""


@dataclass(frozen=True, kw_only=True)
class Initialisation:
    """Initial weights from counts of the corpus, for runs of minutes; by default all are random."""

    frequency_bias: bool = False  # output biases: log frequency of each token, which otherwise takes minutes to learn
    cooccurrence_embeddings: bool = False  # token embeddings from co-occurrence counts

    def apply(self, network: Network, statistics: Statistics) -> None:
        """Overwrite random weights of a network."""
        if self.frequency_bias:
            self.set_biases(network, statistics)
        if self.cooccurrence_embeddings:
            self.set_embeddings(network, statistics)

    @torch.no_grad()
    def set_biases(self, network: Network, statistics: Statistics) -> None:
        for head in network.all_heads().values():
            if isinstance(head.output, TableHead):
                counts = statistics.frequencies + 0.5  # add-half smoothing: no token is impossible
                head.output.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    @torch.no_grad()
    def set_embeddings(self, network: Network, statistics: Statistics) -> None:
        model: Any = network.model
        embedding: nn.Embedding | None = model.token_embedding
        if embedding is None:
            raise SettingError(
                tr(
                    "initialisation.cooccurrence_embeddings needs a model with a single token embedding; {type} has "
                    "none. Turn it off.",
                    type=type(model).__name__,
                )
            )
        table = embedding.weight
        counted = torch.from_numpy(statistics.cooccurrence_embeddings(table.shape[1])).to(table)
        table.copy_(torch.where(counted.any(1, keepdim=True), COUNTED * counted, table))
