"""Naming the token that follows."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from plmkit.layers.vocabulary_head import TiedHead
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class CausalLM:
    """At every position, name the token that follows (Radford et al., 2018, 3.1)."""

    weight: float = 1.0
    name: ClassVar = "causal_lm"
    reads: ClassVar = frozenset({"hidden", "targets"})

    def build(self, model: Any) -> "CausalLMHead":
        return CausalLMHead(model.embed.tokens)


class CausalLMHead(NamingHead):
    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.vocabulary = TiedHead(table)
