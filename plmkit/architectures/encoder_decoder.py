"""The Transformer: an encoder of the source, and a decoder of the target that attends to it."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import (
    check_activations,
    check_distances,
    check_dropout,
    check_heads,
    check_initialiser,
    check_sizes,
)
from plmkit.architectures.contract import Architecture, CacheSettings, GeneratingModel, Model, WithDecoder, empty_cache
from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS
from plmkit.language import comma, tr
from plmkit.layers.attention import CausalAttention, CrossAttention, SourceKeys, self_attention
from plmkit.layers.cache import Cache, KeyValueCache
from plmkit.layers.packing import Packing
from plmkit.layers.sinusoids import SINUSOIDS
from plmkit.layers.transformer import CrossBlock, FeedForward, PostNormBlock, SinusoidalEmbedding


@dataclass(frozen=True, kw_only=True)
class TransformerEncoder(Architecture):
    """The encoder of the Transformer alone, as it is fine-tuned (Vaswani et al., 2017, 3.1)."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    activation: str = "relu"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.0  # dropout rate of attention weights
    epsilon: float = 1e-6  # of layer normalisation, added to the variance
    initialiser: str = "average"  # of the initial weights: average (tensor2tensor), normal, truncated or unit
    positions: str = "interleaved"  # layout of the sinusoids: interleaved, halves (Marian) or tensor2tensor
    attention_bias: bool = False  # projections of attention have biases, as in Marian
    relative_keys: int = 0  # distances with a key of their own, in positions (Shaw et al., 2018); 0: none
    distance_bias: int = 0  # distances with a learned bias in each head, in positions; 0: none
    needs: ClassVar[tuple[str, ...] | None] = ("end",)
    initial: ClassVar[frozenset[str]] = frozenset({"initialiser"})

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "heads", "width", "inner", "max_length")
        check_heads(self.width, self.heads, even=True)
        check_distances(self)
        check_initialiser(self.initialiser)
        check_activations(self, "activation")
        check_dropout(self, "dropout", "attention_dropout")
        if self.positions not in SINUSOIDS:
            raise SettingError(
                tr(
                    "Unknown architecture.{name} '{value}'; choose from {known}.",
                    name="positions",
                    value=self.positions,
                    known=comma().join(SINUSOIDS),
                )
            )

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled"})

    def build(self, vocabulary: Vocabulary) -> "TransformerEncoderModel":
        return TransformerEncoderModel(self, vocabulary.rows)

    def for_task(self, dropout: float) -> Self:
        return replace(self, dropout=dropout)


@dataclass(frozen=True, kw_only=True)
class EncoderDecoder(WithDecoder, TransformerEncoder):
    """Post-norm Transformer with one embedding for source, target and output (Vaswani et al., 2017)."""

    def build(self, vocabulary: Vocabulary) -> "EncoderDecoderModel":
        return EncoderDecoderModel(self, vocabulary.rows)

    def for_task(self, dropout: float) -> TransformerEncoder:  # type: ignore[override]
        """The network that is fine-tuned: the encoder."""
        own = {field.name: getattr(self, field.name) for field in fields(TransformerEncoder)}
        return TransformerEncoder(**own).for_task(dropout)


class TransformerEncoderModel(Model):
    def __init__(self, settings: TransformerEncoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.embed = SinusoidalEmbedding(
            vocabulary=vocabulary_size, max_length=settings.max_length, width=settings.width, dropout=settings.dropout,
            layout=settings.positions,
        )  # fmt: skip
        self.blocks = nn.ModuleList(encoder_block(settings) for _ in range(settings.layers))
        INITIALISERS[settings.initialiser](self)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        layers = self.encode(batch.source, packing)
        return states_of(layers, packing, batch, pooled=layers[-1][packing.first])

    def encode(self, source: Side, packing: Packing) -> list[Tensor]:
        """(T, width) packed: the embeddings, then the states of every layer."""
        states = [self.embed(packing.pack(source.tokens), packing.positions())]
        for block in self.blocks:
            states.append(block(states[-1], packing))
        return states

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens


class SourceDecoder(GeneratingModel["SourceCache"]):
    """The second half of an encoder–decoder: post-norm blocks that attend to what the first half made of the source."""

    decoder: nn.ModuleList

    @abstractmethod
    def encoded(self, source: Side, packing: Packing) -> Tensor:
        """(T, width) the last states of the source, packed."""

    @abstractmethod
    def embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """(T,) tokens of targets and their positions → (T, width)."""

    def decoded(self, batch: Batch) -> States:
        """The decoder's states."""
        assert batch.target is not None
        source, packing = Packing(batch.source.visible), Packing(batch.target.visible)
        encoded = self.encoded(batch.source, source)
        layers = [self.embedded(packing.pack(batch.target.tokens), packing.positions())]  # (T, width) each
        for block, keys in zip(self.decoder, self.read(encoded, source), strict=True):
            layers.append(block(layers[-1], packing, keys))
        return states_of(layers, packing, batch, pooled=encoded[source.first])

    def read(self, encoded: Tensor, source: Packing) -> Iterator[SourceKeys]:
        """What each layer of the decoder attends to."""
        return (cast(CrossBlock, block).cross_attention.read(encoded, source) for block in self.decoder)

    def begin(self, given: CacheSettings) -> "SourceCache":
        """Encode the source; of S sources, each has rows / S targets, one after the other."""
        assert given.source is not None
        packing = Packing(given.source.visible)
        encoded = self.encoded(given.source, packing)
        own = empty_cache(given, self.settings, self.settings.heads, like=encoded)
        return SourceCache(own, list(self.read(encoded, packing)), given.rows)

    def extend(self, tokens: Tensor, cache: "SourceCache") -> Tensor:
        rows, count = tokens.shape
        places = torch.arange(cache.length, cache.length + count, device=tokens.device)
        hidden = self.embedded(tokens.flatten(), places.repeat(rows))
        for number, block in enumerate(self.decoder):
            hidden = block(hidden, cache.own.layer(number, count), cache.sources[number])
        cache.own.length += count
        cache.length = cache.own.length
        return hidden.view(rows, count, -1)


class EncoderDecoderModel(TransformerEncoderModel, SourceDecoder):
    def __init__(self, settings: EncoderDecoder, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        blocks = (decoder_block(settings, bias=settings.attention_bias) for _ in range(settings.layers))
        self.decoder = nn.ModuleList(blocks)
        INITIALISERS[settings.initialiser](self.decoder)

    def forward(self, batch: Batch) -> States:
        """The decoder's states; without a target side, the encoder's."""
        return super().forward(batch) if batch.target is None else self.decoded(batch)

    def encoded(self, source: Side, packing: Packing) -> Tensor:
        return self.encode(source, packing)[-1]

    def embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.embed(tokens, positions)


class SourceCache(Cache):
    """Keys and values of the target so far, and those of its source in every layer, computed once.

    The targets of one source share what was computed of it: beam search copies only the former.
    """

    can_cut = True

    def __init__(self, own: KeyValueCache, sources: list[SourceKeys], rows: int) -> None:
        self.own, self.sources = own, sources
        self.owners = torch.arange(rows) // (rows // len(sources[0].keys))  # (B,) the source of each row

    def pick(self, rows: Tensor) -> None:
        self.own.pick(rows)
        owners = self.owners[rows.cpu()]
        kept, counts = owners.unique_consecutive(return_counts=True)
        even = bool((counts == counts[0]).all())
        if not even:  # rows of one source are no longer as many as those of another: each row gets its own
            kept = owners
        if len(kept) != len(self.sources[0].keys) or bool((kept != torch.arange(len(kept))).any()):
            self.sources = [picked(source, kept.to(rows.device)) for source in self.sources]
        self.owners = torch.arange(len(owners)) // (len(owners) // max(1, len(kept)))

    def cut(self, length: int) -> None:
        self.own.cut(length)
        self.length = length


def picked(source: SourceKeys, rows: Tensor) -> SourceKeys:
    visible = None if source.visible is None else source.visible[rows]
    return SourceKeys(keys=source.keys[rows], values=source.values[rows], visible=visible)


def states_of(layers: Sequence[Tensor], packing: Packing, batch: Batch, pooled: Tensor) -> States:
    """(T, width) states of all layers, unpacked; those before the last on request."""
    last = packing.unpack(layers[-1])
    every = (*map(packing.unpack, layers[:-1]), last) if batch.all_layers else None
    return States(hidden=last, layers=every, pooled=pooled)


def encoder_block(settings: TransformerEncoder) -> PostNormBlock:
    return PostNormBlock(
        self_attention(
            settings.width, settings.heads, settings.attention_dropout, settings.attention_bias,
            relative_keys=settings.relative_keys, distance_bias=settings.distance_bias,
        ),
        FeedForward(settings.width, settings.inner, settings.activation),
        width=settings.width, dropout=settings.dropout, epsilon=settings.epsilon,
    )  # fmt: skip


def decoder_block(settings: Any, *, bias: bool) -> CrossBlock:
    return CrossBlock(
        CausalAttention(settings.width, settings.heads, settings.attention_dropout, bias),
        CrossAttention(settings.width, settings.heads, settings.attention_dropout, bias),
        FeedForward(settings.width, settings.inner, settings.activation),
        width=settings.width, dropout=settings.dropout, epsilon=settings.epsilon,
    )  # fmt: skip
