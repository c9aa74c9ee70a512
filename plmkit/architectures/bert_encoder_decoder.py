"""An encoder–decoder whose encoder is BERT's, so that a pretrained one can initialise it.

BERT alone cannot translate, whatever notes on it say: it has no decoder, and this one is trained from random weights.
"""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Architecture, WithDecoder
from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.architectures.encoder_decoder import EncoderDecoder, SourceDecoder, decoder_block
from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import INITIALISERS
from plmkit.language import tr
from plmkit.layers.packing import Packing


@dataclass(frozen=True, kw_only=True)
class BertEncoderDecoder(WithDecoder, Encoder):
    """BERT's encoder, and a new decoder of the same shape that shares its embeddings (Rothe et al., 2020)."""

    brought: ClassVar[frozenset[str]] = frozenset(field.name for field in fields(EncoderDecoder)) - {
        "layers", "heads", "width", "inner", "dropout", "attention_dropout",
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_narrow:
            raise SettingError(
                tr(
                    "The embeddings of this encoder are {embedding} wide and its network {width}; a decoder needs "
                    "embeddings as wide as the network.",
                    embedding=self.embedding,
                    width=self.width,
                )
            )

    @classmethod
    def on(cls, encoder: Encoder, like: EncoderDecoder) -> "BertEncoderDecoder":
        """An encoder–decoder that a pretrained encoder of these settings can initialise; dropout is that of `like`."""
        own = {field.name: getattr(encoder, field.name) for field in fields(Encoder)}
        dropout = {"dropout": like.dropout, "attention_dropout": like.attention_dropout}
        return cls(**own | dropout | {"pooler": False, "local_heads": False})

    def takes_encoder(self, other: Architecture) -> bool:
        return type(other) is Encoder

    @property
    def is_berts(self) -> bool:
        return False

    def for_task(self, dropout: float) -> Encoder:  # type: ignore[override]
        """The network that is fine-tuned: the encoder."""
        own = {field.name: getattr(self, field.name) for field in fields(Encoder)}
        return Encoder(**own).for_task(dropout)

    def build(self, vocabulary: Vocabulary) -> "BertEncoderDecoderModel":
        return BertEncoderDecoderModel(self, vocabulary.rows)


class BertEncoderDecoderModel(EncoderModel, SourceDecoder):
    def __init__(self, settings: BertEncoderDecoder, vocabulary_size: int) -> None:
        super().__init__(settings, vocabulary_size)
        self.decoder = nn.ModuleList(decoder_block(settings, bias=True) for _ in range(settings.layers))
        INITIALISERS[settings.initialiser](self.decoder)

    def forward(self, batch: Batch) -> States:
        """The decoder's states; without a target side, the encoder's."""
        if batch.target is None:
            return super().forward(batch)
        return replace(self.decoded(batch), pooled=None)

    def encoded(self, source: Side, packing: Packing) -> Tensor:
        return packing.pack(super().forward(Batch(source=source)).hidden)

    def embedded(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.embed(tokens, torch.zeros_like(tokens), self.settings.first + positions)
