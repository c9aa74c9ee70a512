"""The network of XLNet: a content stream that reads tokens, and a query stream that knows only where it stands."""

from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn

from plmkit.architectures.two_stream_attention import TwoStreamAttention, View
from plmkit.data.batch import Batch, Memory, States
from plmkit.errors import SettingError
from plmkit.initialisation.weights import start_at_distances, start_normal
from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.block import FeedForward
from plmkit.layers.dropout import Dropout
from plmkit.layers.recollection import Recollection
from plmkit.layers.relative import distances_before, sinusoids


@dataclass(frozen=True, kw_only=True)
class TwoStream:
    """Relative Transformer whose predictions are made by queries without a token (Yang et al., 2019, 2.3)."""

    layers: int
    heads: int
    width: int
    inner: int  # width inside the feed-forward sublayer
    longest: int = 512
    memory: int = 384  # positions of earlier rows of the same text that each layer may read; 0: none
    reuse: float = 0.5  # the first part of each row, which goes into the memory; the next row begins behind it
    activation: str = "gelu_tanh"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    pooler: bool = False  # one more layer on the last position, for judging the row as a whole
    neighbours: bool = False  # begin with heads that read the neighbouring tokens; for runs of minutes
    start: ClassVar = "normal"  # how weights begin
    left_to_right: ClassVar[bool] = True
    permuted: ClassVar[bool] = True  # the order of the text is one of many: `begin` and `extend` read in that one

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "width", "inner", "longest"):
            if getattr(self, name) < 1:
                raise SettingError(f"architecture.{name} must be 1 or more; found {getattr(self, name)}.")
        if self.memory < 0 or not 0 < self.reuse <= 1:
            raise SettingError(
                "architecture.memory is 0 or more, architecture.reuse a share of the row, above 0 up to 1; "
                f"found {self.memory} and {self.reuse}."
            )
        if self.width % self.heads or self.width % 2:
            raise SettingError(
                f"architecture.width={self.width} must be even and a multiple of architecture.heads={self.heads}."
            )
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise SettingError(f"There is no architecture.activation '{self.activation}'; there are {known}.")
        if not (0 <= self.dropout < 1 and 0 <= self.attention_dropout < 1):
            raise SettingError("architecture.dropout and architecture.attention_dropout lie from 0 to below 1.")

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "pooled"} if self.pooler else {"hidden"})

    @property
    def reach(self) -> int:
        """How many steps a token reads where text is read on and on, itself among them."""
        return self.memory + self.longest

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned: it judges whole rows, by the content stream alone."""
        return replace(self, dropout=dropout, attention_dropout=dropout, pooler=True, memory=0)

    def build(self, vocabulary: Sized) -> "TwoStreamModel":
        return TwoStreamModel(self, len(vocabulary))


class TwoStreamModel(nn.Module):
    """Reads rows by their content; where an order and targets are given, answers from the query stream instead."""

    slows_blocks_only: ClassVar[bool] = True  # where lower layers learn slower, the last has the full rate

    def __init__(self, settings: TwoStream, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenTable(vocabulary_size, settings.width)
        self.query = nn.Parameter(0.02 * torch.randn(1, settings.width))  # every query begins as this
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(TwoStreamBlock(settings) for _ in range(settings.layers))
        self.pooler = nn.Linear(settings.width, settings.width) if settings.pooler else None
        start_normal(self)
        if settings.neighbours:
            start_at_distances(list(self.blocks), settings.heads)
            nn.init.zeros_(self.query)  # so that what the first block reads is not drowned

    def forward(self, batch: Batch) -> States:
        content = self.dropout(self.embed.tokens(batch.source.tokens))  # (B, L, width)
        if batch.attention_order is not None and batch.targets is not None:
            return self.answer(content, batch, batch.predicted)
        view = View(batch, self.settings.width)
        view.waves = self.dropout(view.waves)
        inputs = []
        for number, block in enumerate(self.blocks):
            inputs.append(content)
            content, _ = block(content, None, memory_of(batch, number), view)
        content = self.dropout(content)
        pooled = None if self.pooler is None else torch.tanh(self.pooler(content[:, -1]))
        return States(hidden=content, pooled=pooled, memory=self.remember(batch.memory, inputs))

    def answer(self, content: Tensor, batch: Batch, asked: Tensor) -> States:
        """Two streams: only positions that are asked have a query; of the last block only they are wanted."""
        places, filled = places_of(asked)  # (B, P)
        view = View(batch, self.settings.width, places)
        view.waves = self.dropout(view.waves)
        query = self.dropout(self.query.expand(*places.shape, -1))  # (B, P, width)
        inputs = []
        for number, block in enumerate(self.blocks):
            inputs.append(content)
            last = number == len(self.blocks) - 1
            content, query = block(content, query, memory_of(batch, number), view, query_only=last)
        answers = self.dropout(query)
        hidden = answers.new_zeros(*asked.shape, answers.shape[-1])
        hidden = hidden.masked_scatter(asked[:, :, None], answers[filled])
        return States(hidden=hidden, memory=self.remember(batch.memory, inputs))

    def begin(self, rows: int, longest: int) -> Recollection:
        """A cache for so many rows of up to so many tokens; every token reads `reach` steps, itself among them."""
        attentions = [cast(TwoStreamBlock, block).attention for block in self.blocks]
        return Recollection(attentions, self.waves, rows=rows, longest=longest, reach=self.settings.reach)

    def waves(self, keys: int) -> Tensor:
        """(keys + 1, width) of the distances from keys - 1 down to -1."""
        return sinusoids(distances_before(keys + 1, self.query.device) - 1, self.settings.width)

    @torch.no_grad()
    def extend(self, tokens: Tensor, cache: Recollection) -> Tensor:
        """(B, n) further tokens to (B, n, width): what the query behind each says, the order being that of the text."""
        return torch.cat([self.advance(part, cache) for part in cache.parts(tokens)], dim=1)

    def advance(self, tokens: Tensor, cache: Recollection) -> Tensor:
        content = self.embed.tokens(tokens)
        query = self.query.expand(*tokens.shape, -1)
        for number, block in enumerate(self.blocks):
            last = number == len(self.blocks) - 1
            content, query = cast(TwoStreamBlock, block).extend(content, query, cache, number, query_only=last)
        return query

    def remember(self, before: Memory | None, inputs: list[Tensor]) -> Memory | None:
        """(B, layers, M, width) what each block read first of this row, behind what it remembers."""
        if not self.settings.memory:
            return None
        kept = round(self.settings.reuse * inputs[0].shape[1])
        new = torch.stack([one.detach()[:, :kept] for one in inputs], dim=1)
        joined = new if before is None else torch.cat([before[0].to(new.dtype), new], dim=2)
        return (joined[:, :, -self.settings.memory :],)


class TokenTable(nn.Module):
    """The vectors of the tokens, and nothing beside them: positions and segments are for attention to tell."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.tokens = nn.Embedding(vocabulary, width)


def memory_of(batch: Batch, layer: int) -> Tensor | None:
    return None if batch.memory is None else batch.memory[0][:, layer]


def places_of(asked: Tensor) -> tuple[Tensor, Tensor]:
    """(B, P) where the asked positions of each row are, and where there is one: rows may ask for unlike numbers."""
    counts = asked.sum(1)
    most = int(counts.max())
    filled = torch.arange(most, device=asked.device) < counts[:, None]
    places = torch.zeros(filled.shape, dtype=torch.long, device=asked.device)
    places[filled] = asked.nonzero()[:, 1]
    return places, filled


class TwoStreamBlock(nn.Module):
    """Both streams through the same sublayers, normalised after each (Yang et al., 2019, 2.3)."""

    def __init__(self, settings: TwoStream) -> None:
        super().__init__()
        self.attention = TwoStreamAttention(settings.width, settings.heads, settings.attention_dropout)
        self.attention_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.feed_forward = FeedForward(settings.width, settings.inner, settings.activation, settings.dropout)
        self.feed_forward_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, content: Tensor, query: Tensor | None, memory: Tensor | None, view: View, query_only: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        read, asked = self.attention(content, query, memory, view, query_only)
        if not query_only:
            content = self.finish(content, read)
        return content, None if query is None else self.finish(query, asked)

    def extend(
        self, content: Tensor, query: Tensor, cache: Recollection, layer: int, query_only: bool
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Further tokens of a text that is written from left to right, and the query behind each."""
        read, asked = self.attention.extend(content, query, cache, layer, query_only)
        return content if query_only else self.finish(content, read), self.finish(query, asked)

    def finish(self, stream: Tensor, read: Tensor) -> Tensor:
        stream = self.attention_norm(self.dropout.add(stream, read))
        return self.feed_forward_norm(self.dropout.add(stream, self.feed_forward(stream)))
