"""Natural language inference."""

from dataclasses import dataclass
from typing import ClassVar

from plmkit.tasks.kinds.pair import Pair


@dataclass(frozen=True, kw_only=True)
class NLI(Pair):
    """Premise and hypothesis: contradiction, entailment or neutral (Bowman et al., 2015)."""

    kind: ClassVar[str] = "nli"
