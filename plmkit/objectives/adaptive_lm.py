"""Saying what comes next, with rare tokens in clusters."""

from dataclasses import dataclass
from typing import Any, ClassVar

from plmkit.layers.adaptive import AdaptiveSoftmax
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class AdaptiveLM:
    """Say the next token by the input's own tables, rare ones by their cluster first (Dai et al., 2019)."""

    weight: float = 1.0
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "AdaptiveLMHead":
        return AdaptiveLMHead(model)


class AdaptiveLMHead(NamingHead):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vocabulary = AdaptiveSoftmax(model.embed)
