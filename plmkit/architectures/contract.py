"""The contracts of architectures and of the models they build."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from torch import Tensor, nn

from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.cache import Cache, KeyValueCache
from plmkit.layers.vocabulary_head import AdaptiveEmbedding, VocabularyHead

Generates = Literal["no", "causal", "permuted"]
SomeCache = TypeVar("SomeCache", bound=Cache)


@dataclass(frozen=True, kw_only=True)
class Architecture(ABC):
    """The settings of a network that turns a batch into states.

    Names of weights are those of a saved network: the model's begin with `model.`.
    """

    layers: int  # number of layers
    width: int  # width of the hidden states
    max_length: int = 512  # maximum sequence length in tokens
    generates: ClassVar[Generates] = "no"  # "permuted": in any order, left to right included
    translates: ClassVar[bool] = False  # it reads a source, and generates a target: an encoder–decoder
    bounded: ClassVar[bool] = True  # it has no positions beyond `max_length`
    describes_images: ClassVar[bool] = False  # it generates captions, and reads no text by itself
    optional_pooler: ClassVar[bool] = False  # `pooler` is one of its settings
    limits_distances: ClassVar[bool] = False  # `clamp` is one of its settings
    tied_heads: ClassVar[tuple[str, ...]] = ()  # objectives whose head is the token embedding alone
    needs: ClassVar[tuple[str, ...] | None] = None  # special tokens it needs; None: those of its tokenizer
    head_bias: ClassVar[bool] = True  # whether classification heads have a bias
    conditional_spans: ClassVar[bool] = False  # its paper predicts the end of an answer from the start
    may_change: ClassVar[frozenset[str]] = frozenset({"dropout", "attention_dropout"})  # when initialising from weights
    # settings of the random initial weights alone: here and not in a recipe's initialisation, because fine-tuning from
    # scratch starts with them too
    initial: ClassVar[frozenset[str]] = frozenset()
    brought: ClassVar[frozenset[str]] = frozenset()  # settings that a pretrained encoder decides, if one initialises it
    networks: ClassVar[tuple[str, ...]] = ()  # names of the networks trained together, if several
    embedding_name: ClassVar[str] = "model.embed.tokens.weight"  # the weight with one row per token
    not_a_graph: ClassVar[str | None] = None  # why torch cannot export it to ONNX, in English; None: it can

    def with_settings(self, **changes: Any) -> Self:
        """A copy with changed settings, which may be settings of its class beyond this contract."""
        return replace(self, **changes)

    @abstractmethod
    def build(self, vocabulary: Vocabulary) -> "Model":
        """The network with its initial weights and a token embedding of `vocabulary.rows` rows."""

    @abstractmethod
    def for_task(self, dropout: float) -> "Architecture":
        """The network that is fine-tuned."""

    @property
    @abstractmethod
    def writes(self) -> frozenset[str]:
        """The fields of `States` that it fills."""

    @property
    def initialiser(self) -> str:
        """How weights are initialised, those of classification heads included; one of INITIALISERS."""
        return "truncated"

    @property
    def segment_count(self) -> int | None:
        """Number of segment ids; None: it has no limit, or does not use them."""
        return None

    @property
    def task_count(self) -> int | None:
        """Number of task embeddings; None: it does not know which pretraining task a row is for."""
        return None

    @property
    def memory_length(self) -> int | None:
        """Tokens that its recurrent memory holds; None: it has no memory of fixed length."""
        return None

    @property
    def attention_heads(self) -> int:
        """Attention heads per layer; 0: it has none."""
        return int(vars(self).get("heads", 0))

    @property
    def context_length(self) -> int:
        """Tokens that a token attends to in step-by-step inference, itself included."""
        return self.max_length

    @property
    def image_pixels(self) -> int | None:
        """Pixels along each side of the images that it reads; None: it reads none."""
        return None

    @property
    def region_width(self) -> int | None:
        """Width of the features of image regions that it reads from files; None: it reads none."""
        return None

    @property
    def reads_images(self) -> bool:
        """Whether it is trained on images, or on features of their regions, with captions."""
        return self.image_pixels is not None or self.region_width is not None

    @property
    def pooled_width(self) -> int:
        """Width of the vector of a row."""
        return self.width

    @property
    def reused_share(self) -> float | None:
        """The share of each row that enters the recurrent memory, if only a part does."""
        return None

    @property
    def copied_weights(self) -> Mapping[str, str]:
        """Weights that begin as copies of others, which another model may initialise."""
        return {}

    @property
    def own_layers(self) -> int:
        """Layers with weights of their own."""
        return self.layers

    @property
    def reads_characters(self) -> bool:
        """Whether it reads words by their characters and has no weight with one row per token."""
        return False

    @property
    def shares_layers(self) -> bool:
        """Whether several layers use the same weights, or some of them."""
        return False

    def vocabulary_size(self, weights: Mapping[str, Tensor]) -> int:
        """Rows of the token embedding in a model's weights; 0 if it is missing."""
        return len(weights.get(self.embedding_name, ()))

    def last_embedding(self, weights: Mapping[str, Tensor]) -> str:
        """The weight in which the last tokens of a vocabulary have their rows, and new tokens get theirs."""
        return self.embedding_name

    def layer_of(self, name: str) -> int | None:
        """The layer of a weight: 0 for embeddings, then 1, 2, ...; None for a pooler.

        Weights outside the layers belong to the last one.
        """
        part, *rest = name.removeprefix("model.").split(".")
        if part == "blocks":
            return 1 + int(rest[0])
        return {"embed": 0, "project": 0, "pooler": None}.get(part, self.own_layers)

    def takes_encoder(self, other: "Architecture") -> bool:
        """Whether weights of another network initialise its encoder alone."""
        return False

    def is_pretrained(self, name: str) -> bool:
        """Whether fine-tuning finds a weight trained, and keeps it as it is where the network is frozen."""
        return not name.startswith("heads.")

    def decay_steps(self, name: str) -> int:
        """How often layer-wise decay multiplies the learning rate of a weight (google-research/electra).

        0 for a pooler, 2 for the last layer (1 is unused), layers + 2 for the embeddings.
        """
        layer = self.layer_of(name)
        return 0 if layer is None else self.own_layers + 2 - layer

    def is_tuned(self, name: str) -> bool:
        """Whether a weight is one of the network that is fine-tuned."""
        return True

    def network_of(self, name: str) -> str:
        """The one of `networks` that a weight belongs to, or "shared"."""
        return "shared"

    def without_generator(self, weights: dict[str, Tensor]) -> "Alone":
        """The network that is fine-tuned and embeds."""
        return Alone(architecture=self, weights=weights)

    def generator_alone(self, weights: dict[str, Tensor]) -> "Alone | None":
        """The network that fills blanks, if it is another one."""
        return None


@dataclass(frozen=True, kw_only=True)
class WithDecoder(Architecture):
    """An encoder with a decoder of as many layers, `model.decoder.0` and on; the encoder alone is fine-tuned."""

    translates: ClassVar[bool] = True
    tied_heads: ClassVar[tuple[str, ...]] = ("translation_lm",)

    @property
    def own_layers(self) -> int:
        """Those of the encoder, then those of the decoder."""
        return 2 * self.layers

    def layer_of(self, name: str) -> int | None:
        part, *rest = name.removeprefix("model.").split(".")
        return self.layers + 1 + int(rest[0]) if part == "decoder" else super().layer_of(name)

    def is_tuned(self, name: str) -> bool:
        return not name.startswith("model.decoder.")


@dataclass(frozen=True, kw_only=True)
class Alone:
    """One of the networks that were trained together, with its weights and its heads."""

    architecture: Architecture
    weights: dict[str, Tensor]


class Model(nn.Module, ABC):
    """A network that turns a batch into states."""

    settings: Any  # the architecture that built it
    has_layers: ClassVar[bool] = True  # its layers can be looked into; those of a compressed one cannot

    @abstractmethod
    def forward(self, batch: Batch) -> States: ...

    @property
    def token_embedding(self) -> nn.Embedding | None:
        """The token embedding, to which a head can tie its output; None: the model has no single one."""
        return None

    @property
    def adaptive_embedding(self) -> AdaptiveEmbedding | None:
        """A token embedding in frequency clusters, for an adaptive softmax."""
        return None

    @property
    def input_embeddings(self) -> tuple[nn.Module, ...]:
        """The modules that make the vectors of tokens, (..., width), from which all states are computed."""
        embedding = self.token_embedding or self.adaptive_embedding
        return () if embedding is None else (embedding,)

    @property
    def spelled_vocabulary(self) -> Vocabulary | None:
        """The vocabulary, for a head with weights of its own; None: the token embedding tells its size."""
        return None

    @property
    def generator_head(self) -> VocabularyHead | None:
        """The LM head of a generator whose samples another network reads."""
        return None

    @property
    def tied_embedding(self) -> nn.Embedding:
        """The token embedding, for a head that needs one."""
        if self.token_embedding is None:
            raise SettingError(
                tr(
                    "{type} has no single token embedding to which an objective could tie its output. Choose an "
                    "objective with its own weights, such as AdaptiveLM, or set architecture.shrink=1.",
                    type=type(self.settings).__name__,
                )
            )
        return self.token_embedding


@dataclass(frozen=True)
class CacheSettings:
    """What a cache starts with."""

    rows: int
    max_length: int  # up to which tokens are read
    _: KW_ONLY
    context_length: int | None = None  # in place of the architecture's own, if it has one
    clamp: int | None = None  # likewise
    source: Side | None = None  # what an encoder–decoder encodes
    images: Tensor | None = None  # (rows, 3, H, W) what a captioner describes


class GeneratingModel(Model, Generic[SomeCache]):
    """A model that also reads text step by step from left to right, with a cache of the earlier steps."""

    @abstractmethod
    def begin(self, given: CacheSettings) -> SomeCache:
        """An empty cache; an encoder–decoder encodes the source first."""

    @abstractmethod
    def extend(self, tokens: Tensor, cache: SomeCache) -> Tensor:
        """(B, n) next tokens → (B, n, width) states, each of which predicts the following token."""


def empty_cache(given: CacheSettings, settings: Architecture, heads: int, like: Tensor) -> KeyValueCache:
    """For all layers of a decoder; `like` has the device and the precision."""
    return KeyValueCache(
        layers=settings.layers, rows=given.rows, heads=heads, max_length=min(given.max_length, settings.max_length),
        inside=settings.width // heads, like=like,
    )  # fmt: skip
