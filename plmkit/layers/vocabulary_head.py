"""LM heads: hidden states → a logit for every token; plain ones, and adaptive ones with their embeddings."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from plmkit.data.batch import IGNORE
from plmkit.initialisation.weights import init_truncated_normal
from plmkit.kernels.autograd import chunked_cross_entropy, take_once
from plmkit.kernels.linear import Linear, linear
from plmkit.layers.transformer import ACTIVATIONS

MANY_WORDS = 4  # times the samples; with fewer words, all of them are faster


class TiedHead(nn.Module):
    """The token embedding as output layer, without further weights (Radford et al., 2018, 3.1)."""

    is_restricted: ClassVar[bool] = False  # it scores all tokens

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self._table = (table,)  # in a tuple, so that torch does not register it here and it is saved once

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., vocabulary) logits."""
        return linear(hidden, self.table)

    @property
    def table(self) -> Tensor:
        """(vocabulary, width) token embeddings; their product with a state is the logits."""
        return self._table[0].weight

    def softmax_weights(self) -> tuple[Tensor, None]:
        return self.table, None

    def softmax_index(self, tokens: Tensor) -> Tensor:
        return tokens

    def transformed(self, hidden: Tensor) -> Tensor:
        return hidden

    def in_bfloat16(self) -> "TiedHead":
        """The same for inference, with a copy of the embeddings in bfloat16."""
        return TiedHead(nn.Embedding.from_pretrained(self.table.detach().bfloat16()))

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
        return linear(self.transformed(hidden), self._table[0].weight, self.bias)

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Cross entropy at N positions."""
        table, bias = self.softmax_weights()
        return chunked_cross_entropy(self.transformed(hidden), table, self.softmax_index(targets), bias=bias)

    def softmax_logits(self, hidden: Tensor) -> Tensor:
        """(N, width) → (N, tokens) logits of the tokens in the softmax."""
        return linear(self.transformed(hidden), *self.softmax_weights())

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
        self.transform = Linear(width, inner)
        self.activation = ACTIVATIONS[activation]
        self.norm = nn.LayerNorm(inner, eps=epsilon)
        init_truncated_normal(self)

    def transformed(self, hidden: Tensor) -> Tensor:
        return self.norm(self.activation(self.transform(hidden)))


class AdaptiveEmbedding(nn.Module):
    """Tokens cut by frequency into clusters, each `shrink` times narrower than the one before (Dai et al., 2019).

    Without shrinking it is a single embedding of full width, and the clusters matter at the output only.
    """

    def __init__(self, vocabulary: int, width: int, cutoffs: Sequence[int], shrink: int) -> None:
        super().__init__()
        self.width = width
        self.scale = width**0.5
        self.borders = [0, *(cutoff for cutoff in cutoffs if cutoff < vocabulary), vocabulary]
        self.tokens = nn.Embedding(vocabulary, width) if shrink == 1 else None
        self.tables, self.projections = nn.ModuleList(), nn.ParameterList()
        for number, (first, end) in enumerate(pairwise(self.borders) if shrink > 1 else ()):
            self.tables.append(nn.Embedding(end - first, width // shrink**number))
            self.projections.append(nn.Parameter(torch.empty(width, width // shrink**number)))
        for table in [self.tokens, *self.tables]:
            if table is not None:
                nn.init.normal_(table.weight, std=0.02)
        for projection in self.projections:
            nn.init.normal_(projection, std=0.01)

    def forward(self, tokens: Tensor) -> Tensor:
        """(...) → (..., width)."""
        if self.tokens is not None:
            return self.tokens(tokens) * self.scale
        made = self.projections[0].new_zeros(*tokens.shape, self.width)
        for number, (first, end) in enumerate(pairwise(self.borders)):
            mine = (tokens >= first) & (tokens < end)
            part = linear(self.tables[number](tokens[mine] - first), self.projections[number])
            made[mine] = part.to(made.dtype)  # in mixed precision the product has fewer bits than the weights
        return made * self.scale

    def table(self, cluster: int) -> Tensor:
        """(tokens of the cluster, its width)."""
        if self.tokens is None:
            return cast(nn.Embedding, self.tables[cluster]).weight
        return self.tokens.weight[self.borders[cluster] : self.borders[cluster + 1]]


class AdaptiveSoftmax(nn.Module):
    """Adaptive softmax tied to the input embeddings: a frequent token, or a cluster and then a token in it.

    The first projection is not tied; the others are the input's (kimiyoung/transformer-xl, wt103) or untied too (lm1b).
    """

    def __init__(self, embedding: AdaptiveEmbedding, shared_projections: bool = True) -> None:
        super().__init__()
        self._embedding = (embedding,)  # in a tuple, so that torch does not register it here and it is saved once
        self.borders = embedding.borders
        clusters = len(self.borders) - 2
        self.bias = nn.Parameter(torch.zeros(self.borders[-1]))
        self.clusters = nn.Parameter(torch.zeros(clusters, embedding.width)) if clusters else None
        self.cluster_bias = nn.Parameter(torch.zeros(clusters)) if clusters else None
        self.projection = nn.Parameter(torch.empty(embedding.width, embedding.width)) if embedding.tables else None
        rare = [] if shared_projections else list(embedding.projections)[1:]
        self.projections = nn.ParameterList(torch.empty_like(part) for part in rare)
        for projection in [self.projection, *self.projections]:
            if projection is not None:
                nn.init.normal_(projection, std=0.01)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., vocabulary) log-probabilities."""
        head = self.head(hidden)
        frequent = self.borders[1]
        parts = [head[..., :frequent]]
        for cluster in range(1, len(self.borders) - 1):
            parts.append(head[..., frequent + cluster - 1, None] + self.tail(hidden, cluster))
        return torch.cat(parts, dim=-1)

    def head(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of the frequent tokens, then of each cluster of rare ones."""
        return linear(*self.head_parts(hidden)).log_softmax(-1)

    def tail(self, hidden: Tensor, cluster: int) -> Tensor:
        """Log-probabilities of a cluster's tokens, given the cluster."""
        return linear(*self.tail_parts(hidden, cluster)).log_softmax(-1)

    def head_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight, bias = self._embedding[0].table(0), self.bias[: self.borders[1]]
        if self.clusters is not None and self.cluster_bias is not None:
            weight, bias = torch.cat([weight, self.clusters]), torch.cat([bias, self.cluster_bias])
        return hidden if self.projection is None else hidden @ self.projection, weight, bias

    def tail_parts(self, hidden: Tensor, cluster: int) -> tuple[Tensor, Tensor, Tensor]:
        embedding, (first, end) = self._embedding[0], self.borders[cluster : cluster + 2]
        if embedding.tables:
            own = len(self.projections) > 0
            hidden = hidden @ (self.projections[cluster - 1] if own else embedding.projections[cluster])
        return hidden, embedding.table(cluster), self.bias[first:end]

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy at N positions; a cluster is computed only where it holds the target."""
        frequent, rare = self.borders[1], torch.tensor(self.borders[1:-1], device=targets.device)
        cluster = torch.bucketize(targets, rare, right=True)
        first = torch.where(cluster == 0, targets, frequent + cluster - 1)
        part, table, bias = self.head_parts(hidden)
        total = len(targets) * chunked_cross_entropy(part, table, first, bias=bias)
        for number in range(1, len(self.borders) - 1):
            mine = cluster == number
            if bool(mine.any()):
                inside = targets[mine] - self.borders[number]
                part, table, bias = self.tail_parts(hidden[mine], number)
                total = total + len(inside) * chunked_cross_entropy(part, table, inside, bias=bias)
        return total / len(targets)


class SampledSoftmax(nn.Module):
    """A softmax over words in order of frequency; a large one is trained on samples of it (Jean et al., 2015).

    Words beyond the first `words` are predicted as unknown.
    """

    def __init__(self, words: int, width: int, *, samples: int, unknown: int) -> None:
        super().__init__()
        self.samples, self.unknown = samples, unknown
        self.weight = nn.Parameter(torch.empty(words, width))
        self.bias = nn.Parameter(torch.zeros(words))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., width) → (..., words) logits."""
        return linear(hidden, self.weight, self.bias)

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy at N positions; in training, among samples if there are many more words."""
        words = len(self.bias)
        targets = torch.where(targets < words, targets, self.unknown)
        if self.training and self.samples and words >= MANY_WORDS * self.samples:
            return self.sampled_loss(hidden, targets, *log_uniform(words, self.samples))
        return chunked_cross_entropy(hidden, self.weight, targets, bias=self.bias)

    def sampled_loss(self, hidden: Tensor, targets: Tensor, sampled: Tensor, draws: int) -> Tensor:
        """Logits are corrected by how often a word is expected among the samples (TensorFlow's sampled softmax)."""
        sampled = sampled.to(targets.device)
        expected, expected_samples = (expected_counts(some, len(self.bias), draws) for some in (targets, sampled))
        own = (hidden * self.weight[targets]).sum(1) + self.bias[targets] - expected.log()
        others = linear(hidden, self.weight[sampled], self.bias[sampled] - expected_samples.log())
        others = others.masked_fill(targets[:, None] == sampled, -torch.inf)
        return (torch.cat([own[:, None], others], dim=1).logsumexp(1) - own).mean()


def log_uniform(words: int, samples: int) -> tuple[Tensor, int]:
    """(samples,) distinct words, drawn with probability log((n + 2) / (n + 1)) / log(words + 1), and how many draws."""
    drawn = np.zeros(0, dtype=np.int64)
    while True:
        more = torch.rand(4 * samples, dtype=torch.float64).numpy()
        drawn = np.append(drawn, np.minimum(np.exp(more * np.log(words + 1)).astype(np.int64) - 1, words - 1))
        first = np.sort(np.unique(drawn, return_index=True)[1])  # where each word was drawn for the first time
        if len(first) >= samples:
            return torch.from_numpy(drawn[first[:samples]]), int(first[samples - 1]) + 1


def expected_counts(tokens: Tensor, words: int, draws: int) -> Tensor:
    """The probability that a word is among the samples of this many draws."""
    ranks = tokens.double()
    shares = ((ranks + 2).log() - (ranks + 1).log()) / np.log(words + 1)
    return -torch.expm1(draws * torch.log1p(-shares)).float()
