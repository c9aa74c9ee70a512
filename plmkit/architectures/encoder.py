"""The encoder of BERT."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor, nn

from plmkit.architectures.checks import (
    check_activations,
    check_distances,
    check_dropout,
    check_heads,
    check_initialiser,
    check_sizes,
)
from plmkit.architectures.contract import Architecture, Model
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS, init_local_heads
from plmkit.language import tr
from plmkit.layers.attention import SelfAttention, self_attention
from plmkit.layers.packing import NeededTokens, Packing
from plmkit.layers.transformer import ACTIVATIONS, Dropout, FeedForward, InputEmbedding, PostNormBlock


@dataclass(frozen=True, kw_only=True)
class Encoder(Architecture):
    """Bidirectional Transformer with post-norm blocks (Devlin et al., 2018)."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    embedding: int | None = None  # width of the token, position and segment embeddings; none: that of the network
    first: int = 0  # number of the first position; RoBERTa's is 2
    segments: int = 2  # number of segment embeddings; 0: none, as in DistilBERT
    activation: str = "gelu_tanh"  # of the feed-forward sublayer: gelu (Hugging Face's), gelu_tanh (BERT's) or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.1  # dropout rate of attention weights
    epsilon: float = 1e-12  # of layer normalisation, added to the variance
    pooler: bool = True  # a dense layer on [CLS], for classification of whole rows
    pooler_activation: str = "tanh"  # of the pooler; Hugging Face's ELECTRA has gelu
    pooler_dropout: float | None = None  # before the pooler, as in RoBERTa and ELECTRA; none: no dropout, as in BERT
    initialiser: str = "truncated"  # of the initial weights: normal, truncated, or scaled by width: unit, average
    local_heads: bool = False  # initial heads attend to the neighbouring tokens; for runs of minutes
    relative_keys: int = 0  # distances with a key of their own, in positions (Shaw et al., 2018); 0: none
    distance_bias: int = 0  # distances with a learned bias in each head, in positions; 0: none
    kept_heads: tuple[int, ...] | None = None  # attention heads left in each layer by pruning; none: all
    kept_inner: tuple[int, ...] | None = None  # feed-forward units left in each layer by pruning; none: all
    optional_pooler: ClassVar[bool] = True
    may_change: ClassVar[frozenset[str]] = Architecture.may_change | {"pooler", "pooler_dropout"}
    initial: ClassVar[frozenset[str]] = frozenset({"local_heads", "initialiser"})

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "heads", "width", "inner", "max_length")
        if self.segments < 0:
            raise SettingError(
                tr(
                    "architecture.segments must be a number of segments, or 0 for none; found {value}.",
                    value=self.segments,
                )
            )
        if self.first < 0 or (self.embedding is not None and self.embedding < 1):
            raise SettingError(
                tr(
                    "architecture.first must be at least 0, architecture.embedding at least 1 or none; found "
                    "{first} and {embedding}.",
                    first=self.first,
                    embedding=self.embedding,
                )
            )
        check_heads(self.width, self.heads)
        if self.local_heads and self.width // self.heads % 2:
            raise SettingError(tr("architecture.local_heads needs heads of even width."))
        check_distances(self)
        self.check_kept()
        check_activations(self, "activation", "pooler_activation")
        check_initialiser(self.initialiser)
        check_dropout(self, "dropout", "attention_dropout", "pooler_dropout")

    def check_kept(self) -> None:
        """Pruning leaves one of each in every layer, or more."""
        for name, kept, most in (("heads", self.kept_heads, self.heads), ("inner", self.kept_inner, self.inner)):
            if kept is not None and (len(kept) != self.layers or not all(1 <= count <= most for count in kept)):
                raise SettingError(
                    tr(
                        "architecture.kept_{name} must have a number from 1 to {most} for each of {layers} layers; "
                        "found {kept}.",
                        name=name,
                        most=most,
                        layers=self.layers,
                        kept=kept,
                    )
                )
        if self.kept_heads is not None and (self.relative_keys or self.distance_bias):
            raise SettingError(tr("architecture.kept_heads needs attention without distances."))

    @property
    def is_pruned(self) -> bool:
        return self.kept_heads is not None or self.kept_inner is not None

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled"} if self.pooler else {"hidden", "layers"})

    @property
    def segment_count(self) -> int | None:
        return self.segments or None

    @property
    def is_narrow(self) -> bool:
        """Whether embeddings and network differ in width."""
        return self.embedding not in (None, self.width)

    @property
    def is_berts(self) -> bool:
        """Whether its computation is that of BERT, which other libraries have, whatever its shape."""
        return not (self.relative_keys or self.distance_bias or self.is_pruned)

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned, with a pooler."""
        before = None if self.pooler_dropout is None else dropout
        return replace(self, dropout=dropout, attention_dropout=dropout, pooler=True, pooler_dropout=before)

    def build(self, vocabulary: Vocabulary) -> "EncoderModel":
        return EncoderModel(self, vocabulary.rows)


def input_embedding(settings: Encoder, vocabulary_size: int) -> InputEmbedding:
    return InputEmbedding(
        vocabulary=vocabulary_size,
        max_length=settings.first + settings.max_length,
        segments=settings.segments,
        width=settings.embedding or settings.width,
        dropout=settings.dropout,
        epsilon=settings.epsilon,
    )


def attention_of(settings: Encoder, layer: int = 0) -> SelfAttention:
    if settings.kept_heads is not None:
        kept = settings.kept_heads[layer]
        return SelfAttention(settings.width, settings.heads, settings.attention_dropout, kept=kept)
    return self_attention(
        settings.width, settings.heads, settings.attention_dropout,
        relative_keys=settings.relative_keys, distance_bias=settings.distance_bias,
    )  # fmt: skip


def feed_forward_of(settings: Encoder, layer: int = 0) -> FeedForward:
    inner = settings.inner if settings.kept_inner is None else settings.kept_inner[layer]
    return FeedForward(settings.width, inner, settings.activation)


def block_of(settings: Encoder, attention: nn.Module, feed_forward: nn.Module) -> PostNormBlock:
    return PostNormBlock(
        attention, feed_forward, width=settings.width, dropout=settings.dropout, epsilon=settings.epsilon
    )


def read_through(blocks: Sequence[nn.Module], hidden: Tensor, packing: Packing, batch: Batch) -> tuple[States, Tensor]:
    """(T, width) through all blocks: the states, and (B, width) the states of the first tokens.

    If only some positions are needed, the last block computes only these, from all states of the block before.
    """
    inputs = []
    for block in blocks[:-1]:
        if batch.all_layers:
            inputs.append(packing.unpack(hidden))
        hidden = block(hidden, packing)
    if batch.all_layers:
        inputs.append(packing.unpack(hidden))
    if batch.needed is None:
        hidden = blocks[-1](hidden, packing)
        last, first = packing.unpack(hidden), hidden[packing.first]
    else:
        chosen = NeededTokens(packing, batch.needed)
        hidden = blocks[-1](hidden, packing, needed=chosen)
        last, first = chosen.put_back(hidden), hidden[chosen.first]
    return States(hidden=last, layers=(*inputs, last) if batch.all_layers else None), first


class EncoderModel(Model):
    """If `embed` is another network's, it is shared and saved with that network."""

    embed: InputEmbedding

    def __init__(self, settings: Encoder, vocabulary_size: int, embed: InputEmbedding | None = None) -> None:
        super().__init__()
        self.settings = settings
        if embed is None:
            self.embed = self.new_embedding(vocabulary_size)
        else:
            object.__setattr__(self, "embed", embed)  # not registered with torch, or it would be saved twice
        self.project = nn.Linear(self.embed.width, settings.width) if settings.is_narrow else None
        self.blocks = nn.ModuleList(
            block_of(settings, attention_of(settings, layer), feed_forward_of(settings, layer))
            for layer in range(settings.layers)
        )
        self.pooler_dropout = Dropout(settings.pooler_dropout or 0.0)
        self.pooler = nn.Linear(settings.width, settings.width) if settings.pooler else None
        INITIALISERS[settings.initialiser](self)
        if settings.local_heads and not settings.is_pruned:
            init_local_heads(self.embed.positions, self.project, list(self.blocks), settings.heads)

    def new_embedding(self, vocabulary_size: int) -> InputEmbedding:
        return input_embedding(self.settings, vocabulary_size)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        hidden = self.inputs(batch, packing)  # (T, embedding) packed
        if self.project is not None:
            hidden = self.project(hidden)  # (T, width)
        states, first = read_through(list(self.blocks), hidden, packing, batch)
        return replace(states, pooled=self.pool(first))

    def inputs(self, batch: Batch, packing: Packing) -> Tensor:
        tokens, segments = packing.pack(batch.source.tokens), packing.pack(batch.source.segment_ids)  # (T,)
        return self.embed(tokens, segments, self.settings.first + packing.positions())

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def pool(self, first: Tensor) -> Tensor | None:
        if self.pooler is None:
            return None
        return ACTIVATIONS[self.settings.pooler_activation](self.pooler(self.pooler_dropout(first)))
