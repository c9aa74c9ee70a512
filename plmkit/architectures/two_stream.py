"""The network of XLNet: a content stream that reads tokens, and a query stream that knows only where it stands."""

from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import IGNORE, Batch, States
from plmkit.errors import SettingError
from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.block import FeedForward
from plmkit.layers.dropout import Dropout, drop
from plmkit.layers.relative import distances_around, relative_shift, sinusoids
from plmkit.layers.start import start_normal

HIDDEN = -1e30  # added to the score of what may not be read; not -inf, or a row that reads nothing would be no number


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
    left_to_right: ClassVar[bool] = True
    reads_last: ClassVar[bool] = True  # rows are judged by their last position

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

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned: it judges whole rows, by the content stream alone."""
        return replace(self, dropout=dropout, attention_dropout=dropout, pooler=True, memory=0)

    def build(self, vocabulary: Sized) -> "TwoStreamModel":
        return TwoStreamModel(self, len(vocabulary))


class TwoStreamModel(nn.Module):
    """Reads rows by their content; where an order and targets are given, answers from the query stream instead."""

    def __init__(self, settings: TwoStream, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenTable(vocabulary_size, settings.width)
        self.query = nn.Parameter(0.02 * torch.randn(1, settings.width))  # every query begins as this
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(TwoStreamBlock(settings) for _ in range(settings.layers))
        self.pooler = nn.Linear(settings.width, settings.width) if settings.pooler else None
        start_normal(self)

    def forward(self, batch: Batch) -> States:
        content = self.dropout(self.embed.tokens(batch.tokens))  # (B, L, width)
        if batch.reading is not None and batch.targets is not None:
            return self.answer(content, batch, batch.targets != IGNORE)
        view = View(batch, self.settings)
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
        view = View(batch, self.settings, places)
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

    def remember(self, before: Tensor | None, inputs: list[Tensor]) -> Tensor | None:
        """(B, layers, M, width) what each block read first of this row, behind what it remembers."""
        if not self.settings.memory:
            return None
        kept = round(self.settings.reuse * inputs[0].shape[1])
        new = torch.stack([one.detach()[:, :kept] for one in inputs], dim=1)
        joined = new if before is None else torch.cat([before.to(new.dtype), new], dim=2)
        return joined[:, :, -self.settings.memory :]


class TokenTable(nn.Module):
    """The vectors of the tokens, and nothing beside them: positions and segments are for attention to tell."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.tokens = nn.Embedding(vocabulary, width)


def memory_of(batch: Batch, layer: int) -> Tensor | None:
    return None if batch.memory is None else batch.memory[:, layer]


def places_of(asked: Tensor) -> tuple[Tensor, Tensor]:
    """(B, P) where the asked positions of each row are, and where there is one: rows may ask for unlike numbers."""
    counts = asked.sum(1)
    most = int(counts.max())
    filled = torch.arange(most, device=asked.device) < counts[:, None]
    places = torch.zeros(filled.shape, dtype=torch.long, device=asked.device)
    places[filled] = asked.nonzero()[:, 1]
    return places, filled


class View:
    """Who may read whom, and from how far: the same for all blocks."""

    def __init__(self, batch: Batch, settings: TwoStream, places: Tensor | None = None) -> None:
        length = batch.tokens.shape[1]
        device = batch.tokens.device
        remembered = 0 if batch.memory is None else batch.memory.shape[2]
        self.keys = remembered + length
        around = distances_around(length, self.keys, device)
        self.waves = sinusoids(around, settings.width)  # (C, width); for rows of two directions (2, C, width)
        self.backward = None
        if batch.backward is not None and bool(batch.backward.any()):
            self.waves = torch.stack([self.waves, sinusoids(-around, settings.width)])
            self.backward = batch.backward.long()
        hidden = hidden_of(batch)  # (B, L, L) or (B, 1, L)
        itself = torch.eye(length, dtype=torch.bool, device=device)
        self.content = added(None if hidden is None else hidden & ~itself, remembered)
        self.nothing = None
        if places is not None:
            assert hidden is not None
            chosen = hidden.expand(-1, length, -1).gather(1, places[:, :, None].expand(-1, -1, length))
            self.query = added(chosen, remembered)  # (B, P, keys)
            if not remembered and bool((blind := chosen.all(-1)).any()):
                self.nothing = blind[None, :, :, None]  # (1, B, P, 1) first in the order: there is nothing to read
            key = torch.arange(self.keys, device=device)
            self.columns = self.keys - 1 - (remembered + places[:, :, None] - key)  # (B, P, keys)
        self.segments = segment_signs(batch.segments, remembered)  # (B, keys, S), or None: all lie in one
        self.own = None if self.segments is None else self.segments[:, remembered:]
        self.asked = None
        if self.own is not None and places is not None:
            self.asked = self.own.gather(1, places[:, :, None].expand(-1, -1, self.own.shape[-1]))  # (B, P, S)


def hidden_of(batch: Batch) -> Tensor | None:
    """(B, L, L) True where position i may not read j by the order; (B, 1, L) or None where there is none."""
    padding = None if bool(batch.visible.all()) else ~batch.visible[:, None, :]
    if batch.reading is None:
        return padding
    hidden = batch.reading[:, :, None, 1] <= batch.reading[:, None, :, 0]
    return hidden if padding is None else hidden | padding


def added(hidden: Tensor | None, remembered: int) -> Tensor | None:
    """(B, Q, keys) what is added to scores; memory is never hidden."""
    if hidden is None:
        return None
    return F.pad(torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, HIDDEN), (remembered, 0))


def segment_signs(segments: Tensor, remembered: int) -> Tensor | None:
    """(B, keys, S) one for the segment of each key; memory lies in the first."""
    lowest, highest = segments.min(), segments.max()
    if lowest == highest and not (remembered and highest > 0):
        return None
    return F.one_hot(F.pad(segments, (remembered, 0))).float()


class TwoStreamBlock(nn.Module):
    """Both streams through the same sublayers, normalised after each (Yang et al., 2019, 2.3)."""

    def __init__(self, settings: TwoStream) -> None:
        super().__init__()
        self.attention = RelativeAttention(settings.width, settings.heads, settings.attention_dropout)
        self.attention_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.feed_forward = DroppingFeedForward(settings)
        self.feed_forward_norm = nn.LayerNorm(settings.width, eps=settings.epsilon)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, content: Tensor, query: Tensor | None, memory: Tensor | None, view: View, query_only: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        read, asked = self.attention(content, query, memory, view, query_only)
        if not query_only:
            content = self.finish(content, read)
        return content, None if query is None else self.finish(query, asked)

    def finish(self, stream: Tensor, read: Tensor) -> Tensor:
        stream = self.attention_norm(stream + self.dropout(read))
        return self.feed_forward_norm(stream + self.dropout(self.feed_forward(stream)))


class DroppingFeedForward(FeedForward):
    """With dropout between its layers too, as the released code has it."""

    def __init__(self, settings: TwoStream) -> None:
        super().__init__(settings.width, settings.inner, settings.activation)
        self.dropout = Dropout(settings.dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.contract(self.dropout(self.activation(self.expand(hidden))))


class RelativeAttention(nn.Module):
    """Scores by content, by distance and by whether two positions lie in one segment (Yang et al., 2019, 2.4, A.2)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        shape = heads, width // heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.distance = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(0.02 * torch.randn(shape))  # u: what any query asks of contents
        self.distance_bias = nn.Parameter(0.02 * torch.randn(shape))  # v: of distances
        self.segment_bias = nn.Parameter(0.02 * torch.randn(shape))
        self.segments = nn.Parameter(0.02 * torch.randn(2, *shape))  # of keys in the same segment, of others

    def forward(
        self, content: Tensor, query: Tensor | None, memory: Tensor | None, view: View, query_only: bool
    ) -> tuple[Tensor, Tensor]:
        """What each position reads, and what each query does; `query_only` leaves the first out."""
        own, key, value = self.project(content, memory, query_only)  # (heads, B, L or keys, inside)
        far = self.reach(view)  # (heads, C, inside), or for rows of two directions (heads, B, C, inside)
        if view.segments is not None:
            key = torch.cat([key, view.segments.to(key.dtype).expand(self.heads, -1, -1, -1)], dim=-1)
        read = asked = content
        if own is not None:
            by_distance = relative_shift(self.by_distance(own, far), view.keys)
            read = self.mix(own, by_distance, key, value, view.own, view.content)
        if query is not None:
            wanted = self.by_heads(F.linear(query, self.query_key_value.weight[: query.shape[-1]]))
            columns = view.columns.expand(self.heads, -1, -1, -1)
            by_distance = self.by_distance(wanted, far).gather(-1, columns)
            asked = self.mix(wanted, by_distance, key, value, view.asked, view.query, view.nothing)
        return read, asked

    def project(
        self, content: Tensor, memory: Tensor | None, query_only: bool
    ) -> tuple[Tensor | None, Tensor, Tensor]:  # fmt: skip
        """Queries of this row, keys and values of memory and row."""
        width = content.shape[-1]
        if query_only:
            own, pairs = None, F.linear(content, self.query_key_value.weight[width:])
        else:
            own, pairs = self.query_key_value(content).split((width, 2 * width), dim=-1)
        if memory is not None:
            before = F.linear(memory.to(content.dtype), self.query_key_value.weight[width:])
            pairs = torch.cat([before, pairs], dim=1)
        key, value = pairs.chunk(2, dim=-1)
        return None if own is None else self.by_heads(own), self.by_heads(key), self.by_heads(value)

    def by_heads(self, joint: Tensor) -> Tensor:
        """(B, L, width) to (heads, B, L, inside)."""
        return joint.unflatten(-1, (self.heads, -1)).permute(2, 0, 1, 3)

    def reach(self, view: View) -> Tensor:
        far = self.distance(view.waves).unflatten(-1, (self.heads, -1))
        if view.backward is None:
            return far.transpose(0, 1)
        return far[view.backward].permute(2, 0, 1, 3)

    def by_distance(self, query: Tensor, far: Tensor) -> Tensor:
        """(heads, B, Q, C)."""
        query = (query + self.distance_bias[:, None, None]) / query.shape[-1] ** 0.5
        if far.dim() == 4:
            return query @ far.transpose(-1, -2)
        return (query.flatten(1, 2) @ far.transpose(-1, -2)).unflatten(1, query.shape[1:3])

    def mix(
        self, query: Tensor, by_distance: Tensor, key: Tensor, value: Tensor, segments: Tensor | None,
        hidden: Tensor | None, nothing: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        scores = torch.baddbmm(
            by_distance.flatten(0, 1), self.asking(query, segments).flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
        ).unflatten(0, query.shape[:2])  # (heads, B, Q, keys)
        if hidden is not None:
            scores += hidden
        shares = scores.softmax(-1)
        if nothing is not None:
            shares = shares.masked_fill(nothing, 0.0)
        if self.training:
            shares = drop(shares, self.dropout)
        return self.output((shares @ value).permute(1, 2, 0, 3).flatten(2))

    def asking(self, query: Tensor, segments: Tensor | None) -> Tensor:
        """The query with u and, to be met by the keys' segments, how much less it wants its own than another.

        softmax does not feel what all keys of a query have in common, so that only this difference counts.
        """
        scale = query.shape[-1] ** -0.5
        asked = (query + self.content_bias[:, None, None]) * scale
        if segments is None:
            return asked
        same, other = self.segments
        more = ((query + self.segment_bias[:, None, None]) @ ((same - other) * scale)[:, None, :, None]).to(asked.dtype)
        return torch.cat([asked, more * segments.to(asked.dtype)], dim=-1)
