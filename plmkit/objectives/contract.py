"""The contracts of objectives and of the heads they build."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.vocabulary_head import AdaptiveEmbedding, VocabularyHead

FIELDS = frozenset(field.name for kind in (Batch, States) for field in fields(kind))


class BuiltModel(Protocol):
    """What a head may use of the model that an architecture built: axes do not import each other."""

    @property
    def settings(self) -> Any:
        """The architecture, with its width and whatever else its objectives need."""

    @property
    def tied_embedding(self) -> nn.Embedding:
        """The token embedding, to which a head ties its output."""

    @property
    def adaptive_embedding(self) -> AdaptiveEmbedding | None:
        """The token embedding in clusters by frequency, where the model has one."""

    @property
    def spelled_vocabulary(self) -> Vocabulary | None:
        """The vocabulary, where the model has no token embedding that tells its size."""

    @property
    def generator_head(self) -> VocabularyHead | None:
        """The LM head of a generator, where the model has one."""


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """One loss of a recipe: its settings, and the head that computes it."""

    weight: float = 1.0  # loss weight
    learned_weight: bool = False  # `weight` is only the initial value and is trained (Kendall et al., 2018)
    name: ClassVar[str]  # of its loss in logs and of its head in saved weights; unique
    reads: ClassVar[frozenset[str]]  # fields of Batch and States
    label: ClassVar[str | None] = None  # in progress lines; None: its name
    sentence_task: ClassVar[str | None] = None  # the name of the task, if it classifies the texts of a row together
    left_to_right: ClassVar[bool] = False  # it predicts each token from those before it
    needs_objectives: ClassVar[tuple[str, ...]] = ()  # names of objectives whose heads its head uses
    needs_teacher: ClassVar[bool] = False  # it compares the network with a teacher, which `plm distill` gives it

    def __init_subclass__(cls) -> None:
        if unknown := cls.reads - FIELDS:
            raise TypeError(f"{cls.__name__}.reads has {sorted(unknown)}, which are not fields of Batch or States")

    def __post_init__(self) -> None:
        if self.learned_weight and not self.weight > 0:
            raise SettingError(
                tr(
                    "objectives.{name}.weight is the initial value of a learned weight and must be above 0; found "
                    "{weight:g}.",
                    name=self.name,
                    weight=self.weight,
                )
            )

    def for_any_layers(self) -> Self:
        """The same without what fits one number of layers only, to count the weights of others."""
        return self

    @property
    def region_classes(self) -> int | None:
        """Classes of image regions whose distributions it predicts, if it does."""
        return None

    @property
    def classes(self) -> Mapping[str, int]:
        """How many classes of labels its head tells apart, by field; they must be those of the rows."""
        return {}

    @abstractmethod
    def build(self, model: BuiltModel) -> "Head":
        """The head, with initial weights, on a model that an architecture built."""

    def for_graph(self, entities: int, relations: int) -> Self:
        """The objective for a knowledge graph with these numbers of entities and relations."""
        return self


class Head(nn.Module, ABC):
    """The part of a network that turns states into a loss."""

    fills: ClassVar[bool] = False  # `output` predicts masked tokens from both sides
    generates: ClassVar[bool] = False  # `output` predicts each token from those before it
    translates: ClassVar[bool] = False  # `output` predicts each token of a target from its source and those before it
    predicts_entities: ClassVar[bool] = False  # of a knowledge graph, and starts from their names
    uses_layers: ClassVar[bool] = False  # in training it uses the states of all layers
    uses_attention: ClassVar[bool] = False  # it uses queries, keys and values of all layers
    reads_teacher: frozenset[str] = frozenset()  # parts of a teacher that it compares with; those of Teacher.observe
    auxiliary: str | None = None  # name of a second loss, used in training only
    corpus_vocabulary: bool = False  # in training, `output` scores only tokens that occur in the corpus

    @abstractmethod
    def forward(self, states: States, batch: Batch) -> Tensor:
        """The mean loss over the predictions; called only if there are any."""

    @abstractmethod
    def scored(self, batch: Batch) -> int:
        """The number of predictions that the loss is the mean of."""

    def needed(self, batch: Batch) -> Tensor | None:
        """(B, L) True at the states it uses, besides the pooled one; None: all."""
        return None

    def answers(self, states: States, batch: Batch) -> Tensor:
        """Its predictions, as logits or numbers, in the head's own shape."""
        raise NotImplementedError(f"{type(self).__name__} is for training only")

    def auxiliary_loss(self, states: States, batch: Batch) -> Tensor:
        """The loss named by `auxiliary`; it has the same loss weight as the main one."""
        raise NotImplementedError(f"{type(self).__name__} has no auxiliary loss")

    def advance(self, progress: float) -> None:
        """Called before each step with the share of the run that is done."""

    def shared(self, states: States, batch: Batch) -> States:
        """The states, with what this head computes once for itself and another one."""
        return states

    def begin_from_names(self, names: Sequence[Sequence[int]], frequencies: Sequence[int]) -> None:
        """Initial weights from the tokens of the names of a graph's entities, and how often each is an answer."""

    def connect(self, heads: Mapping[str, "Head"]) -> None:
        """Called once all heads are built, to find those of `needs_objectives`."""

    @property
    def output(self) -> Any:
        """In a head that predicts tokens, the part that turns a state into one logit per token of the vocabulary."""
        return None


class TokenHead(Head):
    """Predicts the token at every position that has a target, by its part `vocabulary`."""

    vocabulary: Any  # from layers/: has `loss(hidden, targets)`, and returns logits when called

    @property
    def output(self) -> Any:
        return self.vocabulary

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        predicted = batch.predicted
        if states.logits is not None:
            return F.cross_entropy(states.logits.float(), self.vocabulary.softmax_index(batch.targets[predicted]))
        if bool(predicted.all()):  # as in all rows of a stream but the last
            return self.vocabulary.loss(states.hidden.flatten(0, 1), batch.targets.flatten())
        # for masked text, projecting only these saves 85% of the largest product
        return self.vocabulary.loss(states.hidden[predicted], batch.targets[predicted])

    def answers(self, states: States, batch: Batch) -> Tensor:
        """(B, L, vocabulary)."""
        return self.vocabulary(states.hidden)

    def scored(self, batch: Batch) -> int:
        return int(batch.predicted.sum())
