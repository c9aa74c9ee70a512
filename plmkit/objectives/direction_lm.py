"""A language model in each of two directions, with one softmax."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

from torch import Tensor

from plmkit.data.batch import Batch, States
from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.vocabulary_head import SampledSoftmax
from plmkit.objectives.contract import BuiltModel, Head, Objective


@dataclass(frozen=True, kw_only=True)
class ForwardLM(Objective):
    """Predict the next word in rows that are read forwards (Peters et al., 2018, 3.1)."""

    weight: float = 0.5  # loss weight; 0.5 in both directions gives their mean
    samples: int = 8192  # words besides the target in the softmax of a training step; 0: all
    words: int | None = None  # the most frequent ones are predicted, others as unknown; none: all
    name: ClassVar = "forward_lm"
    label: ClassVar = "forward"
    reads: ClassVar = frozenset({"hidden", "targets", "reversed"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 0 or (self.words is not None and self.words < 1):
            raise SettingError(
                tr(
                    "objectives.forward_lm.samples must be 0 or more, and words at least 1; found {samples} and "
                    "{words}.",
                    samples=self.samples,
                    words=self.words,
                )
            )

    def build(self, model: BuiltModel) -> "ForwardLMHead":
        vocabulary = model.spelled_vocabulary
        if vocabulary is None:
            raise SettingError(
                tr(
                    "{architecture} has no network per direction, so ForwardLM has nothing to train. Choose Elmo, or "
                    "another objective.",
                    architecture=type(model.settings).__name__,
                )
            )
        words = min(vocabulary.rows, self.words or vocabulary.rows)
        return ForwardLMHead(
            SampledSoftmax(words, model.settings.width // 2, samples=self.samples, unknown=vocabulary.unknown)
        )


@dataclass(frozen=True, kw_only=True)
class BackwardLM(Objective):
    """Predict the previous word in rows that are read backwards (Peters et al., 2018, 3.1)."""

    weight: float = 0.5
    name: ClassVar = "backward_lm"
    label: ClassVar = "backward"
    reads: ClassVar = frozenset({"hidden", "targets", "reversed"})
    needs_objectives: ClassVar = (ForwardLM.name,)

    def build(self, model: BuiltModel) -> "BackwardLMHead":
        return BackwardLMHead()


class DirectionHead(Head):
    """The loss of the rows of one direction."""

    backward: ClassVar[bool]

    def predicted(self, batch: Batch) -> Tensor:
        """(B, L) True where a row of this direction has a target."""
        assert batch.reversed is not None
        return batch.predicted & (batch.reversed[:, None] == self.backward)

    def forward(self, states: States, batch: Batch) -> Tensor:
        assert batch.targets is not None
        predicted = self.predicted(batch)
        return self.softmax.loss(states.hidden[predicted], batch.targets[predicted])

    def scored(self, batch: Batch) -> int:
        return int(self.predicted(batch).sum())

    @property
    @abstractmethod
    def softmax(self) -> SampledSoftmax:
        """The output layer, which both directions share."""


class ForwardLMHead(DirectionHead):
    backward = False

    def __init__(self, vocabulary: SampledSoftmax) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    @property
    def softmax(self) -> SampledSoftmax:
        return self.vocabulary


class BackwardLMHead(DirectionHead):
    """Has no weights: the softmax is that of ForwardLM."""

    backward = True

    def __init__(self) -> None:
        super().__init__()
        self._forward: tuple[ForwardLMHead, ...] = ()  # in a tuple, so that torch does not register it here

    def connect(self, heads: Mapping[str, Head]) -> None:
        self._forward = (cast(ForwardLMHead, heads[ForwardLM.name]),)

    @property
    def softmax(self) -> SampledSoftmax:
        return self._forward[0].vocabulary
