"""Naming tokens in a random order, each from those before it in that order."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from plmkit.layers.vocabulary_head import TableHead
from plmkit.objectives.naming import NamingHead


@dataclass(frozen=True, kw_only=True)
class PermutedLM:
    """Name the last tokens of a random order from their places and the tokens before them (Yang et al., 2019, 2.2)."""

    weight: float = 1.0
    frequency_bias: bool = False  # start the bias at how often each token occurs, which else takes minutes to learn
    name: ClassVar = "permuted_lm"
    reads: ClassVar = frozenset({"hidden", "targets", "attention_order"})

    def build(self, model: Any) -> "PermutedLMHead":
        return PermutedLMHead(model.embed.tokens, self.frequency_bias)


class PermutedLMHead(NamingHead):
    def __init__(self, table: nn.Embedding, frequency_bias: bool) -> None:
        super().__init__()
        self.frequency_bias = frequency_bias
        self.vocabulary = TableHead(table)
