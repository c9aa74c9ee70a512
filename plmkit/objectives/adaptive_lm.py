"""Saying what comes next, with rare tokens in clusters."""

from dataclasses import dataclass
from typing import Any, ClassVar

from plmkit.layers.adaptive import AdaptiveSoftmax
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class AdaptiveLM:
    """Say the next token by the input's own tables, rare ones by their cluster first (Dai et al., 2019)."""

    weight: float = 1.0
    shared_projections: bool = True  # narrow clusters are projected as at the input; False: by matrices of their own
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "AdaptiveLMHead":
        return AdaptiveLMHead(model, self.shared_projections)


class AdaptiveLMHead(NamingHead):
    def __init__(self, model: Any, shared_projections: bool) -> None:
        super().__init__()
        self.vocabulary = AdaptiveSoftmax(model.embed, shared_projections)
