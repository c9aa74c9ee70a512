"""What every architecture is, and every model that one builds."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from torch import Tensor, nn

from plmkit.data.batch import Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.activations import ACTIVATIONS
from plmkit.layers.adaptive import AdaptiveEmbedding
from plmkit.layers.cache import Cache
from plmkit.layers.vocabulary_head import VocabularyHead

Generates = Literal["no", "causal", "permuted"]
SomeCache = TypeVar("SomeCache", bound=Cache)


@dataclass(frozen=True, kw_only=True)
class Architecture(ABC):
    """The settings of a network that turns a batch into states.

    Names of weights are those of a saved network: the model's begin with `model.`.
    """

    layers: int
    width: int
    longest: int = 512  # tokens read at once
    generates: ClassVar[Generates] = "no"  # "permuted": in any order, of which that of the text is one
    bounded: ClassVar[bool] = True  # it has no position after `longest`
    optional_pooler: ClassVar[bool] = False  # `pooler` is one of its settings
    limits_distances: ClassVar[bool] = False  # `clamp` is one of its settings
    tied_heads: ClassVar[tuple[str, ...]] = ()  # objectives whose head is the token embedding, without other weights
    needs: ClassVar[tuple[str, ...] | None] = None  # special tokens it needs; None: those that its tokenizer needs
    head_bias: ClassVar[bool] = True  # of the classification head
    may_change: ClassVar[frozenset[str]] = frozenset({"dropout", "attention_dropout"})  # when starting from weights
    networks: ClassVar[tuple[str, ...]] = ()  # names of the networks trained together, where there are several
    embedding_name: ClassVar[str] = "model.embed.tokens.weight"  # the weight with one row per token

    def with_settings(self, **changes: Any) -> Self:
        """The same architecture with other values of settings, which its class may have beyond the contract."""
        return replace(self, **changes)

    @abstractmethod
    def build(self, vocabulary: Vocabulary) -> "Model":
        """The network with initial weights, and a token embedding of `vocabulary.rows` rows."""

    @abstractmethod
    def for_task(self, dropout: float) -> "Architecture":
        """The network that is fine-tuned."""

    @property
    @abstractmethod
    def writes(self) -> frozenset[str]:
        """The fields of `States` that it fills."""

    @property
    def initial_weights(self) -> str:
        """How weights are initialised, also those of a classification head; one of STARTS."""
        return "truncated"

    @property
    def segment_count(self) -> int | None:
        """Segments that it can tell apart; None: it has no limit, or reads none."""
        return None

    @property
    def memory_length(self) -> int | None:
        """Tokens that its recurrent memory holds; None: it has none of a given length."""
        return None

    @property
    def context_length(self) -> int:
        """Tokens that one token attends to where a long text is read in steps, itself included."""
        return self.longest

    @property
    def reused_share(self) -> float | None:
        """The share of each row that goes into the memory, where only a part does."""
        return None

    @property
    def own_layers(self) -> int:
        """Layers with weights of their own."""
        return self.layers

    @property
    def shares_layers(self) -> bool:
        """Whether several layers use the same weights, or some of them."""
        return False

    def vocabulary_size(self, weights: Mapping[str, Tensor]) -> int:
        """Rows of the token embedding in a model's weights; 0 where it is missing."""
        return len(weights.get(self.embedding_name, ()))

    def layer_of(self, name: str) -> int | None:
        """The layer of a weight: 0 for embeddings, then from 1 on; None for what pools the last layer.

        What stands beside or after the layers belongs to the last.
        """
        part, *rest = name.removeprefix("model.").split(".")
        if part == "blocks":
            return 1 + int(rest[0])
        return {"embed": 0, "project": 0, "pooler": None}.get(part, self.own_layers)

    def decay_steps(self, name: str) -> int:
        """How often layer-wise decay multiplies the learning rate of a weight (google-research/electra).

        0 for a pooler, 2 for the last layer (1 is unused), layers + 2 for the embeddings.
        """
        layer = self.layer_of(name)
        return 0 if layer is None else self.own_layers + 2 - layer

    def network_of(self, name: str) -> str:
        """Which of `networks` a weight belongs to, or "shared"."""
        return "shared"


class Model(nn.Module, ABC):
    """A network that turns a batch into states."""

    settings: Any  # the architecture that built it

    @abstractmethod
    def forward(self, batch: Batch) -> States: ...

    @property
    def token_embedding(self) -> nn.Embedding | None:
        """One vector per token, to which a head can tie its output; None: the model has no such embedding."""
        return None

    @property
    def adaptive_embedding(self) -> AdaptiveEmbedding | None:
        """The same in clusters by frequency, for an adaptive softmax."""
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
                    "objective with weights of its own, such as AdaptiveLM, or architecture.shrink=1.",
                    type=type(self.settings).__name__,
                )
            )
        return self.token_embedding


class GeneratingModel(Model, Generic[SomeCache]):
    """A model that also reads a text from left to right in steps, each of which sees the steps before in a cache."""

    @abstractmethod
    def begin(
        self,
        rows: int,
        longest: int,
        *,
        context_length: int | None = None,
        clamp: int | None = None,
        source: Side | None = None,
    ) -> SomeCache:
        """An empty cache for a number of rows of up to `longest` tokens.

        `context_length` and `clamp` take the place of the architecture's own, where it has them; an encoder–decoder
        encodes `source` first.
        """

    @abstractmethod
    def extend(self, tokens: Tensor, cache: SomeCache) -> Tensor:
        """(B, n) the next tokens to (B, n, width) states that predict the token after each."""


def check_sizes(settings: Architecture, *names: str) -> None:
    """Refuse numbers below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise SettingError(
                tr(
                    "architecture.{name} must be 1 or more; found {getattr}.",
                    name=name,
                    getattr=getattr(settings, name),
                )
            )


def check_heads(width: int, heads: int, even: bool = False) -> None:
    """Refuse a width that attention heads cannot share evenly, or an odd one where positions are waves."""
    if even and (width % heads or width % 2):
        raise SettingError(
            tr(
                "architecture.width={width} must be even and a multiple of architecture.heads={heads}.",
                width=width,
                heads=heads,
            )
        )
    if width % heads:
        raise SettingError(
            tr(
                "architecture.width={width} cannot be divided among architecture.heads={heads}: choose a width "
                "that is a multiple of heads.",
                width=width,
                heads=heads,
            )
        )


def check_activations(settings: Architecture, *names: str) -> None:
    for name in names:
        if getattr(settings, name) not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise SettingError(
                tr(
                    "There is no architecture.{name} '{getattr}'; there are {known}.",
                    name=name,
                    getattr=getattr(settings, name),
                    known=known,
                )
            )


def check_dropout(settings: Architecture, *names: str) -> None:
    """Refuse what is no share from 0 to below 1; None stands for no dropout."""
    for name in names:
        if not 0 <= (getattr(settings, name) or 0.0) < 1:
            raise SettingError(
                tr(
                    "architecture.{name} is from 0 to below 1; found {getattr}.",
                    name=name,
                    getattr=getattr(settings, name),
                )
            )
