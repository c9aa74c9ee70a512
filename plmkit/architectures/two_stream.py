"""The network of XLNet: a content stream that sees tokens, and a query stream that sees only positions."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_activations, check_dropout, check_heads, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, Generates, GeneratingModel
from plmkit.architectures.two_stream_attention import AttentionContext, TwoStreamAttention
from plmkit.data.batch import Batch, Memory, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_normal, init_relative_local_heads
from plmkit.language import message, tr
from plmkit.layers.relative import KeyValueMemory, distances_before, sinusoids
from plmkit.layers.transformer import Dropout, FeedForward, TokenEmbedding


@dataclass(frozen=True, kw_only=True)
class TwoStream(Architecture):
    """Relative Transformer with two streams; queries predict without seeing the token (Yang et al., 2019, 2.3)."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    memory: int = 384  # length of the recurrent memory in tokens; 0: none
    reuse: float = 0.5  # share of each row, its first part, that enters the memory; the next row starts after it
    activation: str = "gelu_tanh"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.1  # dropout rate of attention weights
    epsilon: float = 1e-12  # of layer normalisation, added to the variance
    pooler: bool = False  # a dense layer on the last position, for classification of whole rows
    local_heads: bool = False  # initial heads attend to the neighbouring tokens; for runs of minutes
    not_a_graph: ClassVar[str | None] = message("what its attention computes depends on the numbers of a batch")
    generates: ClassVar[Generates] = "permuted"
    bounded: ClassVar[bool] = False  # distances have no limit
    optional_pooler: ClassVar[bool] = True
    conditional_spans: ClassVar[bool] = True
    may_change: ClassVar[frozenset[str]] = Architecture.may_change | {"pooler"}
    initial: ClassVar[frozenset[str]] = frozenset({"local_heads"})

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "heads", "width", "inner", "max_length")
        if self.memory < 0 or not 0 < self.reuse <= 1:
            raise SettingError(
                tr(
                    "architecture.memory must be at least 0, architecture.reuse a share of the row, above 0 and at "
                    "most 1; found {memory} and {reuse}.",
                    memory=self.memory,
                    reuse=self.reuse,
                )
            )
        check_heads(self.width, self.heads, even=True)
        check_activations(self, "activation")
        check_dropout(self, "dropout", "attention_dropout")

    @property
    def writes(self) -> frozenset[str]:
        filled = {"hidden", "layers"} | ({"pooled"} if self.pooler else set()) | ({"memory"} if self.memory else set())
        return frozenset(filled)

    @property
    def initialiser(self) -> str:
        return "normal"

    @property
    def memory_length(self) -> int:
        return self.memory

    @property
    def context_length(self) -> int:
        return self.memory + self.max_length

    @property
    def reused_share(self) -> float:
        return self.reuse

    def decay_steps(self, name: str) -> int:
        """0 for the last layer and for weights outside the layers, layers - 1 for the first (zihangdai/xlnet)."""
        layer = self.layer_of(name)
        return self.layers - layer if layer else 0

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned, with a pooler and the content stream only."""
        return replace(self, dropout=dropout, attention_dropout=dropout, pooler=True, memory=0)

    def build(self, vocabulary: Vocabulary) -> "TwoStreamModel":
        return TwoStreamModel(self, vocabulary.rows)


class TwoStreamModel(GeneratingModel[KeyValueMemory]):
    """The content stream; given an order and targets, the query stream predicts instead."""

    def __init__(self, settings: TwoStream, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenEmbedding(vocabulary_size, settings.width)
        self.query = nn.Parameter(0.02 * torch.randn(1, settings.width))  # the initial state of every query
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(TwoStreamBlock(settings) for _ in range(settings.layers))
        self.pooler = nn.Linear(settings.width, settings.width) if settings.pooler else None
        init_normal(self)
        if settings.local_heads:
            init_relative_local_heads(list(self.blocks), settings.heads)
            nn.init.zeros_(self.query)  # so that it does not drown out what the first block attends to

    def forward(self, batch: Batch) -> States:
        content = self.dropout(self.embed.tokens(batch.source.tokens))  # (B, L, width)
        if batch.attention_order is not None and batch.targets is not None:
            return self.predict(content, batch, batch.predicted)
        context = AttentionContext(batch, self.settings.width)
        context.waves = self.dropout(context.waves)
        inputs = []
        for number, block in enumerate(self.blocks):
            inputs.append(content)
            content, _ = block(content, None, memory_of(batch, number), context)
        content = self.dropout(content)
        pooled = None if self.pooler is None else torch.tanh(self.pooler(content[:, -1]))
        layers = (*inputs, content) if batch.all_layers else None
        return States(hidden=content, pooled=pooled, layers=layers, memory=self.remember(batch.memory, inputs))

    def predict(self, content: Tensor, batch: Batch, predicted: Tensor) -> States:
        """Two streams: only predicted positions have a query, and the last block computes only these."""
        places, filled = places_of(predicted)  # (B, P)
        context = AttentionContext(batch, self.settings.width, places)
        context.waves = self.dropout(context.waves)
        query = self.dropout(self.query.expand(*places.shape, -1))  # (B, P, width)
        inputs, queries = [], []
        for number, block in enumerate(self.blocks):
            inputs.append(content)
            queries.append(query)
            last = number == len(self.blocks) - 1
            content, query = block(content, query, memory_of(batch, number), context, query_only=last)

        def put_back(stream: Tensor) -> Tensor:
            """(B, P, width) → (B, L, width), zeros where nothing is predicted."""
            zeros = stream.new_zeros(*predicted.shape, stream.shape[-1])
            return zeros.masked_scatter(predicted[:, :, None], stream[filled])

        hidden = put_back(self.dropout(query))
        layers = (*map(put_back, queries), hidden) if batch.all_layers else None
        return States(hidden=hidden, layers=layers, memory=self.remember(batch.memory, inputs))

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def begin(self, given: CacheSettings) -> KeyValueMemory:
        attentions = [cast(TwoStreamBlock, block).attention for block in self.blocks]
        window = given.context_length or self.settings.context_length
        return KeyValueMemory(attentions, self.waves, rows=given.rows, max_length=given.max_length, window=window)

    def waves(self, keys: int) -> Tensor:
        """(keys + 1, width) sinusoids of the distances keys - 1 down to -1."""
        return sinusoids(distances_before(keys + 1, self.query.device) - 1, self.settings.width)

    @torch.no_grad()
    def extend(self, tokens: Tensor, cache: KeyValueMemory) -> Tensor:
        """(B, n) next tokens → (B, n, width) states of the query after each, from left to right."""
        return torch.cat([self.advance(part, cache) for part in cache.parts(tokens)], dim=1)

    def advance(self, tokens: Tensor, cache: KeyValueMemory) -> Tensor:
        content = self.embed.tokens(tokens)
        query = self.query.expand(*tokens.shape, -1)
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            content, query = cast(TwoStreamBlock, block).extend(content, query, cache, number, query_only=last)
        return query

    def remember(self, before: Memory | None, inputs: list[Tensor]) -> Memory | None:
        """(B, layers, M, width) the memory of each block, extended by its first inputs."""
        if not self.settings.memory:
            return None
        kept = round(self.settings.reuse * inputs[0].shape[1])
        new = torch.stack([one.detach()[:, :kept] for one in inputs], dim=1)
        joined = new if before is None else torch.cat([before[0].to(new.dtype), new], dim=2)
        return (joined[:, :, -self.settings.memory :],)


def memory_of(batch: Batch, layer: int) -> Tensor | None:
    return None if batch.memory is None else batch.memory[0][:, layer]


def places_of(predicted: Tensor) -> tuple[Tensor, Tensor]:
    """(B, P) the predicted positions of each row, and True where there is one, as rows may predict fewer."""
    counts = predicted.sum(1)
    most = int(counts.max())
    filled = torch.arange(most, device=predicted.device) < counts[:, None]
    places = torch.zeros(filled.shape, dtype=torch.long, device=predicted.device)
    places[filled] = predicted.nonzero()[:, 1]
    return places, filled


class TwoStreamBlock(nn.Module):
    """Both streams through the same post-norm sublayers (Yang et al., 2019, 2.3)."""

    def __init__(self, settings: TwoStream) -> None:
        super().__init__()
        self.attention = TwoStreamAttention(settings.width, settings.heads, settings.attention_dropout)
        self.attention_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.feed_forward = FeedForward(settings.width, settings.inner, settings.activation, settings.dropout)
        self.feed_forward_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self,
        content: Tensor,
        query: Tensor | None,
        memory: Tensor | None,
        context: AttentionContext,
        query_only: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        read, predicted = self.attention(content, query, memory, context, query_only)
        if not query_only:
            content = self.finish(content, read)
        return content, None if query is None else self.finish(query, predicted)

    def extend(
        self, content: Tensor, query: Tensor, cache: KeyValueMemory, layer: int, query_only: bool
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The next tokens in left-to-right inference, and the query after each."""
        read, predicted = self.attention.extend(content, query, cache, layer, query_only)
        return content if query_only else self.finish(content, read), self.finish(query, predicted)

    def finish(self, stream: Tensor, read: Tensor) -> Tensor:
        stream = self.attention_norm(self.dropout.add(stream, read))
        return self.feed_forward_norm(self.dropout.add(stream, self.feed_forward(stream)))
