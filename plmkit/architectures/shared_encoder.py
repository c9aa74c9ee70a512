"""The encoder of ALBERT: a factorised embedding, and layers that share their weights."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import torch
from torch import nn

from plmkit.architectures.contract import Architecture, Model
from plmkit.architectures.encoder import (
    Encoder,
    attention_of,
    block_of,
    feed_forward_of,
    input_embedding,
    read_through,
)
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_local_heads, init_truncated_normal
from plmkit.language import comma, tr
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import Borrowed, PostNormBlock

SHARINGS = ("all", "attention", "feed_forward", "none")


@dataclass(frozen=True, kw_only=True)
class SharedEncoder(Architecture):
    """BERT's encoder with a factorised embedding and shared layers (Lan et al., 2019, 3.1)."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    embedding: int | None = 128  # width of the token, position and segment embeddings; none: that of the network
    sharing: str = "all"  # weights that all layers share: all, attention, feed_forward or none
    segments: int = 2  # number of segment embeddings
    activation: str = "gelu_tanh"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.0  # dropout rate; 0 as in the second release (the first: 0.1 except for xxlarge)
    attention_dropout: float = 0.0  # dropout rate of attention weights
    epsilon: float = 1e-12  # of layer normalisation, added to the variance
    pooler: bool = True  # a dense layer on [CLS], for classification of whole rows
    local_heads: bool = False  # initial heads attend to the neighbouring tokens; for runs of minutes
    relative_keys: int = 0  # distances with a key of their own, in positions (Shaw et al., 2018); 0: none
    distance_bias: int = 0  # distances with a learned bias in each head, in positions; 0: none
    optional_pooler: ClassVar[bool] = True
    may_change: ClassVar[frozenset[str]] = Architecture.may_change | {"pooler"}
    initial: ClassVar[frozenset[str]] = frozenset({"local_heads"})

    def __post_init__(self) -> None:
        if self.sharing not in SHARINGS:
            raise SettingError(
                tr(
                    "architecture.sharing must be one of {sharings}; found '{sharing}'.",
                    sharings=comma().join(SHARINGS),
                    sharing=self.sharing,
                )
            )
        narrow, head = self.embedding or self.width, self.unshared.width // self.heads  # checks the sizes first
        if self.local_heads and (narrow % 2 or narrow < head):
            raise SettingError(
                tr(
                    "architecture.local_heads needs an even architecture.embedding, at least as wide as a head; "
                    "found {narrow} and heads of {head}.",
                    narrow=narrow,
                    head=head,
                )
            )

    @property
    def unshared(self) -> Encoder:
        """The same sizes, nothing shared."""
        return Encoder(**{field.name: getattr(self, field.name) for field in fields(self) if field.name != "sharing"})

    @property
    def is_berts(self) -> bool:
        """Whether the computation of a layer is that of BERT."""
        return self.unshared.is_berts

    @property
    def writes(self) -> frozenset[str]:
        return self.unshared.writes

    @property
    def segment_count(self) -> int:
        return self.segments

    @property
    def own_layers(self) -> int:
        return 1 if self.sharing == "all" else self.layers

    @property
    def shares_layers(self) -> bool:
        return self.sharing != "none"

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned, with a pooler."""
        return replace(self, dropout=dropout, attention_dropout=dropout, pooler=True)

    def build(self, vocabulary: Vocabulary) -> "SharedEncoderModel":
        return SharedEncoderModel(self, vocabulary.rows)


class SharedEncoderModel(Model):
    """`blocks` holds one block if all is shared, else one per layer, which may use sublayers of the first."""

    def __init__(self, settings: SharedEncoder, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        unshared = settings.unshared
        self.embed = input_embedding(unshared, vocabulary_size)
        # for equal widths too, as in Hugging Face; the released code then has none: embedding=None
        self.project = nn.Linear(settings.embedding, settings.width) if settings.embedding else None
        self.blocks = nn.ModuleList(blocks_of(unshared, settings.sharing))
        self.pooler = nn.Linear(settings.width, settings.width) if settings.pooler else None
        init_truncated_normal(self)
        if settings.local_heads:
            own = [block for block in self.blocks if not isinstance(block.attention, Borrowed)]
            init_local_heads(self.embed.positions, self.project, own, settings.heads)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        tokens, segments = packing.pack(batch.source.tokens), packing.pack(batch.source.segment_ids)  # (T,) packed
        hidden = self.embed(tokens, segments, packing.positions())  # (T, embedding)
        if self.project is not None:
            hidden = self.project(hidden)  # (T, width)
        layers = [self.blocks[layer % len(self.blocks)] for layer in range(self.settings.layers)]
        states, first = read_through(layers, hidden, packing, batch)
        return states if self.pooler is None else replace(states, pooled=torch.tanh(self.pooler(first)))

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens


def blocks_of(settings: Encoder, sharing: str) -> list[PostNormBlock]:
    """Each layer has its own norms unless all is shared, which matches the paper's parameter counts."""
    first = block_of(settings, attention_of(settings), feed_forward_of(settings))
    others = [] if sharing == "all" else range(1, settings.layers)
    return [
        first,
        *(
            block_of(
                settings,
                Borrowed(first.attention) if sharing == "attention" else attention_of(settings),
                Borrowed(first.feed_forward) if sharing == "feed_forward" else feed_forward_of(settings),
            )
            for _ in others
        ),
    ]
