"""Recurrent encoder–decoders: without attention, and with it in the wirings of Luong and of Bahdanau."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import ClassVar, NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from plmkit.architectures.checks import check_dropout, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, GeneratingModel, Model, WithDecoder
from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import comma, message, tr
from plmkit.layers.attention_scores import SCORES, mean_of
from plmkit.layers.cache import Cache
from plmkit.layers.recording import record
from plmkit.layers.recurrent_cells import CELLS, CellLayer, State
from plmkit.layers.transformer import Dropout, TokenEmbedding


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoder(Architecture):
    """The encoder of a recurrent encoder–decoder alone, as it is fine-tuned."""

    embedding: int | None = None  # width of the token embeddings; none: that of the network
    cell_type: str = "lstm"  # of the recurrent layers: "lstm" or "gru"
    bidirectional: bool = True  # the encoder reads in both directions, each with half of the width
    dropout: float = 0.2  # of what each layer reads, and of the last states
    initial_range: float = 0.1  # initial weights are uniform in [-initial_range, initial_range]
    not_a_graph: ClassVar[str | None] = message("its recurrent cells would be written for one number of rows")
    bounded: ClassVar[bool] = False  # its state has no length limit
    needs: ClassVar[tuple[str, ...] | None] = ("end",)
    initial: ClassVar[frozenset[str]] = frozenset({"initial_range"})

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "width", "max_length", *(["embedding"] if self.embedding is not None else []))
        check_dropout(self, "dropout")
        check_choice("cell_type", self.cell_type, CELLS)
        if self.bidirectional and self.width % 2:
            raise SettingError(
                tr(
                    "architecture.width={width} must be even: half of it reads in each direction.",
                    width=self.width,
                )
            )
        if self.embedding_width > self.width:
            raise SettingError(
                tr(
                    "architecture.embedding={embedding} must be at most architecture.width={width}.",
                    embedding=self.embedding,
                    width=self.width,
                )
            )
        if self.initial_range <= 0:
            raise SettingError(
                tr("architecture.initial_range must be above 0; found {value}.", value=self.initial_range)
            )

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled"})

    @property
    def embedding_width(self) -> int:
        return self.embedding or self.width

    @property
    def direction_width(self) -> int:
        """The width of the encoder's states in one direction."""
        return self.width // 2 if self.bidirectional else self.width

    def layer_of(self, name: str) -> int | None:
        part, *rest = name.removeprefix("model.").split(".")
        return 1 + int(rest[0]) if part == "encoder" else super().layer_of(name)

    def build(self, vocabulary: Vocabulary) -> "RecurrentEncoderModel":
        return RecurrentEncoderModel(self, vocabulary.rows).initialised()

    def for_task(self, dropout: float) -> "RecurrentEncoder":
        """The network that is fine-tuned: the encoder."""
        own = {field.name: getattr(self, field.name) for field in fields(RecurrentEncoder)}
        return replace(RecurrentEncoder(**own), dropout=dropout)


@dataclass(frozen=True, kw_only=True)
class RecurrentSeq2Seq(WithDecoder, RecurrentEncoder):
    """Recurrent encoder–decoder without attention: a source is one state of fixed size (Sutskever et al., 2014)."""

    @property
    def decoder_width(self) -> int:
        return self.width

    @property
    def fed_width(self) -> int:
        """The width of what the decoder's cells read besides a token."""
        return 0

    def is_tuned(self, name: str) -> bool:
        return name.startswith(("model.embed.", "model.encoder."))

    def build(self, vocabulary: Vocabulary) -> "DecodingModel":
        return RecurrentSeq2SeqModel(self, vocabulary.rows).initialised()


@dataclass(frozen=True, kw_only=True)
class AttentionSeq2Seq(RecurrentSeq2Seq):
    """Recurrent encoder–decoder that attends to all states of its source."""

    score: str = "general"  # of a state and a source position: "dot", "general", "concat", "scaled" or "cosine"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("score", self.score, SCORES)
        SCORES[self.score].check(self.decoder_width, self.width)


@dataclass(frozen=True, kw_only=True)
class LuongSeq2Seq(AttentionSeq2Seq):
    """Recurrent encoder–decoder that attends to its source from each new state (Luong et al., 2015)."""

    def build(self, vocabulary: Vocabulary) -> "LuongModel":
        return LuongModel(self, vocabulary.rows).initialised()


@dataclass(frozen=True, kw_only=True)
class InputFeedingSeq2Seq(AttentionSeq2Seq):
    """As LuongSeq2Seq, and the next step also reads the attentional state of the last (Luong et al., 2015, 3.3)."""

    @property
    def fed_width(self) -> int:
        return self.embedding_width

    def build(self, vocabulary: Vocabulary) -> "InputFeedingModel":
        return InputFeedingModel(self, vocabulary.rows).initialised()


@dataclass(frozen=True, kw_only=True)
class BahdanauSeq2Seq(AttentionSeq2Seq):
    """Recurrent encoder–decoder whose cells read what the state before attends to (Bahdanau et al., 2015).

    The decoder is as wide as one direction of the encoder.
    """

    score: str = "concat"

    @property
    def decoder_width(self) -> int:
        return self.direction_width

    @property
    def fed_width(self) -> int:
        return self.width

    def build(self, vocabulary: Vocabulary) -> "BahdanauModel":
        return BahdanauModel(self, vocabulary.rows).initialised()


class RecurrentEncoderModel(Model):
    def __init__(self, settings: RecurrentEncoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenEmbedding(vocabulary_size, settings.embedding_width)
        self.dropout = Dropout(settings.dropout)  # of what every layer reads, and of the last states
        make = partial(CELLS[settings.cell_type], batch_first=True, bidirectional=settings.bidirectional)
        inputs = [settings.embedding_width, *[settings.width] * (settings.layers - 1)]
        self.encoder = nn.ModuleList(make(width, settings.direction_width) for width in inputs)

    def initialised(self) -> Self:
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -self.settings.initial_range, self.settings.initial_range)
        return self

    def forward(self, batch: Batch) -> States:
        embedded, *lower, last = self.encode(batch.source)
        hidden, layers = self.dropout(unpacked(last.outputs, batch.source)), None
        if batch.all_layers:
            first, *others = (unpacked(layer.outputs, batch.source) for layer in (embedded, *lower))
            narrower = self.settings.width - self.settings.embedding_width
            layers = F.pad(first, (0, narrower)), *others, hidden  # all layers have one width
        return States(hidden=hidden, layers=layers, pooled=last.state[0])

    def encode(self, source: Side) -> "list[Encoded]":
        """The embeddings, and every layer; packed, so that no state depends on padding in either direction."""
        lengths = source.visible.sum(1).clamp(min=1).cpu()  # torch refuses rows without any token
        embedded = self.embed(source.tokens)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        layers = [Encoded(packed, ())]
        for layer in self.encoder:
            given = layers[-1].outputs
            outputs, last = layer(given._replace(data=self.dropout(given.data)))
            ends = cast(CellLayer, layer).split(last)  # (directions, B, width of one) each
            layers.append(Encoded(outputs, tuple(torch.cat(tuple(end), -1) for end in ends)))
        return layers

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens


class DecodingModel(RecurrentEncoderModel, GeneratingModel["SourceState"]):
    """An encoder with a decoder: what the wirings have in common."""

    settings: RecurrentSeq2Seq

    def __init__(self, settings: RecurrentSeq2Seq, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        inputs = [settings.embedding_width + settings.fed_width, *[settings.decoder_width] * (settings.layers - 1)]
        make = partial(CELLS[settings.cell_type], batch_first=True)
        self.decoder = nn.ModuleList(make(width, settings.decoder_width) for width in inputs)

    def forward(self, batch: Batch) -> States:
        """The decoder's states; without a target side, the encoder's."""
        if batch.target is None:
            return super().forward(batch)
        rows, length = batch.target.tokens.shape
        cache = self.begin(CacheSettings(rows, length, source=batch.source))
        *lower, hidden = self.decode(batch.target.tokens, cache)
        layers = (*lower, hidden) if batch.all_layers else None
        return States(hidden=hidden, layers=layers, pooled=cache.pooled)

    def begin(self, given: CacheSettings) -> "SourceState":
        """Encode the source; of S sources, each has rows / S targets, one after the other."""
        assert given.source is not None
        _, *layers = self.encode(given.source)
        states, last, sources = self.first_states(layers), layers[-1], len(given.source.tokens)
        cache = SourceState(states, self.read(last, given.source), last.state[0], self.settings.fed_width)
        if given.rows != sources:
            cache.pick(torch.arange(given.rows, device=given.source.tokens.device) // (given.rows // sources))
        return cache

    def extend(self, tokens: Tensor, cache: "SourceState") -> Tensor:
        return self.decode(tokens, cache)[-1]

    def first_states(self, layers: "list[Encoded]") -> list[State]:
        """The states that the decoder starts from: the last ones of the encoder."""
        return [layer.state for layer in layers]

    def read(self, last: "Encoded", source: Side) -> tuple[Tensor, ...]:
        """What the decoder keeps of the encoder's states to attend to."""
        return ()

    @abstractmethod
    def decode(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        """(B, n) next tokens → (B, n, width) each: the embeddings, then the states of every layer.

        The last are those that predict.
        """

    def run(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        """The same of the cells alone, all steps at once."""
        layers = [self.embed(tokens)]
        for number, layer in enumerate(self.decoder):
            outputs, cache.states[number] = cast(CellLayer, layer).run(self.dropout(layers[-1]), cache.states[number])
            layers.append(outputs)
        cache.length += tokens.shape[1]
        return layers

    def step(self, products: Tensor, states: list[State]) -> list[State]:
        """One step of all layers, given the products of the first layer's input with its weights."""
        after: list[State] = []
        for layer, state in zip(cast(Iterable[CellLayer], self.decoder), states, strict=True):
            if after:
                products = layer.products(self.dropout(after[-1][0]))
            after.append(layer.step(products, state))
        return after


class RecurrentSeq2SeqModel(DecodingModel):
    def __init__(self, settings: RecurrentSeq2Seq, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        same = settings.embedding_width == settings.width
        self.output = nn.Identity() if same else nn.Linear(settings.width, settings.embedding_width, bias=False)

    def decode(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        *lower, last = self.run(tokens, cache)
        return [*lower, self.dropout(self.output(last))]


class AttentionModel(DecodingModel):
    settings: AttentionSeq2Seq

    def __init__(self, settings: AttentionSeq2Seq, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        self.score = SCORES[settings.score](settings.decoder_width, settings.width)

    def read(self, last: "Encoded", source: Side) -> tuple[Tensor, ...]:
        """Keys, values and, broadcastable to the scores, which of them are visible."""
        values = self.dropout(unpacked(last.outputs, source))
        return self.score.project(values), values, source.visible[:, None]

    def attend(self, query: Tensor, cache: "SourceState") -> tuple[Tensor, Tensor]:
        """(B, n, decoder width) → (B, n, width) contexts, and (B, n, source length) their weights."""
        keys, values, visible = cache.source
        return mean_of(values, self.score.compare(query, keys), visible)


class LuongModel(AttentionModel):
    def __init__(self, settings: AttentionSeq2Seq, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        self.combine = nn.Linear(settings.width + settings.decoder_width, settings.embedding_width, bias=False)

    def decode(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        *lower, last = self.run(tokens, cache)
        hidden, weights = self.attentional(last, cache)
        record(lambda: weights[:, None], kind="cross")
        return [*lower, self.dropout(hidden)]

    def attentional(self, query: Tensor, cache: "SourceState") -> tuple[Tensor, Tensor]:
        """tanh(W [context; state]) of (B, n, width) states, and the attention weights."""
        contexts, weights = self.attend(query, cache)
        return self.combine(torch.cat([contexts, query], -1)).tanh(), weights


class InputFeedingModel(LuongModel):
    def decode(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        """Step by step; only the products of tokens are computed before, for all steps at once."""
        embedded, first = self.embed(tokens), cast(CellLayer, self.decoder[0])
        steps, hidden, weights = [], [], []
        for products in first.products(self.dropout(embedded)).unbind(1):
            cache.states = self.step(products + first.more(cache.fed), cache.states)
            found, looked = self.attentional(cache.states[-1][0][:, None], cache)
            cache.fed = self.dropout(found)[:, 0]
            steps.append(cache.states)
            hidden.append(cache.fed)
            weights.append(looked)
        cache.length += len(steps)
        record(lambda: torch.cat(weights, 1)[:, None], kind="cross")
        *lower, _ = outputs_of(steps)
        return [embedded, *lower, torch.stack(hidden, 1)]


class BahdanauModel(AttentionModel):
    settings: BahdanauSeq2Seq

    def __init__(self, settings: BahdanauSeq2Seq, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        width, embedding = settings.decoder_width, settings.embedding_width
        self.start = nn.ModuleList(nn.Linear(settings.direction_width, width) for _ in range(settings.layers))
        self.output = nn.Linear(width + embedding + settings.width, 2 * embedding)

    def first_states(self, layers: "list[Encoded]") -> list[State]:
        """tanh(W state), of the state of the backward direction at the first token (A.2.2)."""
        states: list[State] = []
        for start, layer in zip(self.start, layers, strict=True):
            hidden = start(layer.state[0][:, -self.settings.direction_width :]).tanh()
            states.append((hidden, *[torch.zeros_like(hidden)] * (len(layer.state) - 1)))
        return states

    def decode(self, tokens: Tensor, cache: "SourceState") -> list[Tensor]:
        """Step by step; what predicts is computed for all steps at once, from states, tokens and contexts."""
        embedded, first = self.embed(tokens), cast(CellLayer, self.decoder[0])
        read = self.dropout(embedded)
        steps, contexts, weights = [], [], []
        for products in first.products(read).unbind(1):
            context, looked = self.attend(cache.states[-1][0][:, None], cache)  # from the state before
            cache.states = self.step(products + first.more(context[:, 0]), cache.states)
            steps.append(cache.states)
            contexts.append(context)
            weights.append(looked)
        cache.length += len(steps)
        record(lambda: torch.cat(weights, 1)[:, None], kind="cross")
        *lower, last = outputs_of(steps)
        both = self.output(torch.cat([last, read, torch.cat(contexts, 1)], -1))
        return [embedded, *lower, self.dropout(both.unflatten(-1, (-1, 2)).amax(-1))]  # maxout (A.2.2)


class Encoded(NamedTuple):
    """What a layer of the encoder computes."""

    outputs: PackedSequence
    state: State  # (B, width) each: the last of each direction, joined


class SourceState(Cache):
    """The decoder's state, and what it attends to; the targets of one source share the latter until rows move."""

    def __init__(self, states: list[State], source: tuple[Tensor, ...], pooled: Tensor, fed_width: int) -> None:
        self.states = states
        self.source = source  # keys, values and their visibility, a row each; () without attention
        self.pooled = pooled  # (B, width) the encoder's last state
        self.fed = pooled.new_zeros(len(pooled), fed_width)  # what the next step reads besides a token
        self.owners = torch.arange(len(pooled), device=pooled.device)  # (B,) the source of each row

    def pick(self, rows: Tensor) -> None:
        self.states = [tuple(part[rows] for part in state) for state in self.states]
        self.fed, self.pooled = self.fed[rows], self.pooled[rows]
        owners = self.owners[rows]
        if not torch.equal(owners, self.owners):  # in beam search, rows move within their source
            self.source = tuple(part[rows] for part in self.source)
        self.owners = owners


def unpacked(packed: PackedSequence, source: Side) -> Tensor:
    """(B, L, width), zeros at padding."""
    return pad_packed_sequence(packed, batch_first=True, total_length=source.tokens.shape[1])[0]


def outputs_of(steps: list[list[State]]) -> list[Tensor]:
    """(B, n, width) outputs of every layer."""
    return [torch.stack([state[0] for state in layer], 1) for layer in zip(*steps, strict=True)]


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise SettingError(
            tr(
                "Unknown architecture.{name} '{value}'; choose from {known}.",
                name=name,
                value=value,
                known=comma().join(known),
            )
        )
