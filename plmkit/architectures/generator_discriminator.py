"""The two encoders of ELECTRA."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import Alone, Architecture, Model
from plmkit.architectures.encoder import Encoder, EncoderModel, input_embedding
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.initialisation.weights import init_local_heads, init_truncated_normal
from plmkit.language import tr
from plmkit.layers.vocabulary_head import VocabularyHead

HEAD = 64  # width of the generator's attention heads
SEED = 20  # of the samples outside training, which are always the same for the same text
SHARED = "model.embed."


@dataclass(frozen=True, kw_only=True)
class GeneratorDiscriminator(Architecture):
    """A small encoder replaces the masked tokens, a large one encodes the result (Clark et al., 2020)."""

    heads: int  # attention heads per layer of the discriminator
    inner: int  # width inside the discriminator's feed-forward sublayer
    embedding: int | None = None  # width of the embeddings of both networks; none: that of the discriminator
    generator: float = 0.25  # width of the generator, as a share of the discriminator's
    temperature: float = 1.0  # of the generator's sampling; lower is closer to greedy
    segments: int = 2  # number of segment embeddings
    activation: str = "gelu"  # of the feed-forward sublayer: gelu, gelu_tanh or relu
    dropout: float = 0.1  # dropout rate of embeddings and sublayers
    attention_dropout: float = 0.1  # dropout rate of attention weights
    epsilon: float = 1e-12  # of layer normalisation, added to the variance
    tied: bool = True  # both networks share token, position and segment embeddings
    local_heads: bool = False  # initial heads attend to the neighbouring tokens; for runs of minutes
    relative_keys: int = 0  # distances with a key of their own, in positions (Shaw et al., 2018); 0: none
    distance_bias: int = 0  # distances with a learned bias in each head, in positions; 0: none
    disallow_correct: bool = False  # never sample the original token; an option of the released code
    networks: ClassVar[tuple[str, ...]] = ("generator", "discriminator")
    initial: ClassVar[frozenset[str]] = frozenset({"local_heads"})

    def __post_init__(self) -> None:
        if not 0 < self.generator <= 1:
            raise SettingError(
                tr(
                    "architecture.generator must be the generator's width as a share of the discriminator's, above 0 "
                    "and at most 1; found {generator:g}.",
                    generator=self.generator,
                )
            )
        if not self.temperature > 0:
            raise SettingError(
                tr("architecture.temperature must be above 0; found {temperature:g}.", temperature=self.temperature)
            )
        width = self.discriminator_encoder.width  # checks the settings that both share
        made = max(1, round(self.generator * width))
        if made % max(1, made // HEAD) or (self.local_heads and made % 2):
            raise SettingError(
                tr(
                    "architecture.generator={generator:g} gives a generator of width {made}, which cannot be divided "
                    "among its {heads} heads. Choose a share of {width} that is an even number below {limit} or a "
                    "multiple of {head}.",
                    generator=self.generator,
                    made=made,
                    heads=made // HEAD,
                    width=width,
                    limit=2 * HEAD,
                    head=HEAD,
                )
            )

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "guesses", "sampled", "replaced"})

    @property
    def segment_count(self) -> int:
        return self.segments

    @property
    def discriminator_encoder(self) -> Encoder:
        return Encoder(
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            inner=self.inner,
            embedding=self.embedding,
            max_length=self.max_length,
            segments=self.segments,
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            epsilon=self.epsilon,
            pooler=False,
            pooler_activation="gelu",
            pooler_dropout=self.dropout,
            local_heads=self.local_heads,
            relative_keys=self.relative_keys,
            distance_bias=self.distance_bias,
        )

    @property
    def generator_encoder(self) -> Encoder:
        """The generator has the discriminator's depth (google-research/electra)."""
        width = max(1, round(self.generator * self.width))
        return replace(
            self.discriminator_encoder,
            heads=max(1, width // HEAD),
            width=width,
            inner=4 * width,
            embedding=self.embedding or self.width,
            local_heads=False,  # done below, with the discriminator's waves
        )

    def for_task(self, dropout: float) -> Encoder:
        """The network that is fine-tuned: the discriminator."""
        return self.discriminator_encoder.for_task(dropout)

    def build(self, vocabulary: Vocabulary) -> "GeneratorDiscriminatorModel":
        return GeneratorDiscriminatorModel(self, vocabulary.rows)

    def network_of(self, name: str) -> str:
        if name.startswith(("model.generator.", "model.vocabulary.")):
            return "generator"
        return "shared" if name.startswith("model.embed.") else "discriminator"

    def without_generator(self, weights: dict[str, Tensor]) -> Alone:
        places = {"model.discriminator.": "model.", "heads.": "heads."}
        return Alone(architecture=self.discriminator_encoder, weights=moved(weights, places))

    def generator_alone(self, weights: dict[str, Tensor]) -> Alone:
        """The generator with a MaskedLM head; its own embeddings, if any, replace the shared ones."""
        places = {"model.generator.": "model.", "model.vocabulary.": "heads.masked_lm.vocabulary."}
        return Alone(architecture=self.generator_encoder, weights=moved(weights, places))


class GeneratorDiscriminatorModel(Model):
    def __init__(self, settings: GeneratorDiscriminator, vocabulary_size: int) -> None:
        super().__init__()
        self.settings = settings
        first, second = settings.generator_encoder, settings.discriminator_encoder
        self.embed = input_embedding(second, vocabulary_size)
        init_truncated_normal(self.embed)
        self.generator = EncoderModel(first, vocabulary_size, self.embed if settings.tied else None)
        self.vocabulary = VocabularyHead(
            self.generator.embed.tokens, width=first.width, activation=first.activation, epsilon=first.epsilon
        )
        self.discriminator = EncoderModel(second, vocabulary_size, self.embed)
        if settings.local_heads:
            init_local_heads(
                self.generator.embed.positions,
                self.generator.project,
                list(self.generator.blocks),
                first.heads,
                waves=second.width // second.heads,
            )

    def forward(self, batch: Batch) -> States:
        """The discriminator's states; without masked tokens, those of the unchanged text."""
        if batch.targets is None:
            return self.discriminator(batch)
        predicted = batch.predicted  # only these are projected to the vocabulary
        guesses = self.vocabulary.softmax_logits(
            self.generator(replace(batch, needed=predicted, all_layers=False)).hidden[predicted]
        )  # (N, tokens)
        draws = None if batch.draws is None else batch.draws[predicted]
        sampled = self.vocabulary.token_of(self.sample(self.allowed(guesses.detach(), batch.targets[predicted]), draws))
        original = batch.targets.where(predicted, batch.source.tokens)
        read = original.masked_scatter(predicted, sampled)
        states = self.discriminator(replace(batch, source=replace(batch.source, tokens=read)))
        return replace(states, guesses=guesses, sampled=sampled, replaced=read != original)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embed.tokens

    @property
    def generator_head(self) -> VocabularyHead:
        return self.vocabulary

    def allowed(self, guesses: Tensor, right: Tensor) -> Tensor:
        """(N, tokens) logits to sample from, given the (N,) original tokens."""
        if not self.settings.disallow_correct:
            return guesses
        return guesses.scatter(1, self.vocabulary.softmax_index(right)[:, None], -torch.inf)

    def sample(self, guesses: Tensor, draws: Tensor | None = None) -> Tensor:
        """One token per row of scores; outside training from a fixed seed."""
        own = None if self.training else torch.Generator(guesses.device).manual_seed(SEED)
        return sample_tokens(guesses.float() / self.settings.temperature, own, draws if self.training else None)


def sample_tokens(scores: Tensor, generator: torch.Generator | None = None, draws: Tensor | None = None) -> Tensor:
    """Sample from softmax(scores), like Gumbel-max sampling but with one random number per row."""
    heights = (scores - scores.amax(-1, keepdim=True)).exp_().cumsum(-1)  # (N, vocabulary) rising
    if draws is None:
        draws = torch.rand(len(scores), device=scores.device, generator=generator)
    draws = draws[:, None]
    below = torch.nextafter(
        heights[:, -1:], torch.zeros_like(draws)
    )  # a draw rounded up could choose a token of probability 0
    return torch.searchsorted(heights, torch.minimum(draws * heights[:, -1:], below), right=True).squeeze(1)


def moved(weights: dict[str, Tensor], places: dict[str, str]) -> dict[str, Tensor]:
    """The shared embeddings, then the weights with these prefixes, renamed."""
    out = {name: tensor for name, tensor in weights.items() if name.startswith(SHARED)}
    for old, new in places.items():
        out |= {new + name.removeprefix(old): tensor for name, tensor in weights.items() if name.startswith(old)}
    return out
