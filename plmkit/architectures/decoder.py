"""The decoders of GPT-1, GPT-2 and GPT-3: causal Transformers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_activations, check_dropout, check_heads, check_sizes
from plmkit.architectures.contract import Architecture, CacheSettings, Generates, GeneratingModel, empty_cache
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_normal
from plmkit.kernels.step import Step
from plmkit.language import tr
from plmkit.layers.attention import BandedAttention, CausalAttention
from plmkit.layers.cache import KeyValueCache
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import FeedForward, PostNormBlock, PreNormBlock, TokenPositionEmbedding


@dataclass(frozen=True, kw_only=True)
class DecoderSettings(Architecture):
    """Settings that all decoders share."""

    heads: int  # attention heads per layer
    inner: int  # width inside the feed-forward sublayer
    max_length: int = 1024
    activation: str = "gelu_tanh"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.1  # dropout rate of attention weights
    epsilon: float = 1e-5  # of layer normalisation, added to the variance
    generates: ClassVar[Generates] = "causal"
    tied_heads: ClassVar[tuple[str, ...]] = ("causal_lm",)
    needs: ClassVar[tuple[str, ...] | None] = ()  # it needs no special tokens
    head_bias: ClassVar[bool] = False  # (Radford et al., 2018, 3.2)

    def __post_init__(self) -> None:
        check_sizes(self, "layers", "heads", "width", "inner", "max_length")
        check_heads(self.width, self.heads)
        check_activations(self, "activation")
        check_dropout(self, "dropout", "attention_dropout")

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled"})

    @property
    def initialiser(self) -> str:
        return "normal"

    def for_task(self, dropout: float) -> Self:
        """The network that is fine-tuned."""
        return replace(self, dropout=dropout, attention_dropout=dropout)


@dataclass(frozen=True, kw_only=True)
class Decoder(DecoderSettings):
    """Causal Transformer with pre-norm blocks and a final norm (Radford et al., 2019, 2.3)."""

    def build(self, vocabulary: Vocabulary) -> "DecoderModel":
        blocks = [pre_norm(self, causal_attention(self)) for _ in range(self.layers)]
        return scaled(DecoderModel(self, vocabulary.rows, blocks, nn.LayerNorm(self.width, eps=self.epsilon)))


@dataclass(frozen=True, kw_only=True)
class BandedDecoder(DecoderSettings):
    """GPT-2's network with alternating dense and locally banded layers (Brown et al., 2020, 2.1)."""

    max_length: int = 2048
    band: int = 256  # positions that a banded layer attends to, itself included; the paper does not say how many

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.band < 1:
            raise SettingError(tr("architecture.band must be at least 1; found {band}.", band=self.band))

    def build(self, vocabulary: Vocabulary) -> "DecoderModel":
        blocks = [
            pre_norm(self, banded_attention(self) if layer % 2 else causal_attention(self))
            for layer in range(self.layers)
        ]
        return scaled(DecoderModel(self, vocabulary.rows, blocks, nn.LayerNorm(self.width, eps=self.epsilon)))


@dataclass(frozen=True, kw_only=True)
class PostNormDecoder(DecoderSettings):
    """Causal Transformer with post-norm blocks (Radford et al., 2018, 4.1)."""

    max_length: int = 512

    def build(self, vocabulary: Vocabulary) -> "DecoderModel":
        blocks = [post_norm(self, causal_attention(self)) for _ in range(self.layers)]
        return DecoderModel(self, vocabulary.rows, blocks, nn.Identity())


def causal_attention(settings: DecoderSettings) -> CausalAttention:
    return CausalAttention(settings.width, settings.heads, settings.attention_dropout)


def banded_attention(settings: BandedDecoder) -> BandedAttention:
    return BandedAttention(settings.width, settings.heads, settings.attention_dropout, settings.band)


def feed_forward(settings: DecoderSettings) -> FeedForward:
    return FeedForward(settings.width, settings.inner, settings.activation)


def pre_norm(settings: DecoderSettings, attention: nn.Module) -> PreNormBlock:
    return PreNormBlock(
        attention,
        feed_forward(settings),
        width=settings.width,
        dropout=settings.dropout,
        epsilon=settings.epsilon,
    )


def post_norm(settings: DecoderSettings, attention: nn.Module) -> PostNormBlock:
    return PostNormBlock(
        attention,
        feed_forward(settings),
        width=settings.width,
        dropout=settings.dropout,
        epsilon=settings.epsilon,
    )


class DecoderModel(GeneratingModel[KeyValueCache]):
    """Rows are padded on the right, so that no token attends to padding."""

    def __init__(
        self, settings: DecoderSettings, vocabulary_size: int, blocks: Sequence[nn.Module], norm: nn.Module
    ) -> None:
        super().__init__()
        self.settings = settings
        self.embed = TokenPositionEmbedding(
            vocabulary=vocabulary_size, max_length=settings.max_length, width=settings.width, dropout=settings.dropout
        )
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        init_normal(self)

    def forward(self, batch: Batch) -> States:
        packing = Packing(batch.source.visible)
        hidden = self.embed(packing.pack(batch.source.tokens), packing.positions())  # (T, width) packed
        inputs = []
        for block in self.blocks:
            if batch.all_layers:
                inputs.append(packing.unpack(hidden))
            hidden = block(hidden, packing)
        hidden = self.norm(hidden)
        last = packing.unpack(hidden)
        layers = (*inputs, last) if batch.all_layers else None
        return States(hidden=last, pooled=hidden[packing.last], layers=layers)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    def begin(self, given: CacheSettings) -> KeyValueCache:
        cache = empty_cache(given, self.settings, self.settings.heads, like=self.embed.tokens.weight)
        if not self.training:
            cache.steps = [Step(block) for block in self.blocks if isinstance(block, PreNormBlock)]
        return cache

    def extend(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """(B, n) next tokens → (B, n, width) states."""
        rows, count = tokens.shape
        if count == 1 and cache.steps:
            return self.step(tokens[:, 0], cache)[:, None]
        places = torch.arange(cache.length, cache.length + count, device=tokens.device)
        hidden = self.embed(tokens.flatten(), places.repeat(rows))
        for number, block in enumerate(self.blocks):
            hidden = block(hidden, cache.layer(number, count))
        cache.length += count
        return self.norm(hidden).view(rows, count, -1)

    def step(self, tokens: Tensor, cache: KeyValueCache) -> Tensor:
        """(B,) the next token of each row → (B, width) states."""
        hidden = self.embed.tokens.weight[tokens] + self.embed.positions.weight[cache.length]
        for step, place, seen in zip(cache.steps, *cache.further(), strict=True):
            hidden = step(hidden, place, seen)
        return self.norm(hidden)


def scaled(model: DecoderModel) -> DecoderModel:
    """GPT-2's initial weights: residual layers are scaled by 1 / sqrt(their number) (Radford et al., 2019, 2.3).

    The released code halves the standard deviation of positions; we count two residual additions per layer.
    """
    deviation = 0.02 / math.sqrt(2 * len(model.blocks))
    with torch.no_grad():
        model.embed.positions.weight.mul_(0.5)
        for name, weight in model.blocks.named_parameters():
            if name.endswith(("attention.output.weight", "feed_forward.contract.weight")):
                nn.init.normal_(weight, std=deviation)
    return model
