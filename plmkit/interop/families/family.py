"""What a family of Hugging Face models states about itself; huggingface.py reads and writes by it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from plmkit.architectures.contract import Architecture
from plmkit.data.batch import Batch
from plmkit.data.vocabulary import Vocabulary

Outputs = str | tuple[str, ...]  # names of what a class of theirs computes for one head of ours
SPAN: Outputs = ("start_logits", "end_logits")
Pair = tuple[str, tuple[str, ...]]  # our name of a weight, and theirs; of several, ours is their concatenation


@dataclass(frozen=True, kw_only=True)
class Net:
    """One network that becomes one Hugging Face folder."""

    architecture: Any
    weights: dict[str, Tensor]  # under the names that this architecture alone would give them
    place: str = ""  # the subfolder of the output folder; "" is that folder itself


class Family(ABC):
    """One model type of Hugging Face's.

    Reading:  config.json -> `architecture`; their weights -> `pairs` and HEADS -> ours.
    Writing:  the first family that `writes` the architecture -> `networks`, mostly one; for each, HEADS and CLASSES
              give the class of theirs with these heads, `config` its settings, `pairs` its weights.
    Checking: that class computes, and CLASSES gives the output of each head of ours.
    """

    MODEL_TYPE: ClassVar[str]  # in config.json
    TITLE: ClassVar[str]  # in messages
    RECIPE: ClassVar[str]  # of its paper
    PREFIX: ClassVar[str]  # of the network's weights, if there are heads too
    DECODER: ClassVar[str]  # their name of the output embedding, which is tied to the token embedding
    HEADS: ClassVar[Mapping[str, Mapping[str, str]]]  # for each head of ours, its weights and their names
    CLASSES: ClassVar[Mapping[str, Mapping[str, Outputs]]]  # for each class of theirs, its heads and their outputs
    SEGMENTS: ClassVar[bool] = True  # whether segments are passed to it
    REFUSALS: ClassVar[Mapping[type, Callable[[], str]]] = {}  # similar architectures, and why it cannot hold them

    @abstractmethod
    def writes(self, architecture: Architecture) -> bool:
        """Whether it can hold an architecture of ours."""

    @abstractmethod
    def architecture(self, config: dict[str, Any], where: Path) -> Architecture:
        """Our settings for a config of theirs; refuses what we cannot compute."""

    @abstractmethod
    def config(self, architecture: Any) -> dict[str, Any]:
        """Their settings for an architecture of ours."""

    @abstractmethod
    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """Every weight of the network without its heads; some classes of theirs rename weights by the head."""

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        """The networks to write; several if a run trains several."""
        return [Net(architecture=architecture, weights=weights)]

    def compared_with(self, batch: Batch, architecture: Any) -> Batch:
        """The batch of texts with what else the network reads, with which a folder is compared."""
        return batch

    def also_given(self, kind: str, batch: Batch) -> dict[str, Tensor]:
        """Further inputs of a class of theirs."""
        return {}

    def as_ours(self, name: str, theirs: Tensor, architecture: Any) -> Tensor:
        """One weight of theirs in our shape."""
        return theirs

    def as_theirs(self, name: str, ours: Tensor, architecture: Any) -> Tensor:
        """One weight of ours in their shape."""
        return ours

    def refusal(self, architecture: Architecture) -> str | None:
        """Why it cannot hold an architecture similar to its own; None for others."""
        return next((why() for kind, why in self.REFUSALS.items() if isinstance(architecture, kind)), None)
