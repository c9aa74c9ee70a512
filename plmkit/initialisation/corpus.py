"""Initial weights from counts of the corpus."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn

from plmkit.data.randomness import generator
from plmkit.data.shards import TokenStore, let_go
from plmkit.errors import SettingError
from plmkit.language import comma, tr
from plmkit.layers.vocabulary_head import TableHead
from plmkit.network import Network

if TYPE_CHECKING:
    from scipy import sparse

COUNTED = 0.6  # norm of an embedding from counts; random ones of width 256 have 0.28
WINDOW = 8  # tokens to either side that count as context
MOST_TOKENS = 2_000_000  # counted, in random documents: memory grows with their number
SMOOTHING = 0.75  # exponent of context frequencies, or rare ones would weigh too much (Levy et al., 2015, 3.1)
CHOICE, TURN = 41, 42  # purposes of random numbers


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
        self.check(network)
        if self.frequency_bias:
            self.set_biases(network, statistics)
        if self.cooccurrence_embeddings:
            self.set_embeddings(network, statistics)

    def check(self, network: Network) -> None:
        """Refuse what a network has no weights for."""
        if self.frequency_bias and not biased_outputs(network):
            raise SettingError(
                tr(
                    "initialisation.frequency_bias has no effect: the output layers of {heads} have no bias. Turn it "
                    "off.",
                    heads=comma().join(network.all_heads()),
                )
            )
        if self.cooccurrence_embeddings and token_embedding(network) is None:
            raise SettingError(
                tr(
                    "initialisation.cooccurrence_embeddings needs a model with a single token embedding; {type} has "
                    "none. Turn it off.",
                    type=type(network.model).__name__,
                )
            )

    @torch.no_grad()
    def set_biases(self, network: Network, statistics: Statistics) -> None:
        for output in biased_outputs(network):
            counts = statistics.frequencies + 0.5  # add-half smoothing: no token is impossible
            output.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    @torch.no_grad()
    def set_embeddings(self, network: Network, statistics: Statistics) -> None:
        embedding = token_embedding(network)
        assert embedding is not None
        table = embedding.weight
        counted = torch.from_numpy(statistics.cooccurrence_embeddings(table.shape[1])).to(table)
        table.copy_(torch.where(counted.any(1, keepdim=True), COUNTED * counted, table))


def biased_outputs(network: Network) -> list[TableHead]:
    """The output layers over the vocabulary that have a bias."""
    return [head.output for head in network.all_heads().values() if isinstance(head.output, TableHead)]


def token_embedding(network: Network) -> nn.Embedding | None:
    model: Any = network.model
    found: nn.Embedding | None = model.token_embedding
    return found


def token_vectors(store: TokenStore, documents: np.ndarray, size: int, width: int, seed: int) -> np.ndarray:
    """(size, width) a unit vector per token, similar for tokens in similar contexts; zeros for unseen tokens.

    A truncated SVD of positive pointwise mutual information (Levy and Goldberg, 2014), rotated at random so that no
    column is stronger than another.
    """
    from sklearn.utils.extmath import randomized_svd
    from threadpoolctl import threadpool_limits

    known = positive_pmi(count_cooccurrences(text_of(store, sample_documents(store, documents, seed)), size))
    some = np.diff(known.indptr) > 0
    vectors = np.zeros((size, width), dtype=np.float32)
    if not some.any():
        return vectors
    rank = min(width, size)
    with threadpool_limits(1):  # or the last bits would depend on the number of cores
        left, strengths, _ = randomized_svd(known, rank, n_iter=2, random_state=seed % 2**32)
        turn, _ = np.linalg.qr(generator(seed, TURN).normal(size=(width, width)))
        vectors[some, :rank] = (left * np.sqrt(strengths))[some]
        vectors[some] -= vectors[some].mean(0)  # a common component carries no information
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors @ turn.astype(np.float32)


def sample_documents(store: TokenStore, documents: np.ndarray, seed: int) -> np.ndarray:
    """A random choice of documents with up to MOST_TOKENS tokens in total, in the order of the text."""
    order = generator(seed, CHOICE).permutation(documents)
    tokens = store.document_tokens()[order]
    return np.sort(order[np.cumsum(tokens) - tokens < MOST_TOKENS])


def text_of(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """Their tokens in one row, with WINDOW times -1 after each document, so that windows do not cross documents."""
    parts = [np.full(WINDOW, -1, dtype=np.int32)]
    for document in documents.tolist():
        begin, end = store.stretch(document)
        parts += [store.tokens[begin : min(end, begin + MOST_TOKENS)].astype(np.int32), parts[0]]
    let_go(store.tokens)
    return np.concatenate(parts)


def count_cooccurrences(row: np.ndarray, size: int) -> "sparse.csr_array":
    """(size, size) co-occurrence counts."""
    from scipy import sparse  # slow to import, and most commands do not count

    counts = sparse.csr_array((size, size), dtype=np.float32)
    for distance in range(1, WINDOW + 1):
        one, other = row[:-distance], row[distance:]
        both = (one >= 0) & (other >= 0)
        ones = np.ones(int(both.sum()), dtype=np.float32)
        counts = counts + sparse.coo_array((ones, (one[both], other[both])), shape=(size, size)).tocsr()
    return sparse.csr_array(counts + counts.T)


def positive_pmi(near: "sparse.csr_array") -> "sparse.csr_array":
    """Positive pointwise mutual information.

    The counts are changed in place: they are the largest array here.
    """
    totals = near.sum(1)
    smooth = totals**SMOOTHING
    near.data *= smooth.sum()
    near.data /= np.repeat(totals, np.diff(near.indptr))
    near.data /= smooth[near.indices]
    np.log(np.maximum(near.data, 1, out=near.data), out=near.data)
    near.eliminate_zeros()
    return near
