"""What was recorded of a model's attention on one text, and what it says of each head."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from plmkit.errors import SettingError
from plmkit.language import tr
from plmkit.layers.recording import Kind


@dataclass(frozen=True, kw_only=True)
class AttentionPart:
    """Attention layers whose queries are the same tokens, and whose keys are."""

    kind: Kind
    encodes: bool = False  # the encoder of an encoder–decoder
    queries: tuple[str, ...]  # tokens, for display
    keys: tuple[str, ...]  # tokens of recurrent memory first
    memory: int = 0  # number of keys in recurrent memory
    weights: np.ndarray  # (layers, heads, queries, keys) float32, each query's add up to 1

    @property
    def layers(self) -> int:
        return len(self.weights)

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @cached_property
    def own_keys(self) -> np.ndarray:
        """(queries,) the key at each query's own position; between two texts, that on the diagonal of the matrix."""
        queries, keys = len(self.queries), len(self.keys)
        if self.kind != "cross":
            return self.memory + np.arange(queries)
        return np.round(np.arange(queries) * ((keys - 1) / max(1, queries - 1))).astype(np.int64)

    @cached_property
    def entropy(self) -> np.ndarray:
        """(layers, heads) entropy of the weights of a query, in bits, mean over queries."""
        logs = np.log2(self.weights, where=self.weights > 0, out=np.zeros_like(self.weights))
        return self.mean(-(self.weights * logs).sum(-1))

    @cached_property
    def distance(self) -> np.ndarray:
        """(layers, heads) tokens between a query's position and what it attends to, weighted mean."""
        far = np.abs(np.arange(len(self.keys)) - self.own_keys[:, None]).astype(np.float32)  # (queries, keys)
        return self.mean(np.einsum("lhqk,qk->lhq", self.weights, far))

    @cached_property
    def diagonal(self) -> np.ndarray:
        """(layers, heads) share of attention at a query's own position."""
        return self.mean(self.weights[:, :, np.arange(len(self.queries)), self.own_keys])

    def mean(self, values: np.ndarray) -> np.ndarray:
        """(layers, heads, queries) → (layers, heads), without queries that attend to nothing (XLNet's first)."""
        attending = self.weights.sum(-1) > 0.5
        return (values * attending).sum(-1) / np.maximum(1, attending.sum(-1))

    def heat_map(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """(queries, keys) of one head; without a head the mean over heads, without a layer the last one.

        Layers and heads count from 1.
        """
        shown = self.weights[number(layer or self.layers, self.layers, "layer") - 1]
        return shown.mean(0) if head is None else shown[number(head, self.heads, "head") - 1]


def number(value: int, highest: int, name: str) -> int:
    """A layer or head that exists."""
    if not 1 <= value <= highest:
        raise SettingError(
            tr("--{name} must be between 1 and {highest}; found {value}.", name=name, highest=highest, value=value)
        )
    return value


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Gradient × input: how much each token's embedding adds to an output of the model, to first order."""

    output: str  # the output, in words
    tokens: tuple[str, ...]
    scores: np.ndarray  # (tokens,) float32; positive: it raises the output


@dataclass(frozen=True, kw_only=True)
class Attended:
    """What a model attends to in one text, and which tokens its output depends on."""

    model: str
    tokens: tuple[str, ...]  # of the text as the model reads it, special tokens included
    parts: tuple[AttentionPart, ...]
    attribution: Attribution
    replaced: np.ndarray | None = None  # (tokens,) ELECTRA: probability that each was replaced
    mix: dict[str, np.ndarray] = field(default_factory=dict)  # ELMo: (layers,) weights of its layers, by where
    step: int | None = None  # of the checkpoint; None: the final weights

    @property
    def part(self) -> AttentionPart:
        """What is shown first: alignments if there are any."""
        if not self.parts:
            raise SettingError(tr("{model} has no attention to draw. Write a page: --out page.html", model=self.model))
        return next((part for part in self.parts if part.kind == "cross"), self.parts[0])
