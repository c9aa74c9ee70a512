"""What a family of Hugging Face models must say of itself; huggingface.py does the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from plmkit.data.vocabulary import Vocabulary

Pair = tuple[str, tuple[str, ...]]  # our name of a weight, and theirs: of several, ours holds one under the other


@dataclass(frozen=True, kw_only=True)
class Net:
    """One network that becomes one folder of theirs."""

    architecture: Any
    weights: dict[str, Tensor]  # under the names that this architecture alone would give them
    place: str = ""  # where, inside the folder that is asked for; "" is that folder itself


class Family(Protocol):
    """A module: one kind of model of theirs. FAMILIES in huggingface.py lists them.

    Reading:  config.json -> `architecture`; their weights -> `pairs` and HEADS -> ours.
    Writing:  the first family that `writes` the architecture -> `networks`, mostly one; for each, HEADS and
              CLASSES name the class of theirs with these heads, `config` its settings, `pairs` its weights.
    Shapes:   where theirs are not ours, `as_ours` and `as_theirs` (name of theirs, weight, architecture) turn them.
    Checking: that class computes, and CLASSES says which of its outputs is which head of ours; SEGMENTS = False
              where it must not be told of segments.
    """

    MODEL_TYPE: str  # as config.json has it
    TITLE: str  # as sentences have it
    RECIPE: str  # whose paper it is of
    PREFIX: str  # of the encoder's weights, where there are heads beside it
    DECODER: str  # their name for the decoder of hidden tokens, which is the token table again
    HEADS: dict[str, dict[str, str]]  # for each head of ours, its weights and what they call them
    CLASSES: dict[str, dict[str, str]]  # for each class of theirs, the heads it has and the output that answers

    def writes(self, architecture: Any) -> bool:
        """Can an architecture of ours be one of these?"""

    def networks(self, architecture: Any, weights: dict[str, Tensor], vocabulary: Vocabulary) -> list[Net]:
        """The networks to write; more than one where a run trains more than one."""

    def architecture(self, config: dict[str, Any], where: Path) -> Any:
        """Our settings for a config of theirs; refuses what we cannot compute."""

    def config(self, architecture: Any) -> dict[str, Any]:
        """Their settings for an architecture of ours."""

    def pairs(self, architecture: Any, heads: frozenset[str]) -> Iterator[Pair]:
        """Every weight of the encoder; the heads are there because some of theirs rename it."""
